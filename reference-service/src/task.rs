//! What the program was asked to do, and doing it.

use std::error::Error;
use std::io;

use tokio::runtime::{Builder, Runtime};
use unstall_reference_service::seed::{self, SeedError};
use unstall_reference_service::{migrations, server, worker};

/// One task of the command line.
pub(crate) enum Task {
    /// Serve requests.
    Serve(Box<server::Options>),
    /// Answer runs.
    Work(worker::Options),
    /// Bring the schema up to date.
    Migrate {
        /// Where.
        database_url: String,
    },
    /// Bring the data that scenarios count on.
    Seed {
        /// PostgreSQL, if given.
        database_url: Option<String>,
        /// Redis, if given.
        redis_url: Option<String>,
    },
}

impl Task {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Serve(options) => server::run(*options)?,
            Self::Work(options) => worker::run(&options)?,
            Self::Migrate { database_url } => {
                runtime()?.block_on(migrations::apply(&database_url))?;
            }
            Self::Seed {
                database_url,
                redis_url,
            } => {
                runtime()?.block_on(seed(database_url.as_deref(), redis_url.as_deref()))?;
            }
        }
        Ok(())
    }
}

async fn seed(database_url: Option<&str>, redis_url: Option<&str>) -> Result<(), SeedError> {
    if let Some(url) = database_url {
        seed::postgres(url).await?;
    }
    if let Some(url) = redis_url {
        seed::redis(url).await?;
    }
    Ok(())
}

/// A runtime for a task that ends by itself.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
