//! Whether a version's loop was blocked anywhere, by its own monitor.

use std::collections::BTreeMap;

use unstall_results::record::{Block, MonitorEndpoint, RunRecord};

use crate::console::visible;
use crate::document::replay::{BlockedDocument, BlockedEndpointDocument};

/// From here on a poll counts as blocked: what the monitor counts as such.
const BLOCK_US: u64 = 200;

/// Endpoints that are named in a text.
const SHOWN_MAX: usize = 5;

/// Adds up the blocks of one version.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// Scenario and endpoint.
    endpoints: BTreeMap<(String, String), BlockedEndpointDocument>,
    requests: u64,
    polls: u64,
    unattributed_us: u64,
    /// The most of it in one block: a poll lies within one.
    unattributed_us_max: u64,
    failures: u64,
    /// Blocks whose monitor told.
    blocks: u64,
}

impl Blocked {
    /// Adds what a record has of the version that a command serves.
    pub(crate) fn add(&mut self, record: &RunRecord, command: &str) {
        let is_it = |block: &&Block| {
            let arm = record.arms.get(&block.arm);
            arm.is_some_and(|arm| arm.command.as_deref() == Some(command))
        };
        // A search for capacity goes beyond it on purpose: what fails there is its answer.
        let counts_failures = record.load.capacity.is_none();
        for block in record.blocks.iter().filter(is_it) {
            if counts_failures {
                self.failures += block.errors.values().sum::<u64>();
            }
            self.add_block(&record.scenario.name, block);
        }
    }

    fn add_block(&mut self, scenario: &str, block: &Block) {
        let Some(monitor) = block.monitor.as_ref().filter(|of| of.measures_blocked()) else {
            return;
        };
        self.blocks += 1;
        let unattributed_us = monitor.unattributed_blocked_us;
        self.unattributed_us += unattributed_us;
        self.unattributed_us_max = self.unattributed_us_max.max(unattributed_us);
        for (endpoint, seen) in &monitor.endpoints {
            self.add_endpoint(scenario, endpoint, seen);
        }
        let probe = block
            .probe
            .as_ref()
            .and_then(|probe| probe.monitor.as_ref());
        if let Some(seen) = probe {
            self.add_endpoint(scenario, "bystander probe", seen);
        }
    }

    fn add_endpoint(&mut self, scenario: &str, endpoint: &str, seen: &MonitorEndpoint) {
        self.requests += seen.requests;
        self.polls += seen.polls;
        let key = (scenario.to_owned(), endpoint.to_owned());
        let sum = self.endpoints.entry(key);
        let sum = sum.or_insert_with(|| BlockedEndpointDocument {
            scenario: scenario.to_owned(),
            endpoint: endpoint.to_owned(),
            requests: 0,
            blocks: 0,
            longest_us: 0,
            slept_us: 0,
            fault_us: 0,
        });
        sum.requests += seen.requests;
        sum.blocks += seen.blocks_over_200us;
        sum.longest_us = sum.longest_us.max(seen.blocked_us_max);
        sum.slept_us += seen.blocked_us.slept;
        sum.fault_us += seen.blocked_us.fault;
    }

    /// What there is to tell; `None` where no monitor told anything.
    pub(crate) fn document(&self) -> Option<BlockedDocument> {
        let with_any = self.endpoints.values().filter(|of| of.blocks > 0);
        let mut endpoints: Vec<_> = with_any.cloned().collect();
        endpoints.sort_by_key(|of| std::cmp::Reverse(of.longest_us));
        (self.blocks > 0).then(|| BlockedDocument {
            free: endpoints.iter().all(is_only_paging) && self.unattributed_us_max < BLOCK_US,
            requests: self.requests,
            polls: self.polls,
            failures: self.failures,
            unattributed_us: self.unattributed_us,
            endpoints,
        })
    }
}

/// So little sleep makes no block: these all waited for a page from disk, which is the machine's.
fn is_only_paging(endpoint: &BlockedEndpointDocument) -> bool {
    endpoint.slept_us < BLOCK_US
}

/// The same for people, behind a label.
pub(crate) fn text(document: &BlockedDocument) -> String {
    let looked_at = format!("{} requests, {} polls", document.requests, document.polls);
    let sleeps = document.endpoints.iter().any(|of| !is_only_paging(of));
    let mut text = match (document.free, sleeps) {
        (true, _) if document.endpoints.is_empty() => {
            format!("no poll was blocked for 200 µs or more ({looked_at})\n")
        }
        (true, _) => format!("no poll was blocked but by pages read from disk ({looked_at})\n"),
        (false, true) => format!("polls were blocked for 200 µs or more ({looked_at})\n"),
        // It may be one long block or many short ones.
        (false, false) => format!(
            "no route was seen blocked, but {} of blocked time belong to none ({looked_at})\n",
            ms(document.unattributed_us)
        ),
    };
    if sleeps && document.unattributed_us > 0 {
        text.push_str(&format!(
            "    of no route: {} of blocked time in all\n",
            ms(document.unattributed_us)
        ));
    }
    for of in document.endpoints.iter().take(SHOWN_MAX) {
        text.push_str(&format!(
            "    {} in {}: {} in {} requests, the longest {}; slept {}, read pages {} in all\n",
            visible(&of.endpoint),
            visible(&of.scenario),
            of.blocks,
            of.requests,
            ms(of.longest_us),
            ms(of.slept_us),
            ms(of.fault_us),
        ));
    }
    let more = document.endpoints.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        text.push_str(&format!("    and {more} endpoints more\n"));
    }
    text
}

fn ms(us: u64) -> String {
    format!("{}.{:02} ms", us / 1_000, us % 1_000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstall_results::synthetic::{EndpointSpec, record};

    fn measured(blocked_after_ms: f64) -> RunRecord {
        let mut spec = EndpointSpec::new("GET a", 10.0);
        spec.blocked_before_ms = 500.0;
        spec.blocked_after_ms = blocked_after_ms;
        let mut record = record(1, 6, 400, &[spec]);
        for (name, arm) in &mut record.arms {
            arm.command = Some(format!("serve {name}"));
        }
        record
    }

    fn of(record: &RunRecord, command: &str) -> Option<BlockedDocument> {
        let mut blocked = Blocked::default();
        blocked.add(record, command);
        blocked.document()
    }

    #[test]
    fn only_blocks_of_the_version_count() {
        let record = measured(0.0);
        let after = of(&record, "serve after").expect("monitored");
        assert!(after.free && after.endpoints.is_empty(), "{after:?}");
        assert!(after.requests >= 6 * 400, "{after:?}");
        let before = of(&record, "serve before").expect("monitored");
        assert!(!before.free, "{before:?}");
        assert!(before.endpoints[0].blocks > 0);
        assert!(text(&before).contains("GET a"), "{}", text(&before));
        assert!(of(&record, "serve nothing").is_none());
    }

    #[test]
    fn blocked_time_of_no_route_is_not_free_where_a_block_has_as_much_as_a_poll() {
        let spread = |us: u64| {
            let mut record = measured(0.0);
            for monitor in record
                .blocks
                .iter_mut()
                .filter_map(|of| of.monitor.as_mut())
            {
                monitor.unattributed_blocked_us = us;
            }
            of(&record, "serve after").expect("monitored")
        };
        let short = spread(BLOCK_US - 1);
        assert!(short.free && short.unattributed_us > BLOCK_US, "{short:?}");
        let long = spread(BLOCK_US);
        assert!(!long.free && long.endpoints.is_empty(), "{long:?}");
        assert_eq!(
            text(&long).lines().next(),
            Some(format!(
                "no route was seen blocked, but 1.20 ms of blocked time belong to none ({} requests, \
                 {} polls)",
                long.requests, long.polls
            ))
            .as_deref()
        );
    }

    #[test]
    fn what_was_read_from_disk_is_told_and_forgiven() {
        let mut record = measured(0.0);
        let block = record.blocks.iter_mut().find(|block| block.arm == "after");
        let monitor = block.and_then(|block| block.monitor.as_mut()).expect("one");
        let endpoint = monitor.endpoints.values_mut().next().expect("an endpoint");
        endpoint.blocks_over_200us = 1;
        endpoint.blocked_us_max = 900;
        endpoint.blocked_us.fault = 900;
        let told = of(&record, "serve after").expect("monitored");
        assert!(told.free && told.endpoints.len() == 1, "{told:?}");
        assert!(text(&told).contains("pages read from disk"));
        let mut slept = record.clone();
        for monitor in slept.blocks.iter_mut().filter_map(|of| of.monitor.as_mut()) {
            for endpoint in monitor.endpoints.values_mut() {
                endpoint.blocked_us.slept += 900;
            }
        }
        assert!(!of(&slept, "serve after").expect("monitored").free);
    }
}
