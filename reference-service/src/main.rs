//! `unstall-reference`: the reference service as a program.

mod arguments;

use std::process::ExitCode;

use arguments::Task;
use unstall_reference_service::{migrations, seed, server};

/// Failed for a reason outside the command line; clap itself exits with 2 for mistakes in it.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let task = arguments::parse();
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unstall-reference: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(task: Task) -> Result<(), Box<dyn std::error::Error>> {
    match task {
        Task::Serve(options) => server::run(options)?,
        Task::Migrate { database_url } => once()?.block_on(migrations::apply(&database_url))?,
        Task::Seed {
            database_url,
            redis_url,
        } => once()?.block_on(async {
            if let Some(url) = database_url {
                seed::postgres(&url).await?;
            }
            if let Some(url) = redis_url {
                seed::redis(&url).await?;
            }
            Ok::<(), seed::SeedError>(())
        })?,
    }
    Ok(())
}

/// A runtime for a task that ends by itself.
fn once() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
