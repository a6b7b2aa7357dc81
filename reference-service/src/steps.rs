//! Which steps of the migration have landed: they decide each store's variant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What the state before every step is called.
const START: &str = "start";

/// One step of the migration plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// `0`: sync calls go back from worker threads onto the loop.
    LoopCalls,
    /// `1`: the streams in Redis.
    StreamManager,
    /// `2a`: the usage check and a new conversation's writes.
    UsageCheck,
    /// `2b`: chat history: what is saved of a run that is stopped.
    ChatHistory,
    /// `2c`: sharing and access.
    ShareAndAccess,
    /// `2d`: sign-up and sign-in.
    Auth,
    /// `2e`: the code host's queries.
    CodeHostQueries,
    /// `3`: the tunnel's records and the code host's cache in Redis.
    RedisCaches,
    /// `4`: calls of other services.
    HttpClients,
    /// `5`: search.
    Remainder,
    /// `6`: a stream reader and sessions that hold no thread.
    StreamReader,
}

impl Step {
    /// Every step, in the order in which they land.
    pub const ALL: [Self; 11] = [
        Self::LoopCalls,
        Self::StreamManager,
        Self::UsageCheck,
        Self::ChatHistory,
        Self::ShareAndAccess,
        Self::Auth,
        Self::CodeHostQueries,
        Self::RedisCaches,
        Self::HttpClients,
        Self::Remainder,
        Self::StreamReader,
    ];

    /// The step's id in a migration plan.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::LoopCalls => "0",
            Self::StreamManager => "1",
            Self::UsageCheck => "2a",
            Self::ChatHistory => "2b",
            Self::ShareAndAccess => "2c",
            Self::Auth => "2d",
            Self::CodeHostQueries => "2e",
            Self::RedisCaches => "3",
            Self::HttpClients => "4",
            Self::Remainder => "5",
            Self::StreamReader => "6",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// How a store reaches its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Synchronous calls on the loop.
    Blocking,
    /// The same calls on threads of a pool.
    Threads,
    /// Awaited calls.
    Async,
}

/// The steps that have landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps(BTreeSet<Step>);

impl Steps {
    /// Before the migration: no step has landed, and all calls are on threads.
    #[must_use]
    pub fn start() -> Self {
        Self(BTreeSet::new())
    }

    /// Before the migration's first async store: only step 0.
    #[must_use]
    pub fn blocking() -> Self {
        Self(BTreeSet::from([Step::LoopCalls]))
    }

    /// All steps.
    #[must_use]
    pub fn all() -> Self {
        Self(BTreeSet::from(Step::ALL))
    }

    /// The variant of a step's stores.
    #[must_use]
    pub fn variant_of(&self, step: Step) -> Variant {
        if self.0.contains(&step) {
            Variant::Async
        } else if self.0.contains(&Step::LoopCalls) {
            Variant::Blocking
        } else {
            Variant::Threads
        }
    }
}

/// A list of steps that can't be served.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StepsError {
    /// The list was empty.
    #[error(
        "no step given; name the steps that have landed, as in `0,1,2a`, `0` for none of the async ones, or `start` for none at all"
    )]
    Empty,
    /// A name that no step has.
    #[error(
        "there is no step `{given}`; did you mean `{nearest}`? The steps are 0, 1, 2a, 2b, 2c, 2d, 2e, 3, 4, 5, 6"
    )]
    Unknown {
        /// What was written.
        given: String,
        /// The most similar id.
        nearest: &'static str,
    },
    /// The state before step 0, among steps.
    #[error(
        "`start` is the state before every step; name it alone, or leave it out of the list of steps"
    )]
    StartAndSteps,
}

impl FromStr for Steps {
    type Err = StepsError;

    /// Reads `start`, or a comma-separated list of what has landed, step 0 included.
    fn from_str(list: &str) -> Result<Self, Self::Err> {
        if list.trim() == START {
            return Ok(Self::start());
        }
        let mut steps = BTreeSet::new();
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            steps.insert(parse_step(name)?);
        }
        if steps.is_empty() {
            return Err(StepsError::Empty);
        }
        Ok(Self(steps))
    }
}

fn parse_step(name: &str) -> Result<Step, StepsError> {
    if name == START {
        return Err(StepsError::StartAndSteps);
    }
    if let Some(step) = Step::ALL.into_iter().find(|step| step.id() == name) {
        return Ok(step);
    }
    let nearest = Step::ALL
        .into_iter()
        .map(Step::id)
        .min_by_key(|id| strsim::damerau_levenshtein(id, name))
        .unwrap_or("0");
    Err(StepsError::Unknown {
        given: name.to_owned(),
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_async_iff_its_step_is_listed() {
        let steps: Steps = "0,1,2a,6".parse().expect("a valid list");
        assert_eq!(steps.variant_of(Step::UsageCheck), Variant::Async);
        assert_eq!(steps.variant_of(Step::RedisCaches), Variant::Blocking);
    }

    #[test]
    fn at_the_start_every_store_is_on_threads_and_step_0_ends_that() {
        let start: Steps = " start ".parse().expect("the state before every step");
        assert_eq!(start, Steps::start());
        let next: Steps = "0".parse().expect("a valid list");
        for step in Step::ALL {
            assert_eq!(start.variant_of(step), Variant::Threads, "{step}");
        }
        assert_eq!(next.variant_of(Step::Auth), Variant::Blocking);
        // A replay leaves it out like any other if it regressed.
        let without: Steps = "2a".parse().expect("a valid list");
        assert_eq!(without.variant_of(Step::UsageCheck), Variant::Async);
        assert_eq!(without.variant_of(Step::Auth), Variant::Threads);
    }

    #[test]
    fn spaces_and_repeats_are_harmless() {
        let steps: Steps = " 3 , 0,3, ".parse().expect("a valid list");
        assert_eq!(steps, "0,3".parse().expect("a valid list"));
    }

    #[test]
    fn mistakes_name_the_fix() {
        assert_eq!("".parse::<Steps>(), Err(StepsError::Empty));
        assert_eq!(",".parse::<Steps>(), Err(StepsError::Empty));
        assert_eq!("0,start".parse::<Steps>(), Err(StepsError::StartAndSteps));
        assert_eq!(
            "0,2A".parse::<Steps>(),
            Err(StepsError::Unknown {
                given: "2A".to_owned(),
                nearest: "2a"
            })
        );
    }
}
