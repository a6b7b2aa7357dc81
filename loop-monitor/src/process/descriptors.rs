//! What a call is about: its descriptor, path or address, read from the process, as a target.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::calls::{Call, DescriptorArgument};
use super::peers::Peers;
use super::sockets::{Socket, Sockets};
use super::task::Syscall;
use super::{ProcessError, ProcessView};
use crate::cause::Target;

/// Longer lists name one of the first.
const POLLED_MAX: u64 = 64;
/// `FD_SETSIZE`, in words.
const SELECT_WORDS_MAX: u64 = 16;
/// `PATH_MAX`.
const PATH_BYTES: usize = 4096;
/// `struct sockaddr_un`, the longest of those read here.
const ADDRESS_BYTES: usize = 110;

/// Tells what descriptors are, with what it has learnt about sockets and peers.
#[derive(Debug)]
pub struct Descriptors {
    view: ProcessView,
    sockets: Sockets,
    peers: Peers,
}

impl Descriptors {
    /// For one process.
    #[must_use]
    pub fn new(view: &ProcessView, peers: Peers) -> Self {
        Self {
            view: view.clone(),
            sockets: Sockets::new(view),
            peers,
        }
    }

    /// Reads from the process' memory what `syscall` is about, while it is in it: descriptor
    /// numbers, a path, an address. Small and quick; names come later.
    #[must_use]
    pub fn read_subject(&self, call: &Call, syscall: &Syscall) -> Subject {
        let arguments = &syscall.arguments;
        match call.on {
            DescriptorArgument::None => Subject::Nothing,
            DescriptorArgument::Descriptor(at) => Subject::of_descriptor(arguments[at]),
            DescriptorArgument::PollList { list, count } => {
                self.first_polled(arguments[list], arguments[count])
            }
            DescriptorArgument::SelectSets { count } => {
                self.first_selected(arguments[count], &arguments[count + 1..count + 4])
            }
            DescriptorArgument::Path(at) => self.read_path(arguments[at]),
            DescriptorArgument::Peer {
                descriptor,
                address,
            } => {
                let length = arguments[address + 1];
                match self.read_address(arguments[address], length) {
                    Some(socket) => Subject::Address(socket),
                    None => Subject::of_descriptor(arguments[descriptor]),
                }
            }
            DescriptorArgument::Process(at) => match signed(arguments[at]) {
                pid if pid > 0 => Subject::Process(pid),
                _ => Subject::Nothing,
            },
            DescriptorArgument::CloneFlags(at) => Subject::of_clone(arguments[at]),
            DescriptorArgument::CloneArguments(at) => {
                // Unreadable arguments are refused by the kernel, too.
                Subject::of_clone(self.view.read_word(arguments[at]).unwrap_or(0))
            }
        }
    }

    /// Names what a call was about.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn name_subject(&mut self, subject: &Subject) -> Result<Option<Target>, ProcessError> {
        match subject {
            Subject::Nothing | Subject::Thread => Ok(None),
            Subject::Descriptor(descriptor) => self.name(*descriptor),
            Subject::Open { link, .. } => self.name_link(link).map(Some),
            Subject::Address(socket) => Ok(Some(self.name_socket(socket))),
            Subject::Path(path) => Ok(Some(unnamed(path))),
            Subject::Process(pid) => Ok(Some(Target {
                what: format!("pid {pid}"),
                name: self.child_name(*pid),
            })),
        }
    }

    /// By the number that the process itself knows its child by: another one in a container.
    #[expect(clippy::disallowed_methods, reason = "files of procfs, in memory")]
    fn child_name(&self, inner: i32) -> Option<String> {
        let own = self.view.pid();
        if self.view.inner_tid(own) == Some(own.into()) {
            return comm_of(inner);
        }
        let wanted = u64::try_from(inner).ok()?;
        let child = self.view.children().into_iter().find(|child| {
            // A child that has ended meanwhile has no name any more.
            let status = fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| super::innermost(&status, *child) == Some(wanted))
        })?;
        comm_of(i32::try_from(child).ok()?)
    }

    /// Makes a descriptor's number, which is free again once it is closed, into what it stands for
    /// now. Cheap: it names nobody yet.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn pin(&self, subject: Subject) -> Result<Subject, ProcessError> {
        let Subject::Descriptor(descriptor) = subject else {
            return Ok(subject);
        };
        let link = self.link(descriptor)?;
        Ok(link.map_or(Subject::Nothing, |link| Subject::Open { descriptor, link }))
    }

    /// Names one descriptor; `None` when it isn't open any more.
    ///
    /// # Errors
    /// When the process may not be read.
    pub fn name(&mut self, descriptor: i32) -> Result<Option<Target>, ProcessError> {
        match self.link(descriptor)? {
            Some(link) => self.name_link(&link).map(Some),
            None => Ok(None),
        }
    }

    fn link(&self, descriptor: i32) -> Result<Option<String>, ProcessError> {
        let path = self.view.root().join("fd").join(descriptor.to_string());
        match fs::read_link(&path) {
            Ok(link) => Ok(Some(link.to_string_lossy().into_owned())),
            // Closed meanwhile, or the number was never a descriptor (-1 of an anonymous mapping).
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.view.error(&path, error)),
        }
    }

    fn name_link(&mut self, link: &str) -> Result<Target, ProcessError> {
        if let Some(inode) = numbered(link, "socket:[") {
            let socket = self.sockets.find(inode)?;
            return Ok(self.name_socket(&socket));
        }
        Ok(match link.split_once(':') {
            Some(("pipe", _)) => unnamed("pipe"),
            Some(("anon_inode", what)) => unnamed(what.trim_matches(['[', ']'])),
            _ => unnamed(link.strip_suffix(" (deleted)").unwrap_or(link)),
        })
    }

    /// Who is at the other end of a socket.
    pub fn name_socket(&mut self, socket: &Socket) -> Target {
        match socket {
            Socket::Inet { peer, transport } => Target {
                what: peer.to_string(),
                name: self.peers.name(*peer, *transport),
            },
            Socket::Listening { local } => unnamed(&format!("connections on {local}")),
            Socket::Unconnected { local } => unnamed(&format!("datagrams on {local}")),
            Socket::Unix { path } => Target {
                what: format!("unix:{path}"),
                name: self.peers.name_unix(path),
            },
            Socket::UnnamedUnix => unnamed("unix socket"),
            Socket::Unknown => unnamed("socket"),
        }
    }

    /// The first of `struct pollfd {int fd; short events, revents}`.
    fn first_polled(&self, list: u64, count: u64) -> Subject {
        for index in 0..(count & 0xffff_ffff).min(POLLED_MAX) {
            let Some(word) = self.view.read_word(list.wrapping_add(8 * index)) else {
                break;
            };
            // Negative ones are skipped by the kernel, too.
            if signed(word) >= 0 {
                return Subject::of_descriptor(word & 0xffff_ffff);
            }
        }
        Subject::Nothing
    }

    fn first_selected(&self, count: u64, sets: &[u64]) -> Subject {
        let words = (count & 0xffff_ffff).div_ceil(64).min(SELECT_WORDS_MAX);
        for set in sets.iter().filter(|set| **set != 0) {
            for index in 0..words {
                match self.view.read_word(set.wrapping_add(8 * index)) {
                    Some(0) => {}
                    Some(word) => {
                        return Subject::of_descriptor(
                            64 * index + u64::from(word.trailing_zeros()),
                        );
                    }
                    None => break,
                }
            }
        }
        Subject::Nothing
    }

    fn read_path(&self, address: u64) -> Subject {
        let mut bytes = vec![0; PATH_BYTES];
        match self.view.read_memory(address, &mut bytes) {
            Ok(length) => {
                let end = bytes[..length].iter().position(|byte| *byte == 0);
                match end {
                    Some(end) if end > 0 => {
                        Subject::Path(String::from_utf8_lossy(&bytes[..end]).into_owned())
                    }
                    _ => Subject::Nothing,
                }
            }
            // A null path goes with a descriptor, or is an error of the program.
            Err(_) => Subject::Nothing,
        }
    }

    fn read_address(&self, address: u64, length: u64) -> Option<Socket> {
        let length = usize::try_from(length & 0xffff_ffff).ok()?;
        if address == 0 || !(2..=ADDRESS_BYTES).contains(&length) {
            return None;
        }
        let mut bytes = vec![0; length];
        // What can't be read is named by its descriptor.
        let read = self.view.read_memory(address, &mut bytes).ok()?;
        parse_address(&bytes[..read])
    }
}

/// What a call is about, as its arguments say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// It doesn't say.
    Nothing,
    /// A descriptor's number.
    Descriptor(i32),
    /// What it stood for while the call went on.
    Open {
        /// The number.
        descriptor: i32,
        /// Its link in `/proc/PID/fd`.
        link: String,
    },
    /// A peer that isn't connected yet.
    Address(Socket),
    /// A path.
    Path(String),
    /// A process.
    Process(i32),
    /// A new thread of the same process.
    Thread,
}

impl Subject {
    /// `CLONE_THREAD` of clone(2): no process is started.
    fn of_clone(flags: u64) -> Self {
        if flags & 0x0001_0000 != 0 {
            Self::Thread
        } else {
            Self::Nothing
        }
    }

    /// Descriptors are `int`s: the upper half of a register isn't theirs.
    fn of_descriptor(argument: u64) -> Self {
        match signed(argument) {
            negative if negative < 0 => Self::Nothing,
            descriptor => Self::Descriptor(descriptor),
        }
    }
}

/// The lower half of a register, as an `int`.
fn signed(argument: u64) -> i32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// `struct sockaddr_in`, `sockaddr_in6` or `sockaddr_un` (ip(7), ipv6(7), unix(7)).
pub(crate) fn parse_address(bytes: &[u8]) -> Option<Socket> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    let inet = |ip: IpAddr, port| Socket::Inet {
        peer: SocketAddr::new(ip.to_canonical(), port),
        transport: None,
    };
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(inet(Ipv4Addr::from(octets).into(), port()?))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(inet(Ipv6Addr::from(octets).into(), port()?))
        }
        libc::AF_UNIX => {
            let path = bytes.get(2..)?;
            let path = match path.split_first()? {
                // An abstract name, shown as the kernel shows it.
                (0, name) => format!("@{}", String::from_utf8_lossy(name)),
                _ => String::from_utf8_lossy(path.split(|byte| *byte == 0).next()?).into_owned(),
            };
            Some(Socket::Unix { path })
        }
        _ => None,
    }
}

fn unnamed(what: &str) -> Target {
    Target {
        what: what.to_owned(),
        name: None,
    }
}

/// `socket:[123]` → 123.
fn numbered(link: &str, prefix: &str) -> Option<u64> {
    link.strip_prefix(prefix)?.strip_suffix(']')?.parse().ok()
}

/// A child's name; none once it is gone.
#[expect(clippy::disallowed_methods, reason = "a file of procfs, in memory")]
pub(crate) fn comm_of(pid: i32) -> Option<String> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(comm.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    fn own() -> Descriptors {
        let view = ProcessView::own();
        Descriptors::new(&view, Peers::default())
    }

    #[test]
    fn files_pipes_and_peers_are_told_apart() {
        let mut descriptors = own();
        let mut what = |descriptor: i32| {
            let target = descriptors.name(descriptor).expect("readable");
            target.expect("open").what
        };
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(what(file.as_raw_fd()), file.path().display().to_string());
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(what(reader.as_raw_fd()), "pipe");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        #[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
        let stream = TcpStream::connect(address).expect("connects");
        assert_eq!(what(stream.as_raw_fd()), address.to_string());
        assert_eq!(
            what(listener.as_raw_fd()),
            format!("connections on {address}")
        );

        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let bound = datagrams.local_addr().expect("bound");
        assert_eq!(what(datagrams.as_raw_fd()), format!("datagrams on {bound}"));
        datagrams.connect(address).expect("no packet is sent");
        assert_eq!(what(datagrams.as_raw_fd()), address.to_string());
        assert_eq!(descriptors.name(1_000_000).expect("readable"), None);
    }

    #[test]
    fn a_unix_socket_is_named_by_where_its_server_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let client = std::os::unix::net::UnixStream::connect(&path).expect("connects");
        let _server = listener.accept().expect("accepted");
        let target = own().name(client.as_raw_fd()).expect("readable");
        let expected = if has_diagnosis() {
            format!("unix:{}", path.display())
        } else {
            eprintln!("skipped: this kernel has no diagnosis of sockets, so none is expected");
            "unix socket".to_owned()
        };
        assert_eq!(target.expect("open").what, expected);
    }

    /// No socket has the inode 0: a kernel that could tell says so, another refuses the question.
    fn has_diagnosis() -> bool {
        let error = super::super::unix_peer::peer_of(0).expect_err("no such socket");
        error.kind() == io::ErrorKind::NotFound
    }

    #[test]
    fn lists_of_polled_descriptors_name_the_first_that_counts() {
        let descriptors = own();
        let entry = |descriptor: i32| u64::from(u32::from_le_bytes(descriptor.to_le_bytes()));
        let list = [entry(-1), entry(7) | 1 << 32, entry(8)];
        let address = std::ptr::from_ref(&list).addr() as u64;
        assert_eq!(descriptors.first_polled(address, 3), Subject::Descriptor(7));
        assert_eq!(descriptors.first_polled(address, 1), Subject::Nothing);

        let set = [0_u64, 1 << 3];
        let address = std::ptr::from_ref(&set).addr() as u64;
        assert_eq!(
            descriptors.first_selected(128, &[0, address, 0]),
            Subject::Descriptor(67)
        );
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let mut bytes = vec![0; 16];
        bytes[..2].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&6379_u16.to_be_bytes());
        bytes[4..8].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!(
            parse_address(&bytes),
            Some(Socket::Inet {
                peer: "127.0.0.1:6379".parse().expect("an address"),
                transport: None
            })
        );
        let mut bytes = 1_u16.to_ne_bytes().to_vec();
        bytes.extend(b"/run/x.sock\0rest");
        assert_eq!(
            parse_address(&bytes),
            Some(Socket::Unix {
                path: "/run/x.sock".to_owned()
            })
        );
        for length in 0..8 {
            assert_eq!(parse_address(&bytes[..length.min(1)]), None);
        }
    }
}
