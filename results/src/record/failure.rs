//! Why requests failed: the service's failures, and those of the load generator's own machine.

use serde::{Deserialize, Serialize};

/// Why a request failed, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A status that the scenario does not expect.
    Status,
    /// No connection: refused or unreachable.
    Connect,
    /// The name could not be resolved.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// No complete answer within the endpoint's timeout.
    Timeout,
    /// The connection ended in the middle of a request or answer.
    Reset,
    /// The answer is not HTTP.
    Protocol,
    /// The body could not be decoded.
    Decode,
    /// Status right, but headers or body are not what the scenario expects.
    CheckFailed,
    /// A stream that ended before it was complete.
    Truncated,
}

impl ErrorKind {
    /// The word in a record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Connect => "connect",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Protocol => "protocol",
            Self::Decode => "decode",
            Self::CheckFailed => "check_failed",
            Self::Truncated => "truncated",
        }
    }
}

/// A fault of the load generator's own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalFault {
    /// No ephemeral port was free.
    NoPorts,
    /// The descriptor limit was reached.
    NoDescriptors,
}
