//! Between the service and PostgreSQL: counts the statements that pass, by kind, from the messages
//! of the protocol (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Statements by their first word.
pub(crate) type Kinds = BTreeMap<String, u64>;

/// The wire. Its threads end with the test's process.
pub(crate) struct SqlWire {
    pub(crate) address: SocketAddr,
    kinds: Arc<Mutex<Kinds>>,
}

impl SqlWire {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let kinds = Arc::new(Mutex::new(Kinds::new()));
        let for_thread = Arc::clone(&kinds);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client");
                let server = TcpStream::connect(server).expect("the server is there");
                join(&client, &server, Arc::clone(&for_thread));
            }
        });
        Self { address, kinds }
    }

    /// What has passed since it was asked last.
    pub(crate) fn take(&self) -> Kinds {
        std::mem::take(&mut self.kinds.lock().expect("not poisoned"))
    }
}

fn join(client: &TcpStream, server: &TcpStream, kinds: Arc<Mutex<Kinds>>) {
    let both = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let (from_client, to_server) = (both(client), both(server));
    let (from_server, to_client) = (both(server), both(client));
    thread::spawn(move || {
        let mut messages = Messages::default();
        pump(from_client, to_server, |bytes| {
            for kind in messages.kinds(bytes) {
                *kinds.lock().expect("not poisoned").entry(kind).or_default() += 1;
            }
        });
    });
    thread::spawn(move || pump(from_server, to_client, |_| ()));
}

/// Copies until either side ends. What is seen is seen before it is passed on.
fn pump(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        see(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Either may be closed already.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A client's side of one connection.
#[derive(Default)]
struct Messages {
    unread: Vec<u8>,
    /// Whether the startup message, which has no type, has passed.
    started: bool,
    prepared: HashMap<String, String>,
}

impl Messages {
    fn kinds(&mut self, bytes: &[u8]) -> Vec<String> {
        self.unread.extend_from_slice(bytes);
        let mut kinds = Vec::new();
        while let Some((kind, message)) = self.next() {
            kinds.extend(self.kind(kind, &message));
        }
        // How a pool tries a connection is no statement of a request.
        kinds.retain(|kind| kind != "SELECT 1");
        kinds
    }

    /// A whole message: its type and what follows the length.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = usize::from(self.started);
        let length = self.unread.get(head..head + 4)?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if self.unread.len() < head + length {
            return None;
        }
        let message: Vec<u8> = self.unread.drain(..head + length).collect();
        let kind = if self.started { message[0] } else { 0 };
        // Requests for encryption come before the startup message and have other versions.
        self.started |= message[head + 4..].starts_with(&[0, 3, 0, 0]);
        Some((kind, message[head + 4..].to_vec()))
    }

    fn kind(&mut self, kind: u8, message: &[u8]) -> Option<String> {
        let mut texts = message
            .split(|byte| *byte == 0)
            .map(|text| String::from_utf8_lossy(text).into_owned());
        let mut text = || texts.next().unwrap_or_default();
        match kind {
            b'Q' => Some(first_word(&text())),
            b'P' => {
                let name = text();
                self.prepared.insert(name, first_word(&text()));
                None
            }
            b'B' => {
                let _portal = text();
                self.prepared.get(&text()).cloned()
            }
            _ => None,
        }
    }
}

fn first_word(sql: &str) -> String {
    let line = sql
        .lines()
        .find(|line| !line.starts_with("--"))
        .unwrap_or_default();
    if line == "SELECT 1" {
        return line.to_owned();
    }
    line.split([' ', ';']).next().unwrap_or_default().to_owned()
}

#[test]
fn messages_are_read_wherever_they_are_cut() {
    let typed = |kind: u8, body: &[u8]| {
        let length = u32::try_from(body.len() + 4).expect("short");
        [&[kind][..], &length.to_be_bytes(), body].concat()
    };
    let all = [
        &[0, 0, 0, 8, 4, 210, 22, 47][..], // asks for TLS
        &[0, 0, 0, 9, 0, 3, 0, 0, 0],
        &typed(b'Q', b"BEGIN\0"),
        &typed(b'P', b"s1\0-- why\nSELECT x\0\0\0"),
        &typed(b'P', b"s2\0SELECT 1\0\0\0"),
        &typed(b'B', b"\0s1\0\0\0"),
        &typed(b'B', b"\0s2\0\0\0"),
        &typed(b'S', b""),
        &typed(b'B', b"\0s1\0\0\0"),
        &typed(b'Q', b"COMMIT\0"),
    ]
    .concat();
    for cut in 0..all.len() {
        let mut messages = Messages::default();
        let mut kinds = messages.kinds(&all[..cut]);
        kinds.extend(messages.kinds(&all[cut..]));
        assert_eq!(kinds, ["BEGIN", "SELECT", "SELECT", "COMMIT"], "at {cut}");
    }
}
