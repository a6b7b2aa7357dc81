//! The stubs of upstream services through their sockets: never faster than stated, and counted.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use unstall_testbed::{Hub, HubStub, IdentityStub, ListenerStub, TrackerStub};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LATENCY: Duration = Duration::from_millis(20);

/// Status line, body, and how long the answer took from before the request.
fn ask(address: SocketAddr, head: &str, body: &str) -> Outcome<(String, String, Duration)> {
    let mut stream = TcpStream::connect(address)?;
    let began = Instant::now();
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer installation-1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status)?;
    let took = began.elapsed();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok((
        status.trim_end().to_owned(),
        String::from_utf8(answer)?,
        took,
    ))
}

#[test]
fn sign_ins_and_notifications_take_the_stated_time_and_are_counted() -> Outcome {
    let stub = IdentityStub::start(LATENCY)?;
    let sign_in = "POST /v1/accounts:signInWithPassword?key=k";
    let good = r#"{"email":"u-1@example.test","password":"password"}"#;
    let (status, body, took) = ask(stub.addr(), sign_in, good)?;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains(r#""idToken":"token-u-1""#), "{body}");
    assert!(took >= LATENCY, "{took:?}");
    let (status, _, took) = ask(stub.addr(), sign_in, "{}")?;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(took >= LATENCY, "{took:?}");

    assert_eq!(stub.latest_notification(), None);
    let (status, _, took) = ask(stub.addr(), "POST /hook", r#"{"text":"hello"}"#)?;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(took >= LATENCY, "{took:?}");
    assert_eq!(
        stub.latest_notification().as_deref(),
        Some(r#"{"text":"hello"}"#)
    );
    assert_eq!(stub.hook_url(), format!("http://{}/hook", stub.addr()));

    assert_eq!(stub.requests(IdentityStub::SIGN_IN), 2);
    assert_eq!(stub.requests(IdentityStub::HOOK), 1);
    Ok(())
}

#[test]
fn many_wait_at_the_same_time() -> Outcome {
    let stub = IdentityStub::start(LATENCY)?;
    let address = stub.addr();
    let clients: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(move || ask(address, "POST /hook", "{}")))
        .collect();
    for client in clients {
        let (_, _, took) = client.join().map_err(|_| "a client panicked")??;
        assert!(took >= LATENCY, "{took:?}");
    }
    assert_eq!(stub.requests(IdentityStub::HOOK), 20);
    Ok(())
}

#[test]
fn a_hub_is_walked_page_by_page() -> Outcome {
    let hub = Hub {
        installations: 1,
        repositories: 5,
    };
    let stub = HubStub::start(LATENCY, hub)?;
    let (status, body, took) = ask(stub.addr(), "POST /app/installations/1/access_tokens", "")?;
    assert_eq!(status, "HTTP/1.1 201 Created");
    assert!(body.contains(r#""token":"installation-1""#), "{body}");
    assert!(took >= LATENCY, "{took:?}");
    let mut names = 0;
    for page in 1..=3 {
        let head = format!("GET /installation/repositories?per_page=2&page={page}");
        let (_, body, took) = ask(stub.addr(), &head, "")?;
        assert!(took >= LATENCY, "{took:?}");
        names += body.matches(r#""full_name":"org-1/"#).count();
    }
    assert_eq!(names, 5);
    assert_eq!(stub.requests(HubStub::TOKEN), 1);
    assert_eq!(stub.requests(HubStub::REPOSITORIES), 3);
    assert_eq!(stub.requests(HubStub::ORGS), 0);
    Ok(())
}

#[test]
fn a_tracker_answers_graphql() -> Outcome {
    let stub = TrackerStub::start(LATENCY, 3)?;
    let query = r#"{"query":"query Issue($id: String!) { issue(id: $id) { id } }","variables":{"id":"ENG-3"}}"#;
    let (status, body, took) = ask(stub.addr(), "POST /graphql", query)?;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains(r#""identifier":"ENG-3""#), "{body}");
    assert!(took >= LATENCY, "{took:?}");
    assert_eq!(stub.requests(TrackerStub::GRAPHQL), 1);
    Ok(())
}

#[test]
fn mail_and_events_are_taken_and_counted() -> Outcome {
    let stub = ListenerStub::start(LATENCY)?;
    assert_eq!(stub.latest(ListenerStub::MAIL), None);
    let (status, _, took) = ask(stub.addr(), "POST /emails", r#"{"to":["a@b.test"]}"#)?;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(took >= LATENCY, "{took:?}");
    for event in ["{}", r#"{"event":"x"}"#] {
        let (status, _, _) = ask(stub.addr(), "POST /capture", event)?;
        assert_eq!(status, "HTTP/1.1 200 OK");
    }
    assert_eq!(stub.requests(ListenerStub::MAIL), 1);
    assert_eq!(stub.requests(ListenerStub::ANALYTICS), 2);
    let event = stub.latest(ListenerStub::ANALYTICS);
    assert_eq!(event.as_deref(), Some(r#"{"event":"x"}"#));
    assert_eq!(stub.mail_url(), format!("http://{}/emails", stub.addr()));
    Ok(())
}
