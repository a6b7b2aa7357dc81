//! What requests paid for the connections that they opened: resolving, connecting, TLS. It is part
//! of their response times; shown, not judged.

use crate::histogram::LatencyHistogram;
use crate::level::Level;
use crate::pool::{Pool, pools};
use crate::record::{EndpointSamples, RunRecord};
use crate::stream::{Quantiles, quantiles};

/// The connections that requests of one endpoint opened in one arm at one level, over its valid
/// blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Connecting {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Level of the load.
    pub level: Level,
    /// Its name in the scenario.
    pub endpoint: String,
    /// Connections opened.
    pub opened: u64,
    /// Resolving the name, ms; `None` where there was none to resolve.
    pub dns: Option<Quantiles>,
    /// Connecting, ms.
    pub tcp: Quantiles,
    /// The handshake of TLS, ms; `None` without TLS.
    pub tls: Option<Quantiles>,
}

/// Who opened connections while it was measured: endpoints in the scenario's order, then level,
/// then arm. Empty where users kept those of their warm-up. Invalid blocks are left out.
pub fn connecting(record: &RunRecord) -> Vec<Connecting> {
    pools(record).iter().filter_map(opened).collect()
}

fn opened(pool: &Pool<'_>) -> Option<Connecting> {
    let sum = |of: fn(&EndpointSamples) -> Option<&LatencyHistogram>| {
        let sum = LatencyHistogram::sum(pool.samples.iter().filter_map(|samples| of(samples)));
        Some(sum).filter(|sum| !sum.is_empty())
    };
    let tcp = sum(|samples| samples.tcp.as_ref())?;
    Some(Connecting {
        arm: pool.arm.to_owned(),
        level: pool.level,
        endpoint: pool.endpoint.name.clone(),
        opened: tcp.count(),
        dns: sum(|samples| samples.dns.as_ref()).as_ref().map(quantiles),
        tcp: quantiles(&tcp),
        tls: sum(|samples| samples.tls.as_ref()).as_ref().map(quantiles),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, run_record};

    #[test]
    fn only_requests_that_opened_connections_are_told_of() {
        let endpoints = ["GET a", "GET b"].map(|name| EndpointSpec::new(name, 5.0));
        let mut record = run_record(1, 100, &endpoints);
        assert_eq!(connecting(&record), []);
        let samples = record.blocks[0].endpoints.get_mut("GET b");
        let samples = samples.expect("it is in the scenario");
        let recorded = |times_us: &[u64]| {
            let mut histogram = LatencyHistogram::new();
            times_us.iter().for_each(|us| histogram.record_us(*us));
            Some(histogram)
        };
        samples.tcp = recorded(&[100, 200, 300]);
        samples.tls = recorded(&[5_000, 6_000]);
        samples.dns = Some(LatencyHistogram::new());
        let found = connecting(&record);
        let [found] = found.as_slice() else {
            panic!("one endpoint opened connections: {found:?}");
        };
        assert_eq!((found.endpoint.as_str(), found.opened), ("GET b", 3));
        assert_eq!(found.tcp.p50.value, Some(0.2));
        assert!(found.dns.is_none() && found.tls.is_some());
        record.blocks[0].validity.ok = false;
        assert_eq!(connecting(&record), []);
    }
}
