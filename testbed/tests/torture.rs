//! The torture server's later tricks on the wire: frames, cuts, early answers, ends; and what it
//! counts of them.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use unstall_testbed::{
    Behaviour, FaultyServer, RIGHT_FRAMES, StreamFormat, WRONG_FRAMES, right_answer,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &str) -> std::io::Result<()> {
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n").as_bytes())
}

/// All that comes until the end of the connection, after a request that asks for that end.
fn exchange(server: &FaultyServer, path: &str) -> Outcome<Vec<u8>> {
    let mut stream = connect(server.addr())?;
    send(&mut stream, "GET", path, "Connection: close\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn read_exactly(stream: &mut TcpStream, text: &str) -> Outcome {
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    assert_eq!(String::from_utf8_lossy(&answer), text);
    Ok(())
}

/// Until the server knows that so many connections stand.
fn wait_for_open(server: &FaultyServer, open: u64) {
    let begun = Instant::now();
    while server.connections_open().0 != open {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "never {open} open"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn answers_are_split_cut_slow_and_large() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let whole = right_answer();
    for path in ["/split/10", "/split/9999", "/slowly/0", "/framing/bytes"] {
        assert_eq!(exchange(&server, path)?, whole.as_bytes(), "{path}");
    }
    assert_eq!(exchange(&server, "/cut/20")?, &whole.as_bytes()[..20]);
    let error = exchange(&server, "/reset-at/20").expect_err("reset");
    let error = error.downcast::<std::io::Error>()?;
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let large = exchange(&server, "/large/200001")?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 200001\r\n\r\n";
    assert!(large.starts_with(head.as_bytes()));
    assert_eq!(large.len(), head.len() + 200_001);

    for format in StreamFormat::ALL {
        let body = format.complete_body();
        let cut = exchange(&server, &format!("/stream-cut/30/{}", format.name()))?;
        assert!(cut.ends_with(&body.as_bytes()[..30]), "{format:?}");
        assert!(!cut.ends_with(&body.as_bytes()[..31]), "{format:?}");
    }
    Ok(())
}

#[test]
fn every_frame_is_served_and_the_right_ones_hold_an_answer() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    for name in RIGHT_FRAMES {
        let mut stream = connect(server.addr())?;
        send(
            &mut stream,
            "GET",
            &format!("/framing/{name}"),
            "Connection: close\r\n",
        )?;
        let mut answer = vec![];
        stream.read_to_end(&mut answer)?;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1."), "{name}: {text:?}");
        assert!(!text.contains(" 404 "), "{name}");
    }
    for name in WRONG_FRAMES {
        let mut stream = connect(server.addr())?;
        send(&mut stream, "GET", &format!("/framing/{name}"), "")?;
        let mut begin = [0; 12];
        // Nothing at all, or a reset, is as wrong as what some of them send.
        if stream.read(&mut begin).is_ok_and(|length| length == 12) {
            assert_ne!(&begin, b"HTTP/1.1 404", "{name}");
        }
    }
    wait_for_open(&server, 0);
    Ok(())
}

#[test]
fn an_early_answer_comes_before_the_body() -> Outcome {
    let refusal = |connection: &str| {
        format!(
            "HTTP/1.1 413 Content Too Large\r\n{connection}Content-Type: application/json\r\n\
             Content-Length: 21\r\n\r\n{{\"error\":\"too large\"}}"
        )
    };
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    send(&mut stream, "POST", "/early/read", "Content-Length: 5\r\n")?;
    read_exactly(&mut stream, &refusal(""))?;
    stream.write_all(b"hello")?;
    send(&mut stream, "GET", "/ok", "")?;
    read_exactly(&mut stream, &right_answer())?;

    let mut closed = connect(server.addr())?;
    send(
        &mut closed,
        "POST",
        "/early/half-close",
        "Content-Length: 5\r\n",
    )?;
    read_exactly(&mut closed, &refusal("Connection: close\r\n"))?;
    assert_eq!(closed.read(&mut [0])?, 0, "FIN");
    closed.write_all(b"hello")?;

    let mut deaf = connect(server.addr())?;
    send(&mut deaf, "POST", "/early/deaf", "Content-Length: 5\r\n")?;
    read_exactly(&mut deaf, &refusal(""))?;
    wait_for_open(&server, 3);
    deaf.shutdown(Shutdown::Write)?;
    drop((stream, closed));
    wait_for_open(&server, 0);
    Ok(())
}

#[test]
fn an_echo_comes_while_the_body_is_still_on_its_way() -> Outcome {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    send(&mut stream, "POST", "/early/echo", "Content-Length: 10\r\n")?;
    read_exactly(&mut stream, head)?;
    for _ in 0..2 {
        stream.write_all(b"hello")?;
        read_exactly(&mut stream, "5\r\nhello\r\n")?;
    }
    read_exactly(&mut stream, "0\r\n\r\n")?;
    send(&mut stream, "HEAD", "/early/echo", "")?;
    read_exactly(&mut stream, head)?;
    send(&mut stream, "GET", "/ok", "")?;
    read_exactly(&mut stream, &right_answer())
}

#[test]
fn a_half_closed_connection_stands_until_its_client_closes() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    send(&mut stream, "GET", "/framing/half-close", "")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.ends_with("{\"status\":\"ok\"}"));
    assert_eq!(server.connections_open(), (1, 1));
    assert_eq!(server.bytes_sent(), answer.len() as u64);
    drop(stream);
    wait_for_open(&server, 0);
    assert_eq!(server.connections_open(), (0, 1));
    Ok(())
}

#[test]
fn what_never_ends_goes_on_until_the_client_has_gone() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    send(&mut stream, "GET", "/framing/endless-head", "")?;
    let mut much = vec![0; 4 << 20];
    stream.read_exact(&mut much)?;
    assert!(much.starts_with(b"HTTP/1.1 200 OK\r\nX-Endless: "));
    assert!(!much.windows(4).any(|four| four == b"\r\n\r\n"));
    drop(stream);
    wait_for_open(&server, 0);
    Ok(())
}

#[test]
fn a_full_queue_lets_nobody_connect() -> Outcome {
    let server = FaultyServer::start(Behaviour::Full)?;
    let patience = Duration::from_millis(200);
    let error = TcpStream::connect_timeout(&server.addr(), patience).expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    Ok(())
}

#[test]
fn requests_are_kept_as_they_came() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    let headers = "Content-Length: 2\r\nAuthorization: Bearer t\r\nCookie: a=b\r\n";
    send(&mut stream, "PUT", "/redirect/307/hops/2?q=1", headers)?;
    stream.write_all(b"hi")?;
    read_exactly(
        &mut stream,
        "HTTP/1.1 307 Elsewhere\r\nLocation: 1\r\nContent-Length: 9\r\n\r\nelsewhere",
    )?;
    let [received] = &server.received()[..] else {
        return Err("not one request".into());
    };
    assert_eq!(
        (received.method.as_str(), received.path.as_str()),
        ("PUT", "/redirect/307/hops/2")
    );
    assert_eq!(received.authorization.as_deref(), Some("Bearer t"));
    assert_eq!(received.cookie.as_deref(), Some("a=b"));
    assert_eq!(
        (
            received.accept_encoding.as_deref(),
            received.body.as_slice()
        ),
        (None, &b"hi"[..])
    );
    Ok(())
}

#[test]
fn a_coded_body_says_how() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    for (coding, says) in [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("raw-deflate", "deflate"),
        ("br", "br"),
    ] {
        let whole = exchange(&server, &format!("/coded/{coding}/whole"))?;
        let text = String::from_utf8_lossy(&whole);
        assert!(
            text.contains(&format!("Content-Encoding: {says}\r\n")),
            "{text}"
        );
        let more = exchange(&server, &format!("/coded/{coding}/more"))?;
        assert!(more.len() >= whole.len() + 8, "{coding}");
    }
    Ok(())
}

#[test]
fn it_listens_where_it_is_told_to() -> Outcome {
    match FaultyServer::start_at(Ipv6Addr::LOCALHOST.into()) {
        Ok(server) => assert_eq!(exchange(&server, "/ok")?, right_answer().as_bytes()),
        Err(error) => eprintln!("skipped: there is no [::1] here: {error}"),
    }
    Ok(())
}
