//! What we and the supervisor inside a runtime tell each other: one message is one packet.
//!
//! Both are the same program, so the form has no version. Numbers are little-endian, texts are bytes
//! after their length.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::fence::Guard;
use crate::ports::locks::LockClass;

/// Bytes of a packet: what a socket's buffer takes at once where nobody raised Linux' default of
/// 208 KiB, less the kernel's own overhead.
pub(super) const PACKET_BYTES_MAX: usize = 192 * 1024;

/// What we say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToSupervisor {
    /// First of all, once.
    SetUp(SetUp),
    /// Run a command. With it come the ends of pipes: its output, its errors, and its input if it has any.
    Exec {
        id: u64,
        /// Under which lock, if under any.
        guard: Option<Guard>,
        command: Command,
    },
    /// Until when the lock of a command may be relied on, from now on: it was prolonged, or is lost.
    Prolong { id: u64, until_us: u64 },
    /// Kill what is left of a command, if anything.
    Kill { id: u64 },
}

/// What holds for all commands of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SetUp {
    /// May commands talk to the hypervisor's and other families of sockets that no namespace holds?
    pub(super) any_socket: bool,
    /// Shall Landlock guard the files, too: off, if it is there, or else nothing may run?
    pub(super) landlock: Landlock,
    /// Below which paths commands may write, for Landlock.
    pub(super) writable: Vec<PathBuf>,
    /// Limits of each process; zero is none.
    pub(super) file_bytes_max: u64,
    /// Private memory of each process in bytes; zero is no limit.
    pub(super) data_bytes_max: u64,
    /// Processes and threads of the user; zero is no limit.
    pub(super) processes_max: u64,
}

/// Whether Landlock is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Landlock {
    #[default]
    Off,
    IfThere,
    Required,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    /// The program and its arguments; at least the program.
    pub(super) cmd: Vec<OsString>,
    /// Where it starts, absolute.
    pub(super) cwd: PathBuf,
    /// All of its environment.
    pub(super) env: Vec<(OsString, OsString)>,
}

/// What the supervisor says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FromSupervisor {
    /// It is there, and wants to be set up.
    Here,
    /// It is set up.
    Ready { landlock: bool },
    /// It can't be.
    NotReady { doing: String, errno: i32 },
    /// Nothing of a command runs any more.
    Ended { id: u64, end: CommandEnd },
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandEnd {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// We had it killed.
    Killed,
    /// The lease of its lock ran out: it was killed, or never begun.
    LeaseEnded,
    /// A newer holder's command came: it was killed, or never begun.
    Superseded {
        /// Its own token.
        given: u64,
        /// The newer holder's.
        newest: u64,
    },
    /// It never began.
    NotBegun { step: Step, errno: i32 },
}

/// What was done for a command when that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Making its namespaces.
    Namespaces,
    /// Giving up rights.
    Confinement,
    /// Going to its folder.
    Folder,
    /// Starting its program.
    Program,
}

/// A packet that says nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a packet between a runtime's two ends is damaged; do both come from the same build of the program?"
)]
pub(super) struct Damaged;

impl ToSupervisor {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut packet = Packet(Vec::new());
        match self {
            Self::SetUp(set_up) => {
                packet.byte(0);
                packet.byte(u8::from(set_up.any_socket));
                packet.byte(match set_up.landlock {
                    Landlock::Off => 0,
                    Landlock::IfThere => 1,
                    Landlock::Required => 2,
                });
                packet.texts(set_up.writable.iter().map(|path| path.as_os_str()));
                packet.number(set_up.file_bytes_max);
                packet.number(set_up.data_bytes_max);
                packet.number(set_up.processes_max);
            }
            Self::Exec { id, guard, command } => {
                packet.byte(1);
                packet.number(*id);
                packet.guard(*guard);
                packet.texts(command.cmd.iter().map(OsString::as_os_str));
                packet.text(command.cwd.as_os_str());
                packet.texts(command.env.iter().map(|(name, _)| name.as_os_str()));
                packet.texts(command.env.iter().map(|(_, value)| value.as_os_str()));
            }
            Self::Kill { id } => {
                packet.byte(2);
                packet.number(*id);
            }
            Self::Prolong { id, until_us } => {
                packet.byte(3);
                packet.number(*id);
                packet.number(*until_us);
            }
        }
        packet.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut rest = Rest(bytes);
        let message = match rest.byte()? {
            0 => Self::SetUp(SetUp {
                any_socket: rest.byte()? == 1,
                landlock: match rest.byte()? {
                    0 => Landlock::Off,
                    1 => Landlock::IfThere,
                    2 => Landlock::Required,
                    _ => return Err(Damaged),
                },
                writable: rest.texts()?.into_iter().map(PathBuf::from).collect(),
                file_bytes_max: rest.number()?,
                data_bytes_max: rest.number()?,
                processes_max: rest.number()?,
            }),
            1 => {
                let (id, guard) = (rest.number()?, rest.guard()?);
                let (cmd, cwd) = (rest.texts()?, PathBuf::from(rest.text()?));
                let (names, values) = (rest.texts()?, rest.texts()?);
                if cmd.is_empty() || names.len() != values.len() {
                    return Err(Damaged);
                }
                let env = names.into_iter().zip(values).collect();
                let command = Command { cmd, cwd, env };
                Self::Exec { id, guard, command }
            }
            2 => Self::Kill { id: rest.number()? },
            3 => Self::Prolong {
                id: rest.number()?,
                until_us: rest.number()?,
            },
            _ => return Err(Damaged),
        };
        rest.end(message)
    }
}

impl FromSupervisor {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut packet = Packet(Vec::new());
        match self {
            Self::Ready { landlock } => {
                packet.byte(0);
                packet.byte(u8::from(*landlock));
            }
            Self::NotReady { doing, errno } => {
                packet.byte(1);
                packet.text(OsStr::new(doing));
                packet.signed(*errno);
            }
            Self::Ended { id, end } => {
                packet.byte(2);
                packet.number(*id);
                packet.end(*end);
            }
            Self::Here => packet.byte(3),
        }
        packet.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut rest = Rest(bytes);
        let message = match rest.byte()? {
            0 => Self::Ready {
                landlock: rest.byte()? == 1,
            },
            1 => Self::NotReady {
                doing: rest.text()?.into_string().map_err(|_| Damaged)?,
                errno: rest.signed()?,
            },
            2 => Self::Ended {
                id: rest.number()?,
                end: rest.command_end()?,
            },
            3 => Self::Here,
            _ => return Err(Damaged),
        };
        rest.end(message)
    }
}

impl CommandEnd {
    /// As the command's first process tells the supervisor through a pipe.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut packet = Packet(Vec::new());
        packet.end(self);
        packet.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut rest = Rest(bytes);
        let end = rest.command_end()?;
        rest.end(end)
    }
}

/// A packet that is written.
struct Packet(Vec<u8>);

impl Packet {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn signed(&mut self, number: i32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &OsStr) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a OsStr>) {
        self.number(texts.len() as u64);
        for text in texts {
            self.text(text);
        }
    }

    fn guard(&mut self, guard: Option<Guard>) {
        let Some(guard) = guard else {
            self.byte(0);
            return;
        };
        self.byte(match guard.class {
            LockClass::Read => 1,
            LockClass::Write => 2,
        });
        self.number(guard.token);
        self.number(guard.until_us);
    }

    fn end(&mut self, end: CommandEnd) {
        let (kind, number) = match end {
            CommandEnd::Exited(code) => (0, code),
            CommandEnd::Signaled(signal) => (1, signal),
            CommandEnd::Killed => (2, 0),
            CommandEnd::LeaseEnded => (7, 0),
            CommandEnd::Superseded { given, newest } => {
                self.byte(8);
                self.number(given);
                self.number(newest);
                return;
            }
            CommandEnd::NotBegun { step, errno } => {
                let step = match step {
                    Step::Namespaces => 3,
                    Step::Confinement => 4,
                    Step::Folder => 5,
                    Step::Program => 6,
                };
                (step, errno)
            }
        };
        self.byte(kind);
        self.signed(number);
    }
}

/// What is left to be read of a packet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Damaged> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, Damaged> {
        self.take().map(u64::from_le_bytes)
    }

    fn signed(&mut self) -> Result<i32, Damaged> {
        self.take().map(i32::from_le_bytes)
    }

    fn text(&mut self) -> Result<OsString, Damaged> {
        let length = usize::try_from(self.number()?).map_err(|_| Damaged)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(OsString::from_vec(text.to_vec()))
    }

    fn texts(&mut self) -> Result<Vec<OsString>, Damaged> {
        let count = self.number()?;
        // Each takes its length at least, so a damaged count can't make us allocate.
        if count > self.0.len() as u64 / 8 {
            return Err(Damaged);
        }
        (0..count).map(|_| self.text()).collect()
    }

    fn guard(&mut self) -> Result<Option<Guard>, Damaged> {
        let class = match self.byte()? {
            0 => return Ok(None),
            1 => LockClass::Read,
            2 => LockClass::Write,
            _ => return Err(Damaged),
        };
        let (token, until_us) = (self.number()?, self.number()?);
        Ok(Some(Guard {
            class,
            token,
            until_us,
        }))
    }

    fn command_end(&mut self) -> Result<CommandEnd, Damaged> {
        let kind = self.byte()?;
        if kind == 8 {
            let (given, newest) = (self.number()?, self.number()?);
            return Ok(CommandEnd::Superseded { given, newest });
        }
        let number = self.signed()?;
        let not_begun = |step| CommandEnd::NotBegun {
            step,
            errno: number,
        };
        Ok(match kind {
            0 => CommandEnd::Exited(number),
            1 => CommandEnd::Signaled(number),
            2 => CommandEnd::Killed,
            3 => not_begun(Step::Namespaces),
            4 => not_begun(Step::Confinement),
            5 => not_begun(Step::Folder),
            6 => not_begun(Step::Program),
            7 => CommandEnd::LeaseEnded,
            _ => return Err(Damaged),
        })
    }

    fn end<T>(self, message: T) -> Result<T, Damaged> {
        if self.0.is_empty() {
            Ok(message)
        } else {
            Err(Damaged)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn guard() -> impl Strategy<Value = Option<Guard>> {
        let class = prop_oneof![Just(LockClass::Read), Just(LockClass::Write)];
        let numbers = (class, any::<u64>(), any::<u64>());
        prop::option::of(numbers.prop_map(|(class, token, until_us)| Guard {
            class,
            token,
            until_us,
        }))
    }

    proptest! {
        #[test]
        fn a_command_of_any_bytes_arrives_as_it_was(
            cmd in prop::collection::vec(text(), 1..5),
            cwd in text(),
            env in prop::collection::vec((text(), text()), 0..5),
            guard in guard(),
            id: u64,
        ) {
            let command = Command { cmd, cwd: cwd.into(), env };
            let message = ToSupervisor::Exec { id, guard, command };
            prop_assert_eq!(ToSupervisor::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn damaged_packets_are_refused_and_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = ToSupervisor::decode(&bytes) {
                // A truth value has more than one form.
                prop_assert_eq!(message.encode().len(), bytes.len());
            }
            if let Ok(message) = FromSupervisor::decode(&bytes) {
                prop_assert_eq!(message.encode().len(), bytes.len());
            }
        }
    }

    #[test]
    fn every_end_arrives_as_it_was() {
        let steps = [
            Step::Namespaces,
            Step::Confinement,
            Step::Folder,
            Step::Program,
        ];
        let not_begun = steps.map(|step| CommandEnd::NotBegun { step, errno: 2 });
        let mut ends = vec![
            CommandEnd::Exited(-1),
            CommandEnd::Signaled(9),
            CommandEnd::Killed,
            CommandEnd::LeaseEnded,
            CommandEnd::Superseded {
                given: 7,
                newest: u64::MAX,
            },
        ];
        ends.extend(not_begun);
        for end in ends {
            assert_eq!(CommandEnd::decode(&end.encode()), Ok(end));
            let message = FromSupervisor::Ended { id: 7, end };
            assert_eq!(FromSupervisor::decode(&message.encode()), Ok(message));
        }
        let set_up = ToSupervisor::SetUp(SetUp {
            any_socket: true,
            landlock: Landlock::Required,
            writable: vec!["/a".into()],
            file_bytes_max: 1,
            data_bytes_max: 2,
            processes_max: 3,
        });
        assert_eq!(ToSupervisor::decode(&set_up.encode()), Ok(set_up));
        let prolong = ToSupervisor::Prolong {
            id: 7,
            until_us: 1_000_000,
        };
        assert_eq!(ToSupervisor::decode(&prolong.encode()), Ok(prolong));
    }
}
