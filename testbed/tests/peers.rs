//! The peers do on the wire what their tables say, and their counts are exact.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use unstall_testbed::{Behaviour, ExactDelay, FaultyCounts, FaultyServer, RouteTruth};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

fn send(stream: &mut TcpStream, method: &str, path: &str) -> std::io::Result<()> {
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
}

/// All that comes until the end of the connection, after a request that asks for that end.
fn exchange(address: SocketAddr, method: &str, path: &str) -> Outcome<Result<String, ErrorKind>> {
    let mut stream = connect(address)?;
    stream.write_all(
        format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = vec![];
    Ok(match stream.read_to_end(&mut answer) {
        Ok(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) => Err(error.kind()),
    })
}

/// One answer with a Content-Length on a connection that stays open.
fn read_answer(stream: &mut TcpStream) -> Outcome<String> {
    let mut answer = String::new();
    let mut byte = [0];
    while !answer.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        answer.push(char::from(byte[0]));
    }
    let (_, rest) = answer.split_once("Content-Length: ").ok_or("no length")?;
    let length = rest.split("\r\n").next().ok_or("no length")?.parse()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(answer + &String::from_utf8(body)?)
}

#[test]
fn exact_delays_are_stamped_and_never_shorter_than_stated() -> Outcome {
    let server = ExactDelay::start()?;
    let address = server.addr();
    let clients: Vec<_> = (0..10)
        .map(|_| {
            thread::spawn(move || -> Outcome<Vec<Duration>> {
                let mut stream = connect(address)?;
                let mut seen = vec![];
                for _ in 0..10 {
                    let began = Instant::now();
                    send(&mut stream, "GET", "/delay/5?query=ignored")?;
                    assert!(read_answer(&mut stream)?.ends_with(r#"{"delay_ms":5}"#));
                    seen.push(began.elapsed());
                }
                Ok(seen)
            })
        })
        .collect();
    let mut seen = vec![];
    for client in clients {
        seen.extend(client.join().map_err(|_| "a client panicked")??);
    }

    let mut truth = server.truth("/delay/5").receive_to_send_ns;
    assert_eq!(truth.len(), 100);
    assert!(truth.iter().all(|took| *took >= 5_000_000), "{truth:?}");
    truth.sort_unstable();
    seen.sort_unstable();
    eprintln!(
        "5 ms: truth p50 {} ns, p95 {} ns; client p50 {:?}",
        truth[50], truth[95], seen[50]
    );
    // Each of a client's times contains one of the server's.
    assert!(
        seen.iter()
            .zip(&truth)
            .all(|(seen, truth)| seen.as_nanos() >= u128::from(*truth))
    );
    server.reset_truth();
    assert_eq!(server.truth("/delay/5"), RouteTruth::default());
    Ok(())
}

#[test]
fn one_in_fifty_is_slow_and_the_truth_is_served() -> Outcome {
    let server = ExactDelay::start()?;
    let mut stream = connect(server.addr())?;
    for _ in 0..100 {
        send(&mut stream, "POST", "/one-in/50/40")?;
        read_answer(&mut stream)?;
    }
    let truth = server.truth("/one-in/50/40").receive_to_send_ns;
    let slow: Vec<usize> = (0..100)
        .filter(|index| truth[*index] >= 40_000_000)
        .collect();
    assert!(slow.contains(&49) && slow.contains(&99), "{slow:?}");

    send(&mut stream, "GET", "/health")?;
    assert!(read_answer(&mut stream)?.starts_with("HTTP/1.1 200 OK"));
    send(&mut stream, "GET", "/delay/never")?;
    assert!(read_answer(&mut stream)?.starts_with("HTTP/1.1 404"));
    send(&mut stream, "GET", "/truth")?;
    let served = read_answer(&mut stream)?;
    let times: Vec<String> = truth.iter().map(u64::to_string).collect();
    let expected = format!(
        r#"{{"/one-in/50/40":{{"count":100,"receive_to_send_ns":[{}]}}}}"#,
        times.join(",")
    );
    assert!(served.ends_with(&expected), "{served}");
    Ok(())
}

#[test]
fn every_fault_is_on_the_wire_as_the_table_says() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}";
    for (path, begins, ends) in [
        ("/ok", ok, "{\"status\":\"ok\"}"),
        ("/500", "HTTP/1.1 500 ", "}"),
        (
            "/wrong-shape",
            "HTTP/1.1 200 OK",
            "{\"unexpected\":[1,2,3]}",
        ),
        ("/not-json", "HTTP/1.1 200 OK", "</html>"),
        ("/rubbish", "\u{1}\u{2} this", "at all\n"),
        ("/half-head", "HTTP/1.1 200 OK\r\nContent-Ty", "Content-Ty"),
        ("/close", "", ""),
        ("/truncated", "HTTP/1.1 200 OK", "{\"status\":\"o"),
        ("/truncated-chunked", "HTTP/1.1 200 OK", "{\"status\""),
        ("/slow-body/10", "HTTP/1.1 200 OK", "\r\n\r\nxxxxxxxxxx"),
        (
            "/continue",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
            "{\"status\":\"ok\"}",
        ),
        (
            "/early-hints",
            "HTTP/1.1 103 Early Hints",
            "{\"status\":\"ok\"}",
        ),
        (
            "/204-chunked",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked",
            "\r\n\r\n",
        ),
        (
            "/304-length",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 100",
            "\r\n\r\n",
        ),
        ("/chunked", "HTTP/1.1 200 OK", "\r\n0\r\n\r\n"),
        ("/until-close", "HTTP/1.1 200 OK", "{\"status\":\"ok\"}"),
        ("/nonsense", "HTTP/1.1 404", "}"),
    ] {
        let got =
            exchange(server.addr(), "GET", path)?.map_err(|kind| format!("{path}: {kind}"))?;
        assert!(
            got.starts_with(begins) && got.ends_with(ends),
            "{path}: {got:?}"
        );
    }
    for path in ["/reset", "/reset-in-body"] {
        assert_eq!(
            exchange(server.addr(), "GET", path)?,
            Err(ErrorKind::ConnectionReset),
            "{path}"
        );
    }
    let head = exchange(server.addr(), "HEAD", "/ok")?;
    assert_eq!(head.as_deref(), Ok(&ok[..ok.len() - 15]));
    assert_eq!(server.connections(), 20);
    assert_eq!(server.requests(), 20);
    Ok(())
}

#[test]
fn a_hanging_answer_ends_with_the_server() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let mut stream = connect(server.addr())?;
    send(&mut stream, "GET", "/hang-in-body")?;
    let mut head = [0; 15];
    stream.read_exact(&mut head)?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut rest = vec![];
    let error = stream.read_to_end(&mut rest).expect_err("it hangs");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(server);
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.read_to_end(&mut rest)?;
    assert!(rest.ends_with(b"{\"status\":\"o"));
    Ok(())
}

#[test]
fn turns_are_counted_over_all_connections() -> Outcome {
    let server = FaultyServer::start(Behaviour::Paths)?;
    let (mut one, mut other) = (connect(server.addr())?, connect(server.addr())?);
    let mut statuses = vec![];
    for turn in 0..10 {
        let stream = if turn % 2 == 0 { &mut one } else { &mut other };
        send(stream, "GET", "/every/3/503")?;
        statuses.push(read_answer(stream)?[9..12].to_owned());
    }
    assert_eq!(
        statuses,
        [
            "200", "200", "503", "200", "200", "503", "200", "200", "503", "200"
        ]
    );
    assert_eq!(
        server.counts("/every/3/503"),
        FaultyCounts {
            requests: 10,
            faults: 3
        }
    );
    assert_eq!(server.connections(), 2);
    Ok(())
}

#[test]
fn whole_servers_misbehave() -> Outcome {
    let refusing = FaultyServer::start(Behaviour::Refuse)?;
    let error = TcpStream::connect(refusing.addr()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

    let closing = FaultyServer::start(Behaviour::CloseOnAccept)?;
    assert_eq!(connect(closing.addr())?.read(&mut [0])?, 0);

    let resetting = FaultyServer::start(Behaviour::ResetOnAccept)?;
    let error = connect(resetting.addr())?
        .read(&mut [0])
        .expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let silent = FaultyServer::start(Behaviour::Silent)?;
    let mut stream = connect(silent.addr())?;
    send(&mut stream, "GET", "/ok")?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    assert_eq!(
        stream.read(&mut [0]).map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock)
    );
    Ok(())
}

#[test]
fn a_server_dies_after_its_last_answer() -> Outcome {
    let server = FaultyServer::start(Behaviour::DiesAfter(5))?;
    let (mut one, mut other) = (connect(server.addr())?, connect(server.addr())?);
    for _ in 0..5 {
        send(&mut one, "GET", "/ok")?;
        read_answer(&mut one)?;
    }
    send(&mut one, "GET", "/ok")?;
    assert_eq!(one.read(&mut [0])?, 0);
    assert_eq!(other.read(&mut [0])?, 0);
    assert!(TcpStream::connect(server.addr()).is_err());
    assert_eq!(
        server.counts("/ok"),
        FaultyCounts {
            requests: 6,
            faults: 1
        }
    );
    Ok(())
}
