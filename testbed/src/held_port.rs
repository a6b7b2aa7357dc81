//! A loopback port that stays its owner's while nobody listens on it.
//!
//! The port of a server that was killed is free, and whoever takes any free port may get it before
//! the server is back. So a socket that never listens is bound to it, too: the system then gives
//! the port to nobody who leaves the choice to it, neither to listen on nor to connect from, and
//! lets a server have it that names it with SO_REUSEADDR, as Redis and PostgreSQL do.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt,
};

/// A port, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct HeldPort {
    number: u16,
    /// Bound, and never listening.
    _socket: OwnedFd,
}

impl HeldPort {
    /// Takes one that nobody has.
    ///
    /// # Errors
    /// When the system has no socket or no port.
    pub(crate) fn take() -> io::Result<Self> {
        let cloexec = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Stream, cloexec, None)?;
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
        bind(socket.as_raw_fd(), &any)?;
        let bound: SockaddrIn = getsockname(socket.as_raw_fd())?;
        Ok(Self {
            number: bound.port(),
            _socket: socket,
        })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_held_port_goes_to_who_names_it_and_to_nobody_else() -> io::Result<()> {
        let held = HeldPort::take()?;
        let address = (Ipv4Addr::LOCALHOST, held.number());
        // As servers do, std asks for SO_REUSEADDR. Killed and back, and so once more.
        for _ in 0..2 {
            let server = TcpListener::bind(address)?;
            let client = TcpStream::connect(address)?;
            drop(server.accept()?);
            drop((server, client));
            assert!(TcpStream::connect(address).is_err(), "nobody listens");
        }
        let mut others = Vec::new();
        for _ in 0..200 {
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            assert_ne!(other.local_addr()?.port(), held.number());
            others.push(other);
        }
        Ok(())
    }
}
