//! `unstall-testbed`: private servers to play with, until Ctrl-C. Its tests kill it in every way.

use std::error::Error;
use std::io::Write;
use std::thread;

use unstall_testbed::{Options, Testbed};

fn main() -> Result<(), Box<dyn Error>> {
    let testbed = Testbed::start(&Options::from_env())?;
    let mut out = std::io::stdout();
    writeln!(out, "DATABASE_URL={}", testbed.database_url("postgres"))?;
    writeln!(out, "REDIS_URL={}", testbed.redis_url())?;
    writeln!(
        out,
        "# folder {}, guard process {}",
        testbed.folder().display(),
        testbed.guard().process_id()
    )?;
    writeln!(out, "# both are gone when this ends: Ctrl-C")?;
    out.flush()?;
    loop {
        thread::park();
    }
}
