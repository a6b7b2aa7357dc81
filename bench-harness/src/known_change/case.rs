//! The changes that are made on purpose, each with what the gate has to say of it.

use unstall_results::comparison::Metric;

/// One difference between two versions of the private service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Case {
    /// Its name on the command line and in the table.
    pub(crate) name: &'static str,
    /// What is different, in words.
    pub(crate) what: &'static str,
    /// What is different.
    pub(crate) change: Change,
    /// What the gate has to say.
    pub(crate) expected: Expected,
}

/// What is done to the second version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// Every answer takes longer, by this share of the first version's p95; 0 for the same version.
    Slower(f64),
    /// The second block of each pair is slower by this share, whichever version it is of.
    SecondSlower(f64),
    /// Something that the service itself does.
    Service(ServiceChange),
}

/// What the service is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceChange {
    /// Sleep on its event loop in every request, for so many µs.
    Blocks(u64),
    /// Fail every so-manieth request.
    Fails(u64),
    /// Keep so many more threads.
    Threads(u32),
}

/// What the gate has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Pass; never that it got worse.
    Quiet,
    /// Anything but that it got worse.
    NoAlarm,
    /// That it got worse. A pass is wrong where the machine is quiet enough to see the change.
    AlarmIfSeen,
    /// That it got worse, by a cell of this metric; never a pass.
    Alarm(Option<Metric>),
    /// That it got worse by a cell of this metric, and nothing else: it is counted and not timed.
    Exactly(Metric),
}

/// All of them. The first size is the margin of a p95, within its harm limit; the last one is that
/// limit.
pub(crate) const ALL: [Case; 8] = [
    Case {
        name: "identical",
        what: "the same version twice",
        change: Change::Slower(0.0),
        expected: Expected::Quiet,
    },
    Case {
        name: "second-slower",
        what: "the second block of each pair +4 %, in both versions",
        change: Change::SecondSlower(0.04),
        expected: Expected::NoAlarm,
    },
    Case {
        name: "slower-5",
        what: "every answer +5 % of the p95",
        change: Change::Slower(0.05),
        expected: Expected::AlarmIfSeen,
    },
    Case {
        name: "slower-10",
        what: "every answer +10 % of the p95",
        change: Change::Slower(0.10),
        expected: Expected::AlarmIfSeen,
    },
    Case {
        name: "slower-20",
        what: "every answer +20 % of the p95",
        change: Change::Slower(0.20),
        expected: Expected::Alarm(None),
    },
    Case {
        name: "blocks",
        what: "every request sleeps for 0.5 ms on the event loop",
        change: Change::Service(ServiceChange::Blocks(500)),
        expected: Expected::Alarm(Some(Metric::BlockedMsPer1000)),
    },
    Case {
        name: "fails",
        what: "every 25th request fails",
        change: Change::Service(ServiceChange::Fails(25)),
        expected: Expected::Exactly(Metric::ErrorRate),
    },
    Case {
        name: "threads",
        what: "8 more threads",
        change: Change::Service(ServiceChange::Threads(8)),
        expected: Expected::Exactly(Metric::Threads),
    },
];

/// A case's name, for the command line.
pub(crate) fn check_name(name: &str) -> Result<String, String> {
    if ALL.iter().any(|case| case.name == name) {
        return Ok(name.to_owned());
    }
    let names = ALL.map(|case| case.name).join(", ");
    Err(format!("there is no case `{name}`; the cases are {names}"))
}

/// What the gate has to say, in words.
pub(crate) fn words(expected: Expected) -> &'static str {
    match expected {
        Expected::Quiet => "pass, never regression",
        Expected::NoAlarm => "never regression",
        Expected::AlarmIfSeen => "regression, if the machine can see it",
        Expected::Alarm(None) => "regression, never pass",
        Expected::Alarm(Some(_)) => "regression by that cell",
        Expected::Exactly(_) => "regression by that cell alone",
    }
}
