//! From an error to its kind: whose fault it was decides how it is counted.

use std::fmt::Display;
use std::io;

use nix::errno::Errno;
use unstall_results::record::{ErrorKind, LocalFault};

use super::tls_failure;

/// One request that did not end with a right answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Whose fault it was, and which.
    pub(super) cause: Cause,
    /// For people: what happened, without secrets.
    pub(super) message: String,
}

/// Who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The service or the network.
    Service(ErrorKind),
    /// This machine; makes the block invalid.
    Local(LocalFault),
}

impl Failure {
    pub(super) fn service(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            cause: Cause::Service(kind),
            message: message.into(),
        }
    }

    /// An error of `connect` or `socket`.
    pub(super) fn connecting(error: &io::Error) -> Self {
        local(error).unwrap_or_else(|| {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => ErrorKind::Timeout,
                // It stood for a moment: the peer accepted and hung up.
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ErrorKind::Reset,
                _ => ErrorKind::Connect,
            };
            Self::service(kind, format!("no connection: {error}"))
        })
    }

    /// A connection that stood and is gone.
    pub(super) fn lost(error: &io::Error) -> Self {
        local(error)
            .or_else(|| tls_failure::of_connection(error))
            .unwrap_or_else(|| Self::ended(format_args!("{error}")))
    }

    /// The service ended the connection before the answer was complete.
    pub(super) fn ended(how: impl Display) -> Self {
        Self::service(ErrorKind::Reset, format!("connection lost: {how}"))
    }

    /// What came isn't what the protocol allows.
    pub(super) fn protocol(what: impl Display) -> Self {
        Self::service(ErrorKind::Protocol, format!("not HTTP: {what}"))
    }

    /// An error of the resolver.
    pub(super) fn resolving(host: &str, error: &io::Error) -> Self {
        local(error).unwrap_or_else(|| {
            Self::service(ErrorKind::Dns, format!("`{host}` not resolved: {error}"))
        })
    }
}

/// A fault of this machine, if the error is one.
fn local(error: &io::Error) -> Option<Failure> {
    let errno = Errno::from_raw(error.raw_os_error()?);
    let fault = match errno {
        Errno::EMFILE | Errno::ENFILE => LocalFault::NoDescriptors,
        Errno::EADDRNOTAVAIL => LocalFault::NoPorts,
        _ => return None,
    };
    Some(Failure {
        cause: Cause::Local(fault),
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_limits_are_not_the_services_fault() {
        for (errno, cause) in [
            (Errno::EMFILE, Cause::Local(LocalFault::NoDescriptors)),
            (Errno::ENFILE, Cause::Local(LocalFault::NoDescriptors)),
            (Errno::EADDRNOTAVAIL, Cause::Local(LocalFault::NoPorts)),
            (Errno::ECONNREFUSED, Cause::Service(ErrorKind::Connect)),
            (Errno::EHOSTUNREACH, Cause::Service(ErrorKind::Connect)),
            (Errno::ETIMEDOUT, Cause::Service(ErrorKind::Timeout)),
        ] {
            let error = io::Error::from_raw_os_error(errno as i32);
            assert_eq!(Failure::connecting(&error).cause, cause, "{errno}");
        }
    }
}
