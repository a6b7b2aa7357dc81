//! The services that the measured one calls: stubs on loopback, as slow as stated.

use std::time::Duration;

use anyhow::Context;
use unstall_testbed::{Hub, HubStub, IdentityStub, ListenerStub, TrackerStub};

/// From a request's last byte to its answer's first: a service in the next rack. One further away
/// would only make the blocks of versions that wait for it on their loop longer.
const LATENCY: Duration = Duration::from_millis(2);
/// What the code host has: three organisations, each of which asks for a token of its own.
const HUB: Hub = Hub {
    installations: 3,
    repositories: 20,
};
/// Issues that the tracker knows.
const ISSUES: u32 = 100;

/// They run as long as this lives.
#[derive(Debug)]
pub(super) struct Peers {
    identity: IdentityStub,
    hub: HubStub,
    tracker: TrackerStub,
    /// Mail and analytics.
    listener: ListenerStub,
}

impl Peers {
    /// Starts them.
    ///
    /// # Errors
    /// When the system refuses a socket or a thread.
    pub(super) fn start() -> anyhow::Result<Self> {
        const NONE: &str = "a stub of a service that the measured one calls did not start";
        Ok(Self {
            identity: IdentityStub::start(LATENCY).context(NONE)?,
            hub: HubStub::start(LATENCY, HUB).context(NONE)?,
            tracker: TrackerStub::start(LATENCY, ISSUES).context(NONE)?,
            listener: ListenerStub::start(LATENCY).context(NONE)?,
        })
    }

    /// Where the measured service finds them, by the variables that it reads. Variables rather than
    /// options: the command of a version is the same in every replay.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let found = [
            ("NOTIFY_URL", self.identity.hook_url()),
            ("IDENTITY_URL", self.identity.url()),
            ("HUB_URL", self.hub.url()),
            ("TRACKER_URL", self.tracker.url()),
            ("MAIL_URL", self.listener.mail_url()),
            ("ANALYTICS_URL", self.listener.analytics_url()),
        ];
        found.map(|(name, url)| (name.to_owned(), url)).into()
    }
}
