//! From a socket's inode to who is at its other end, by `/proc/PID/net`.
//!
//! The tables list every socket of the network namespace, so they are read only for an inode that
//! was never seen; a connected socket's peer never changes, and is kept.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{ProcessError, ProcessView, unix_peer};

/// Sockets remembered; then all are forgotten, and the next tables read tell of those that live.
const REMEMBERED_MAX: usize = 65_536;
/// `TCP_LISTEN` and `TCP_CLOSE` of the kernel's `include/net/tcp_states.h`, as tables spell them.
const LISTEN: &str = "0A";

/// What carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A socket, as far as the kernel's tables tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socket {
    /// Connected, or about to be.
    Inet {
        /// The other end.
        peer: SocketAddr,
        /// `None` where only the address is known.
        transport: Option<Transport>,
    },
    /// Waits for connections.
    Listening {
        /// Where.
        local: SocketAddr,
    },
    /// Takes datagrams of anybody, or isn't connected.
    Unconnected {
        /// Where.
        local: SocketAddr,
    },
    /// A Unix socket bound to a path; abstract names begin with `@`.
    Unix {
        /// The path.
        path: String,
    },
    /// A Unix socket whose other end has no path, or can't be told.
    UnnamedUnix,
    /// In none of the tables: netlink, packet, …, or closed meanwhile.
    Unknown,
}

/// The sockets of one process' network namespace.
#[derive(Debug)]
pub struct Sockets {
    view: ProcessView,
    connected: HashMap<u64, Socket>,
}

impl Sockets {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(view: &ProcessView) -> Self {
        Self {
            view: view.clone(),
            connected: HashMap::new(),
        }
    }

    /// The socket of this inode.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn find(&mut self, inode: u64) -> Result<Socket, ProcessError> {
        if let Some(socket) = self.connected.get(&inode) {
            return Ok(socket.clone());
        }
        if self.connected.len() >= REMEMBERED_MAX {
            self.connected.clear();
        }
        let tables = [
            ("net/tcp", Some(Transport::Tcp)),
            ("net/tcp6", Some(Transport::Tcp)),
            ("net/udp", Some(Transport::Udp)),
            ("net/udp6", Some(Transport::Udp)),
            ("net/unix", None),
        ];
        for (table, transport) in tables {
            let Some(text) = self.read_table(table)? else {
                continue;
            };
            let mut found = None;
            for line in text.lines().skip(1) {
                let parsed = match transport {
                    Some(transport) => parse_inet(line, transport),
                    None => parse_unix(line),
                };
                let Some((of, socket)) = parsed else { continue };
                if of == inode {
                    found = Some(socket.clone());
                }
                if matches!(socket, Socket::Inet { .. } | Socket::Unix { .. }) {
                    self.connected.insert(of, socket);
                }
            }
            match found {
                Some(Socket::UnnamedUnix) => {
                    let socket = self.unix_peer(inode);
                    if socket != Socket::UnnamedUnix {
                        self.connected.insert(inode, socket.clone());
                    }
                    return Ok(socket);
                }
                Some(socket) => return Ok(socket),
                None => {}
            }
        }
        Ok(Socket::Unknown)
    }

    /// A client's end has no path, and its server's end has the one that it listens at.
    fn unix_peer(&self, inode: u64) -> Socket {
        // Without the kernel's diagnosis, and for a process in another network namespace, there
        // is no such peer in the table, and the socket stays unnamed.
        let peer = unix_peer::peer_of(inode).ok().flatten();
        match peer.and_then(|peer| self.connected.get(&peer)) {
            Some(named @ Socket::Unix { .. }) => named.clone(),
            _ => Socket::UnnamedUnix,
        }
    }

    /// The inode of the TCP socket that listens where `peer` connects to.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn listener(&self, peer: SocketAddr) -> Result<Option<u64>, ProcessError> {
        for table in ["net/tcp", "net/tcp6"] {
            let text = self.read_table(table)?.unwrap_or_default();
            let listening =
                text.lines()
                    .skip(1)
                    .find_map(|line| match parse_inet(line, Transport::Tcp)? {
                        (inode, Socket::Listening { local })
                            if local.port() == peer.port()
                                && (local.ip() == peer.ip() || local.ip().is_unspecified()) =>
                        {
                            Some(inode)
                        }
                        _ => None,
                    });
            if listening.is_some() {
                return Ok(listening);
            }
        }
        Ok(None)
    }

    /// `None` where the kernel lacks the protocol, IPv6 say.
    fn read_table(&self, name: &str) -> Result<Option<String>, ProcessError> {
        match self.view.read_text(name) {
            Ok(text) => Ok(Some(text)),
            Err(ProcessError::Ended { .. }) if self.view.root().exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// `sl local remote state queues timer retransmits uid timeout inode …` (proc(5)).
fn parse_inet(line: &str, transport: Transport) -> Option<(u64, Socket)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let local = parse_end(words.get(1)?)?;
    let peer = parse_end(words.get(2)?)?;
    let inode = words.get(9)?.parse().ok()?;
    let socket = if transport == Transport::Tcp && *words.get(3)? == LISTEN {
        Socket::Listening { local }
    } else if peer.port() == 0 {
        Socket::Unconnected { local }
    } else {
        let transport = Some(transport);
        Socket::Inet { peer, transport }
    };
    Some((inode, socket))
}

/// `0100007F:18EB`: words of the address as the machine has them in memory, then the port.
fn parse_end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = address.get(8 * index..8 * index + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index)?);
            }
            IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// `num refcount protocol flags type state inode path`, the path only where there is one.
fn parse_unix(line: &str) -> Option<(u64, Socket)> {
    let mut words = line.split_ascii_whitespace();
    let inode = words.nth(6)?.parse().ok()?;
    let socket = match words.next() {
        Some(path) => Socket::Unix {
            path: path.to_owned(),
        },
        None => Socket::UnnamedUnix,
    };
    Some((inode, socket))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_the_tables() {
        let line = "   1: 0100007F:9C40 0100007F:18EB 01 00000000:00000000 00:00000000 00000000  \
                    1000        0 4711 1 0000000000000000 20 4 30 10 -1";
        assert_eq!(
            parse_inet(line, Transport::Tcp),
            Some((
                4711,
                Socket::Inet {
                    peer: "127.0.0.1:6379".parse().expect("an address"),
                    transport: Some(Transport::Tcp),
                }
            ))
        );
        let line = "   0: 00000000000000000000000000000000:1F90 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000 0 0 12 1 0000000000000000 100 0 0 10 0";
        assert_eq!(
            parse_inet(line, Transport::Tcp),
            Some((
                12,
                Socket::Listening {
                    local: "[::]:8080".parse().expect("an address")
                }
            ))
        );
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 42 /run/x.sock";
        assert_eq!(
            parse_unix(line),
            Some((
                42,
                Socket::Unix {
                    path: "/run/x.sock".to_owned()
                }
            ))
        );
    }

    #[test]
    fn an_ipv4_peer_of_an_ipv6_socket_is_shown_as_ipv4() {
        assert_eq!(
            parse_end("0000000000000000FFFF00000100007F:18EB"),
            Some("127.0.0.1:6379".parse().expect("an address"))
        );
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "\\PC{0,120}") {
            let _ = (parse_inet(&line, Transport::Udp), parse_unix(&line), parse_end(&line));
        }
    }
}
