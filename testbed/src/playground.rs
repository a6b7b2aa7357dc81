//! Private servers to play with, until Ctrl-C.

use std::error::Error;
use std::io::Write;
use std::thread;

use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy, Options, Testbed};

/// Starts them, behind proxies with the usual round trip if asked, and says where they are.
pub(crate) fn serve(delayed: bool) -> Result<(), Box<dyn Error>> {
    let testbed = Testbed::start(&Options::from_env())?;
    let mut database_url = testbed.database_url("postgres");
    let mut redis_url = testbed.redis_url();
    let mut proxies = Vec::new();
    if delayed {
        let postgres = DelayProxy::start(testbed.postgres_address(), DEFAULT_ROUND_TRIP)?;
        let redis = DelayProxy::start(testbed.redis_address(), DEFAULT_ROUND_TRIP)?;
        database_url = testbed.database_url_through(postgres.addr(), "postgres");
        redis_url = testbed.redis_url_through(redis.addr());
        proxies.extend([postgres, redis]);
    }
    let mut out = std::io::stdout();
    writeln!(out, "DATABASE_URL={database_url}\nREDIS_URL={redis_url}")?;
    let folder = testbed.folder().display();
    let guard = testbed.guard().process_id();
    writeln!(out, "# folder {folder}, guard process {guard}")?;
    writeln!(out, "# all are gone when this ends: Ctrl-C")?;
    out.flush()?;
    loop {
        thread::park();
    }
}
