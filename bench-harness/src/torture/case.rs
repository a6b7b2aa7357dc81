//! One case: what a service does, whose report it stands for, and what has to come of it.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::exchange::Exchange;

/// One misbehaviour of a service, or one limit of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// As on the command line and in the table.
    pub(crate) name: &'static str,
    /// Under which heading it is shown.
    pub(crate) group: Group,
    /// The public reports that it stands for (`owner/repository#number`), or the standard's
    /// section.
    pub(crate) stands_for: &'static str,
    /// How it is tried.
    pub(super) trial: Trial,
}

impl Case {
    /// One that is tried in a way of its own.
    pub(super) fn own(
        group: Group,
        name: &'static str,
        stands_for: &'static str,
        trial: fn() -> Tried,
    ) -> Self {
        Self {
            name,
            group,
            stands_for,
            trial: Trial::Own(trial),
        }
    }
}

/// Headings of the table, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// The answer is right, in an unusual frame.
    RightAnswers,
    /// The answer isn't HTTP, or breaks off.
    WrongAnswers,
    /// What a client does around an exchange.
    Client,
    /// Who is trusted, and how a secured connection ends.
    Tls,
    /// Frames, streams and windows.
    Http2,
    /// Answers that are read item by item.
    Streams,
    /// Services that are slow, silent or gone.
    Times,
    /// Load at its own times.
    Rates,
    /// Descriptors, ports, names, memory.
    Limits,
}

impl Group {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::RightAnswers,
        Self::WrongAnswers,
        Self::Client,
        Self::Tls,
        Self::Http2,
        Self::Streams,
        Self::Times,
        Self::Rates,
        Self::Limits,
    ];

    /// For the table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::RightAnswers => "Right answers in unusual frames",
            Self::WrongAnswers => "Wrong answers",
            Self::Client => "Redirects and content codings",
            Self::Tls => "TLS",
            Self::Http2 => "HTTP/2",
            Self::Streams => "Streams",
            Self::Times => "Slow, silent and dying services",
            Self::Rates => "Rates, whatever the answers do",
            Self::Limits => "Limits of this machine",
        }
    }
}

/// How a case is tried.
#[derive(Debug, Clone)]
pub(super) enum Trial {
    /// One kind of request, again and again.
    Exchange(Box<Exchange>),
    /// In a way of its own.
    Own(fn() -> Tried),
}

/// What came of a trial.
pub(super) type Tried = Result<Vec<Check>, Trouble>;

/// Why there is nothing to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trouble {
    /// This machine doesn't allow it.
    NotRun(String),
    /// What should have been measured couldn't be: a fault of ours.
    Broken(String),
}

/// One thing that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Of what, for example `completed`.
    pub(crate) what: String,
    /// What it has to be.
    pub(crate) expected: String,
    /// What it was.
    pub(crate) seen: String,
    /// Whether that is the same.
    pub(crate) state: CheckState,
}

/// Whether what was seen is what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CheckState {
    /// It is.
    Met,
    /// It isn't.
    Missed,
    /// It took longer than expected, as it would on a machine that is busy with other things.
    Late,
}

impl Check {
    fn new(what: &str, expected: impl Display, seen: impl Display, is_met: bool) -> Self {
        Self {
            what: what.to_owned(),
            expected: expected.to_string(),
            seen: seen.to_string(),
            state: if is_met {
                CheckState::Met
            } else {
                CheckState::Missed
            },
        }
    }

    /// Both must be the same.
    pub(super) fn same<T: PartialEq + Display>(what: &str, expected: T, seen: T) -> Self {
        let is_met = expected == seen;
        Self::new(what, expected, seen, is_met)
    }

    /// What was seen must be one of several.
    pub(super) fn one_of(what: &str, expected: &[String], seen: &str) -> Self {
        let is_met = expected.iter().any(|expected| expected == seen);
        Self::new(what, expected.join(" or "), seen, is_met)
    }

    /// Not less.
    pub(super) fn at_least<T: PartialOrd + Display>(what: &str, least: T, seen: T) -> Self {
        let is_met = seen >= least;
        Self::new(what, format!("at least {least}"), seen, is_met)
    }

    /// Not more.
    pub(super) fn at_most<T: PartialOrd + Display>(what: &str, most: T, seen: T) -> Self {
        let is_met = seen <= most;
        Self::new(what, format!("at most {most}"), seen, is_met)
    }

    /// Not more, unless this machine is busy with other things: exceeding it is no proof of a
    /// fault.
    pub(super) fn unless_busy<T: PartialOrd + Display>(what: &str, most: T, seen: T) -> Self {
        let mut check = Self::at_most(what, most, seen);
        if check.state == CheckState::Missed {
            check.state = CheckState::Late;
        }
        check
    }

    /// A sentence that has to be true.
    pub(super) fn holds(what: &str, is_met: bool, otherwise: impl Display) -> Self {
        if is_met {
            Self::new(what, "yes", "yes", true)
        } else {
            Self::new(what, "yes", otherwise, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_is_late() {
        let states = [
            Check::same("n", 1, 1),
            Check::same("n", 1, 2),
            Check::at_least("n", 3, 2),
            Check::at_most("n", 3, 3),
            Check::unless_busy("t", 10, 10),
            Check::unless_busy("t", 10, 11),
            Check::holds("s", false, "it doesn't"),
            Check::one_of("k", &["a".to_owned(), "b".to_owned()], "b"),
        ]
        .map(|check| check.state);
        use CheckState::{Late, Met, Missed};
        assert_eq!(states, [Met, Missed, Missed, Met, Met, Late, Missed, Met]);
    }
}
