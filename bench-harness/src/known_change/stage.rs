//! Both versions of a case: the testbed's service of exact delays behind delay proxies, or the
//! private service, told differently.

use std::io;
use std::time::Duration;

use anyhow::Context;
use unstall_bench_harness::engine::Target;
use unstall_bench_harness::process_group::ServiceCommand;
use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy, ExactDelay};

use super::case::ServiceChange;
use super::service;
use crate::arguments::KNOWN_CHANGE_ROLE;
use crate::judgement::AFTER;
use crate::session::{Prepared, Stage, Turn};

/// The route of the service of exact delays.
pub(super) const DELAYED_ROUTE: &str = "/delay/30";

/// One service behind two proxies, the second of which is further away.
#[derive(Debug)]
pub(super) struct Delayed {
    // Before the service, so that nobody talks to one that is going.
    near: DelayProxy,
    far: DelayProxy,
    /// Whether the place in the pair decides, and not the version.
    by_position: bool,
    /// The same for both.
    service: ExactDelay,
}

impl Delayed {
    /// Starts it with so much between the two.
    pub(super) fn start(added: Duration, by_position: bool) -> io::Result<Self> {
        let service = ExactDelay::start()?;
        Ok(Self {
            near: DelayProxy::start(service.addr(), DEFAULT_ROUND_TRIP)?,
            far: DelayProxy::start(service.addr(), DEFAULT_ROUND_TRIP + added)?,
            by_position,
            service,
        })
    }

    /// Where the first version is.
    pub(super) fn near(&self) -> String {
        format!("http://{}", self.near.addr())
    }

    /// What both versions are, in a record's words.
    pub(super) fn describe(&self, proxy: &str) -> String {
        format!("{} behind the {proxy} proxy", self.service.url())
    }
}

impl Stage for Delayed {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        let is_far = if self.by_position {
            turn.position == 1
        } else {
            turn.arm == AFTER
        };
        let proxy = if is_far { &self.far } else { &self.near };
        let target = Target::parse(&format!("http://{}", proxy.addr()))?;
        Ok(Prepared::Running(target))
    }
}

/// The private service, started afresh for each block.
#[derive(Debug)]
pub(super) struct Told {
    before: String,
    after: String,
}

impl Told {
    /// A second version that does this.
    ///
    /// # Errors
    /// If this program can't be named on a command line.
    pub(super) fn new(change: ServiceChange) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("this program doesn't find itself")?;
        let own = own.to_str().filter(|path| !path.contains('\''));
        let own =
            own.context("the path of this program has letters that no command line can have")?;
        let line =
            |more: &str| format!("'{own}' selftest {KNOWN_CHANGE_ROLE} --port {{port}}{more}");
        let more = match change {
            ServiceChange::Blocks(us) => format!(" --block-us {us}"),
            ServiceChange::Fails(every) => format!(" --fail-every {every}"),
            ServiceChange::Threads(threads) => format!(" --threads {threads}"),
        };
        Ok(Self {
            before: line(""),
            after: line(&more),
        })
    }

    /// The commands of both versions.
    pub(super) fn commands(&self) -> [&str; 2] {
        [&self.before, &self.after]
    }
}

impl Stage for Told {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        let line = if turn.arm == AFTER {
            &self.after
        } else {
            &self.before
        };
        Ok(Prepared::ToStart(ServiceCommand::new(line)))
    }
}

/// The scenario of a route: one request, nothing else.
pub(super) fn scenario(route: &str) -> String {
    format!(
        "name = \"known-change\"\ndescribe = \"a case of the self-test of the gate\"\n\n\
         [[request]]\nname = \"GET work\"\nmethod = \"GET\"\npath = \"{route}\"\n"
    )
}

/// The route of the private service.
pub(super) const TOLD_ROUTE: &str = service::ROUTE;
