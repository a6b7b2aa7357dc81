//! Records that tests put into folders: synthetic, so that what follows from them is known.

use std::path::Path;

use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_results::synthetic::EndpointSpec;

/// p50 20 ms, p95 about 40 ms, and `ratio` times as long after.
pub(crate) fn endpoint(ratio: f64) -> EndpointSpec {
    EndpointSpec {
        ratio,
        spread: 0.4,
        ..EndpointSpec::new("GET usage", 20.0)
    }
}

pub(crate) fn write(folder: &Path, name: &str, record: &RunRecord) {
    store::write(&folder.join(name), record).expect("a record is written");
}
