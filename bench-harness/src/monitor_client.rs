//! The service's own loop monitor, read at the edges of a block.

use std::collections::BTreeSet;
use std::time::Duration;

use unstall_loop_monitor::wire::{self, REFUSAL_PREFIX, SNAPSHOT_PATH, STALLS_AFTER, Snapshot};

use crate::control::{Control, ControlError};
use crate::engine::{Target, monotonic_ns};

/// Holds the token of monitors that ask for one: a monitor behind a proxy, or on another machine.
pub const TOKEN_VARIABLE: &str = "UNSTALL_MONITOR_TOKEN";

/// Reads snapshots of one service.
#[derive(Debug)]
pub struct MonitorClient {
    control: Control,
    token: Option<String>,
}

/// Why a monitor that is there can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// It speaks another version.
    #[error(
        "{url} speaks version {found} of the snapshot, this version reads {expected}: \
         use a loop monitor and a harness of the same release"
    )]
    Version {
        /// Where.
        url: String,
        /// Its major version.
        found: u32,
        /// The one understood here.
        expected: u32,
    },
    /// It says it is a snapshot, and is not.
    #[error("{url} is no usable snapshot: {reason}")]
    Malformed {
        /// Where.
        url: String,
        /// Line, column and what is wrong.
        reason: String,
    },
    /// The service did not answer in time, or not to the end.
    #[error("the loop monitor could not be asked: {0}")]
    NoAnswer(#[source] ControlError),
    /// The environment holds what no header can.
    #[error("{TOKEN_VARIABLE} holds characters that a header can't: use letters, digits and signs")]
    Token,
}

/// The monitor at one edge of a block, asked more than once to see whether one process answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// The last answer.
    pub snapshot: Snapshot,
    /// Every process start that answered.
    pub start_ids: BTreeSet<String>,
    /// Each time the service's clock stood between our own before the question and after the
    /// answer: it is the same one, and moments of both can be compared. A service on another
    /// machine, or in a time namespace of its own, has another.
    pub has_our_clock: bool,
}

/// What there is at the monitor's path of a service.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight<T> {
    /// A monitor.
    Seen(T),
    /// A monitor that doesn't answer us, with its reason.
    Refused(String),
    /// No monitor.
    Nothing,
}

impl MonitorClient {
    /// A reader of the service at `target`, with the token that the environment holds.
    ///
    /// # Errors
    /// If the token can't be sent.
    pub fn new(target: &Target) -> Result<Self, MonitorError> {
        Ok(Self {
            control: Control::new(target, Duration::from_secs(2)),
            token: token()?,
        })
    }

    /// Reads the monitor, if the service has one.
    ///
    /// # Errors
    /// If there is one that can't be understood, or no answer at all: a service without
    /// a monitor says so.
    pub fn read(&self) -> Result<Sight<Snapshot>, MonitorError> {
        self.read_at(SNAPSHOT_PATH)
    }

    fn read_at(&self, path: &str) -> Result<Sight<Snapshot>, MonitorError> {
        let reply = self
            .control
            .get_with_token(path, self.token.as_deref())
            .map_err(MonitorError::NoAnswer)?;
        match reply.status {
            200 => {
                let url = self.control.url(SNAPSHOT_PATH);
                Ok(parse(&url, &reply.body)?.map_or(Sight::Nothing, Sight::Seen))
            }
            403 => Ok(refusal(&reply.body).map_or(Sight::Nothing, Sight::Refused)),
            _ => Ok(Sight::Nothing),
        }
    }

    /// Reads the monitor `looks` times; each look is a connection of its own, so that
    /// several workers behind one port show themselves.
    ///
    /// # Errors
    /// As [`MonitorClient::read`].
    pub fn edge(&self, looks: u32) -> Result<Sight<Edge>, MonitorError> {
        self.edge_at(looks, SNAPSHOT_PATH)
    }

    /// The same after a block that began at the edge `before`, with all stalls since then that
    /// the monitor has kept, if it keeps any. Only the last look asks for them: telling them takes
    /// time on the service's own loop.
    ///
    /// # Errors
    /// As [`MonitorClient::read`].
    pub fn edge_after(&self, before: &Edge, looks: u32) -> Result<Sight<Edge>, MonitorError> {
        match &before.snapshot.stalls {
            Some(stalls) => {
                let path = format!("{SNAPSHOT_PATH}?{STALLS_AFTER}={}", stalls.seen);
                self.edge_at(looks, &path)
            }
            None => self.edge(looks),
        }
    }

    fn edge_at(&self, looks: u32, last_path: &str) -> Result<Sight<Edge>, MonitorError> {
        let mut has_our_clock = true;
        let mut start_ids = BTreeSet::new();
        let mut last = None;
        for look in 1..=looks {
            let path = if look == looks {
                last_path
            } else {
                SNAPSHOT_PATH
            };
            let asked_ns = monotonic_ns();
            let snapshot = match self.read_at(path)? {
                Sight::Seen(snapshot) => snapshot,
                Sight::Refused(reason) => return Ok(Sight::Refused(reason)),
                Sight::Nothing => return Ok(Sight::Nothing),
            };
            has_our_clock &= (asked_ns..=monotonic_ns()).contains(&snapshot.mono_ns);
            start_ids.insert(snapshot.start_id.clone());
            last = Some(snapshot);
        }
        Ok(last.map_or(Sight::Nothing, |snapshot| {
            Sight::Seen(Edge {
                snapshot,
                start_ids,
                has_our_clock,
            })
        }))
    }
}

/// The token that the environment holds for monitors.
///
/// # Errors
/// [`MonitorError::Token`] if no header can hold it.
pub(crate) fn token() -> Result<Option<String>, MonitorError> {
    let token = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    let token = token.map(|token| match token.into_string() {
        Ok(token) if token.chars().all(|c| c == ' ' || c.is_ascii_graphic()) => Ok(token),
        _ => Err(MonitorError::Token),
    });
    token.transpose()
}

/// The monitor's own words, if a 403 is the monitor's: the rest of the first line.
pub(crate) fn refusal(body: &[u8]) -> Option<String> {
    let words = body.strip_prefix(REFUSAL_PREFIX.as_bytes())?;
    let words = String::from_utf8_lossy(words);
    Some(readable(words.lines().next().unwrap_or_default()))
}

/// What a service says, fit for a terminal and a record: without control characters, and cut.
pub(crate) fn readable(words: &str) -> String {
    const CHARS_MAX: usize = 300;
    let blank = |letter: char| if letter.is_control() { ' ' } else { letter };
    words.chars().take(CHARS_MAX).map(blank).collect()
}

fn parse(url: &str, body: &[u8]) -> Result<Option<Snapshot>, MonitorError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: wire::Schema,
    }
    // Anything without our schema is another program's answer at this path.
    let Ok(Head { schema }) = serde_json::from_slice(body) else {
        return Ok(None);
    };
    if schema.name != wire::SCHEMA_NAME {
        return Ok(None);
    }
    if schema.major != wire::SCHEMA_MAJOR {
        return Err(MonitorError::Version {
            url: url.to_owned(),
            found: schema.major,
            expected: wire::SCHEMA_MAJOR,
        });
    }
    let malformed = |reason: &str| MonitorError::Malformed {
        url: url.to_owned(),
        reason: readable(reason),
    };
    let snapshot: Snapshot =
        serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))?;
    let document: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))?;
    if snapshot.mode.measures_blocked() && leaves_out_blocked(&document) {
        return Err(malformed(
            "its mode says that it measures blocked time, and an endpoint has none: \
             what isn't measured is not 0",
        ));
    }
    Ok(Some(snapshot))
}

/// A field that is left out reads as zeros, which only the mode `holds` may mean. What is
/// attributed to no endpoint may be left out in Python, where it isn't measured.
fn leaves_out_blocked(document: &serde_json::Value) -> bool {
    let endpoints = document["endpoints"].as_object();
    let is_charged_later = document["mode"] == "counters";
    (is_charged_later && document.get("unattributed").is_none())
        || endpoints.is_some_and(|all| {
            all.values()
                .any(|endpoint| endpoint.get("blocked").is_none())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_monitor_is_told_from_any_other() {
        let ours = refusal(format!("{REFUSAL_PREFIX}ask nicely\n").as_bytes());
        assert_eq!(ours.as_deref(), Some("ask nicely"));
        let hostile = format!("{REFUSAL_PREFIX}\u{1b}[31mred\u{7}{}", "x".repeat(3_000));
        let shown = refusal(hostile.as_bytes()).expect("the monitor's");
        assert!(
            shown.starts_with(" [31mred x") && shown.len() == 300,
            "{shown}"
        );
        assert_eq!(refusal(b"<h1>Forbidden</h1>"), None);
        assert_eq!(refusal(b""), None);
    }

    #[test]
    fn other_programs_answers_are_no_monitor() {
        assert!(matches!(parse("u", b"<html>"), Ok(None)));
        assert!(matches!(parse("u", b"{}"), Ok(None)));
        let foreign = br#"{"schema":{"name":"other","major":1,"minor":0}}"#;
        assert!(matches!(parse("u", foreign), Ok(None)));
        let newer = br#"{"schema":{"name":"unstall.snapshot","major":99,"minor":0}}"#;
        assert!(matches!(
            parse("u", newer),
            Err(MonitorError::Version { found: 99, .. })
        ));
        let monitor = unstall_loop_monitor::Monitor::builder().build();
        let whole = serde_json::to_value(monitor.snapshot()).expect("serialises");
        assert!(matches!(
            parse("u", whole.to_string().as_bytes()),
            Ok(Some(_))
        ));
        let mut silent = whole.clone();
        silent
            .as_object_mut()
            .expect("an object")
            .remove("unattributed");
        let read = parse("u", silent.to_string().as_bytes());
        assert!(
            matches!(read, Err(MonitorError::Malformed { .. })),
            "{read:?}"
        );
        silent["mode"] = "holds".into();
        assert!(matches!(
            parse("u", silent.to_string().as_bytes()),
            Ok(Some(_))
        ));
        let broken = br#"{"schema":{"name":"unstall.snapshot","major":1,"minor":0}}"#;
        assert!(matches!(
            parse("u", broken),
            Err(MonitorError::Malformed { .. })
        ));
    }
}
