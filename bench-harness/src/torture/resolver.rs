//! A name server that takes its time: every name is this machine's loopback, after a delay.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where name servers listen (RFC 1035 §4.2).
const PORT: u16 = 53;
const HEAD: usize = 12;
const TYPE_A: [u8; 2] = [0, 1];

/// A running name server; it ends with its process.
#[derive(Debug)]
pub(super) struct SlowResolver {
    lookups: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
}

impl SlowResolver {
    /// Serves on that address. Questions for addresses of IPv6 are answered at once, with none.
    pub(super) fn start(address: Ipv4Addr, delay: Duration) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind((address, PORT))?);
        let (lookups, answers) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (counter, answered) = (Arc::clone(&lookups), Arc::clone(&answers));
        thread::Builder::new()
            .name("name-server".to_owned())
            .spawn(move || {
                let mut question = [0; 512];
                // A socket that fails has nobody left to answer.
                while let Ok((length, from)) = socket.recv_from(&mut question) {
                    let Some((answer, is_address)) = answer(&question[..length]) else {
                        continue;
                    };
                    if !is_address {
                        // Who asked may have gone; then nobody waits for it.
                        let _ = socket.send_to(&answer, from);
                        continue;
                    }
                    counter.fetch_add(1, Ordering::SeqCst);
                    let (socket, answered) = (Arc::clone(&socket), Arc::clone(&answered));
                    thread::spawn(move || {
                        thread::sleep(delay);
                        answered.fetch_add(1, Ordering::SeqCst);
                        // As above.
                        let _ = socket.send_to(&answer, from);
                    });
                }
            })?;
        Ok(Self { lookups, answers })
    }

    /// Addresses that were told, to whoever was still there.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    /// Addresses that were asked for.
    pub(super) fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::SeqCst)
    }
}

/// The answer to a message with one question (RFC 1035 §4.1), and whether that is an address;
/// `None` if it isn't such a message.
fn answer(message: &[u8]) -> Option<(Vec<u8>, bool)> {
    if message.get(4..6)? != [0, 1] {
        return None;
    }
    let mut at = HEAD;
    loop {
        let label = usize::from(*message.get(at)?);
        at += 1 + label;
        if label == 0 {
            break;
        }
    }
    let is_address = message.get(at..at + 2)? == TYPE_A;
    let question = message.get(HEAD..at + 4)?;
    let mut answer = message[..2].to_vec();
    // An answer without error, recursion desired and available; one question.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(question);
    if is_address {
        // The question's name, A, IN, good for no time at all, 4 bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(Ipv4Addr::LOCALHOST.octets());
    }
    Some((answer, is_address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(of: u8) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        message.extend(b"\x07torture\x04test\0");
        message.extend([0, of, 0, 1]);
        message.extend(b"what else a resolver adds");
        message
    }

    #[test]
    fn an_address_is_answered_and_anything_else_has_none() {
        let (a, is_address) = answer(&question(1)).expect("a question");
        assert!(is_address);
        assert_eq!(a[..8], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1]);
        assert_eq!(a[a.len() - 4..], [127, 0, 0, 1]);
        let (aaaa, is_address) = answer(&question(28)).expect("a question");
        assert!(!is_address && aaaa[7] == 0);
        assert_eq!(answer(b""), None);
        assert_eq!(answer(&question(1)[..20]), None);
    }
}
