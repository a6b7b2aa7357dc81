//! How a block is driven: its load model, its warm-up and its patience.

use std::time::Duration;

use unstall_results::level::Level;
use unstall_scenarios::plan::{Arrivals, Plan, Stage};

use super::probe::ProbeSpec;
use super::schedule::{Schedule, ScheduleError};

/// How a block is driven.
#[derive(Debug, Clone)]
pub struct BlockSpec {
    /// Who sends when.
    pub load: LoadModel,
    /// What comes before the first measured request.
    pub warmup: Warmup,
    /// For random feeders of the scenario, and for random arrivals.
    pub seed: u64,
    /// Generator threads; `None`: half the cores that this process may use, at least 1.
    pub threads: Option<usize>,
    /// After a stop, or at the end of [`Amount::For`] and of an open load: how long answers are
    /// awaited.
    pub grace: Duration,
    /// A service that has not answered at all for this long, and for 3 requests per
    /// user, ends the block.
    pub patience: Duration,
    /// The bystander probe beside the load, if there is to be one.
    pub probe: Option<ProbeSpec>,
    /// Whether the service's event loops are watched from outside meanwhile.
    pub watch: bool,
}

impl Default for BlockSpec {
    /// 20 users, 400 requests per endpoint, the warm-up and grace of this tool's definitions.
    fn default() -> Self {
        Self {
            load: LoadModel::Closed {
                users: 20,
                amount: Amount::PerEndpoint(400),
            },
            warmup: Warmup::default(),
            seed: 0,
            threads: None,
            grace: Duration::from_secs(2),
            patience: Duration::from_secs(3),
            probe: None,
            watch: false,
        }
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this many iterations, over all users: so many requests to each endpoint, or to
    /// alternatives by weight together.
    PerEndpoint(u64),
    /// As many as fit into this time.
    For(Duration),
}

/// Load before the measured one, thrown away: whichever of the two is longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Rounds through the scenario per user; of an open load, arrivals at the first stage's
    /// rate.
    pub rounds_per_user: u32,
    /// Least time.
    pub lasting_at_least: Duration,
}

impl Default for Warmup {
    /// 5 rounds per user, 1 s.
    fn default() -> Self {
        Self {
            rounds_per_user: 5,
            lasting_at_least: Duration::from_secs(1),
        }
    }
}

impl BlockSpec {
    /// A closed load; the rest as by default.
    pub fn closed(users: u32, amount: Amount) -> Self {
        Self {
            load: LoadModel::Closed { users, amount },
            ..Self::default()
        }
    }

    /// An open load; the rest as by default.
    pub fn open(load: OpenLoad) -> Self {
        Self {
            load: LoadModel::Open(load),
            ..Self::default()
        }
    }

    /// Requests of the whole block, where a number ends it and all of them are made.
    pub(super) fn requests(&self, per_iteration: usize) -> Option<u64> {
        match &self.load {
            LoadModel::Closed {
                amount: Amount::PerEndpoint(requests),
                ..
            } => Some(requests * per_iteration as u64),
            _ => None,
        }
    }
}

/// Who sends when.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadModel {
    /// So many users, each of whom waits for an answer before sending the next request.
    Closed {
        /// Users at the same time.
        users: u32,
        /// When the block is over.
        amount: Amount,
    },
    /// Arrivals at their own times, whatever the answers do.
    Open(OpenLoad),
}

impl LoadModel {
    /// Its level in a record.
    pub fn level(&self) -> Level {
        match self {
            Self::Closed { users, .. } => Level::Users(*users),
            Self::Open(open) => Level::of_rate(open.rate_per_second()),
        }
    }

    /// Users that there can be at the same time, each with a connection of its own.
    pub fn users(&self) -> u32 {
        match self {
            Self::Closed { users, .. } => *users,
            Self::Open(open) => open.in_flight_max,
        }
    }
}

/// Arrivals at their own times. Each is one pass through the scenario's requests, made by a free
/// user: its first request is intended at the arrival's own moment, each later one at the end of
/// the one before and its think time.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoad {
    /// How arrivals are spread.
    pub arrivals: Arrivals,
    /// Arrivals per second and for how long, one after the other.
    pub stages: Vec<Stage>,
    /// Arrivals that are served at the same time. Those beyond wait for a free user, and their
    /// wait is part of their response time.
    pub in_flight_max: u32,
}

impl OpenLoad {
    /// Arrivals in flight if nobody says otherwise.
    pub const IN_FLIGHT_MAX: u32 = 1_000;
    /// The same where every user has to be set up before the barrier.
    pub const IN_FLIGHT_MAX_WITH_SETUP: u32 = 100;

    /// Poisson arrivals at one rate, up to [`OpenLoad::IN_FLIGHT_MAX`] in flight.
    pub fn poisson(rate_per_second: f64, duration: Duration) -> Self {
        Self {
            arrivals: Arrivals::Poisson,
            stages: vec![Stage {
                rate: rate_per_second,
                duration,
            }],
            in_flight_max: Self::IN_FLIGHT_MAX,
        }
    }

    /// The same with equal gaps.
    pub fn constant(rate_per_second: f64, duration: Duration) -> Self {
        Self {
            arrivals: Arrivals::Constant,
            ..Self::poisson(rate_per_second, duration)
        }
    }

    /// What this plan's arrivals in flight are limited to, if nobody says otherwise: every user
    /// is set up before the barrier, which has its price.
    pub fn in_flight_max_of(plan: &Plan) -> u32 {
        if plan.sets_up_users() {
            Self::IN_FLIGHT_MAX_WITH_SETUP
        } else {
            Self::IN_FLIGHT_MAX
        }
    }

    /// The length of all stages.
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }

    /// Mean rate over all stages; 0 without any.
    pub fn rate_per_second(&self) -> f64 {
        let arrivals: f64 = self
            .stages
            .iter()
            .map(|stage| stage.rate * stage.duration.as_secs_f64())
            .sum();
        let seconds = self.duration().as_secs_f64();
        if seconds > 0.0 {
            arrivals / seconds
        } else {
            0.0
        }
    }

    /// When its arrivals are due.
    ///
    /// # Errors
    /// [`ScheduleError`] if there is nothing to follow.
    pub fn schedule(&self, seed: u64) -> Result<Schedule, ScheduleError> {
        Schedule::new(self.arrivals, &self.stages, seed)
    }
}
