//! An HTTP proxy of the tests: opens tunnels and forwards plain requests, to those who know its
//! password if it has one, and keeps what it was asked.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A running proxy. It lives as long as the test program: its threads end with their connections.
pub(crate) struct TestProxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

/// How it treats whoever comes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Opens and forwards whatever it is asked for.
    Open,
    /// The same, for those who send this header's value.
    Guarded(&'static str),
    /// Refuses everything with this status line.
    Refusing(&'static str),
    /// Hangs up without a word.
    Silent,
}

impl TestProxy {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let for_thread = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let asked = Arc::clone(&for_thread);
                std::thread::spawn(move || {
                    // Clients that leave are no fault of it.
                    let _ = client.and_then(|client| serve(client, manner, &asked));
                });
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn with_credentials(&self, credentials: &str) -> String {
        format!("http://{credentials}@127.0.0.1:{}", self.port)
    }

    /// The heads of the first requests of all connections.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panicked with it").clone()
    }
}

fn serve(mut client: TcpStream, manner: Manner, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    asked
        .lock()
        .expect("nobody panicked with it")
        .push(head.clone());
    match manner {
        Manner::Silent => return Ok(()),
        Manner::Refusing(status) => {
            return client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes());
        }
        Manner::Guarded(value) if !head.contains(&format!("proxy-authorization: {value}\r\n")) => {
            let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\
                            proxy-authenticate: Basic\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            return client.write_all(refusal);
        }
        Manner::Open | Manner::Guarded(_) => {}
    }
    let target = head.split(' ').nth(1).expect("a request target");
    let is_tunnel = head.starts_with("CONNECT ");
    let authority = match target.strip_prefix("http://") {
        Some(rest) if !is_tunnel => rest.split('/').next().expect("an authority"),
        _ => target,
    };
    let mut service = TcpStream::connect(authority)?;
    if is_tunnel {
        // In two writes, since clients must not read beyond the head.
        client.write_all(b"HTTP/1.1 200 Connection")?;
        client.write_all(b" established\r\nvia: test\r\n\r\n")?;
    } else {
        service.write_all(head.as_bytes())?;
    }
    let (mut from_service, mut to_client) = (service.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let copied = io::copy(&mut from_service, &mut to_client);
        // Whoever is gone has gone.
        let _ = copied.and_then(|_| to_client.shutdown(Shutdown::Both));
    });
    io::copy(&mut client, &mut service)?;
    service.shutdown(Shutdown::Both)
}
