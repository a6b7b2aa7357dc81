//! The command line: read by clap, then resolved to a task.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;
use unstall_loop_monitor::Mode as MonitorMode;
use unstall_reference_service::api_key::AdminKey;
use unstall_reference_service::server::Options;
use unstall_reference_service::service_url::ServiceUrl;
use unstall_reference_service::steps::Steps;
use unstall_reference_service::variants::Addresses;
use unstall_reference_service::variants::code_host::HubAddress;
use unstall_reference_service::variants::services::ServiceUrls;
use unstall_reference_service::worker::{self, pace::Pace};

use crate::task::Task;

/// The service that Unstall measures, at any step of its migration from blocking to async stores.
///
/// A store is async if its step is listed, else it blocks the event loop; without step 0, as at the
/// `start`, its calls are on threads instead. The steps move 1: runs and their streams, 2a: the usage
/// check and new conversations, 2b: stopped answers, 2c: sharing and API keys, 2d: signing up and
/// in, 2e: repositories, 3: tunnel and the code host's cache, 4: calls of other services, 5: search,
/// 6: the reading of streams, and sessions. Messages are answered by `unstall-reference worker`, a
/// process of its own.
/// Logs go to stderr; RUST_LOG sets their level (warn).
#[derive(Parser)]
#[command(
    name = "unstall-reference",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  unstall-reference migrate --database-url postgres://app@127.0.0.1/app\n  \
                  unstall-reference seed --database-url postgres://app@127.0.0.1/app --redis-url redis://127.0.0.1\n  \
                  unstall-reference worker --database-url postgres://app@127.0.0.1/app --redis-url redis://127.0.0.1\n  \
                  unstall-reference --steps 0,1,2a --port 8001 --database-url postgres://app@127.0.0.1/app --redis-url redis://127.0.0.1"
)]
struct Raw {
    #[command(subcommand)]
    command: Option<RawCommand>,
    #[command(flatten)]
    serve: RawServe,
}

#[derive(Subcommand)]
enum RawCommand {
    /// Create or update the tables
    Migrate {
        /// PostgreSQL
        #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
        database_url: String,
    },
    /// Put in users, conversations (PostgreSQL) and workspaces, branches (Redis); at least one URL
    Seed {
        /// PostgreSQL
        #[arg(long, value_name = "URL", required_unless_present = "redis_url")]
        database_url: Option<String>,
        /// Redis
        #[arg(long, value_name = "URL")]
        redis_url: Option<String>,
    },
    /// Answer messages: takes runs from the Redis list agent:runs and publishes their pieces
    Worker(RawWorker),
}

#[derive(Args)]
#[command(after_help = "Example:\n  \
                        unstall-reference worker --rate 50 --chunks 10 --database-url postgres://app@127.0.0.1/app --redis-url redis://127.0.0.1")]
struct RawWorker {
    /// PostgreSQL
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Redis
    #[arg(long, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    redis_url: String,
    /// Pieces of each answer [default: one per word]
    #[arg(long, value_name = "N")]
    chunks: Option<NonZeroU16>,
    /// Pieces per second of each answer, 0.001 to 1000
    #[arg(long, default_value_t = 50.0, value_parser = rate)]
    rate: f64,
    /// How late a piece may come, as a part of the time between two (0 to 1)
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part)]
    jitter: f64,
    /// Seed of the lateness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Form of the log
    #[arg(long, default_value = "text")]
    log: LogForm,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("must be from 0.001 to 1000".to_owned())
    }
}

fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&part) {
        Ok(part)
    } else {
        Err("must be from 0 to 1".to_owned())
    }
}

#[derive(Args)]
struct RawServe {
    /// Port to listen on; 0 takes a free one and logs it (level info)
    #[arg(long, env = "UNSTALL_PORT", required = true)]
    port: Option<u16>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Steps that have landed, as in `0,1,2a`, or `start` for none
    #[arg(long, value_name = "LIST", conflicts_with = "mode")]
    steps: Option<Steps>,
    /// All stores of one kind [default: async]
    #[arg(long)]
    mode: Option<Mode>,
    /// Worker threads; 1 is one event loop
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// PostgreSQL
    #[arg(
        long,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true,
        required = true
    )]
    database_url: Option<String>,
    /// Redis
    #[arg(
        long,
        value_name = "URL",
        env = "REDIS_URL",
        hide_env_values = true,
        required = true
    )]
    redis_url: Option<String>,
    /// Seconds without a word after which a run's stream is ended: its worker is dead
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..))]
    stream_idle_max: u32,
    /// Key by which an administrator calls v2 routes for the user that X-User-Id names
    #[arg(long, value_name = "SECRET", env = "ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<AdminKey>,
    /// Hook that is told of each new account by POST, as in http://127.0.0.1:9000/hook
    #[arg(long, value_name = "URL", env = "NOTIFY_URL")]
    notify_url: Option<ServiceUrl>,
    #[command(flatten)]
    services: RawServices,
    #[command(flatten)]
    hub: RawHub,
    /// How the monitor charges blocked time; its snapshot is at /__unstall/snapshot
    #[arg(long, default_value = "counters")]
    monitor: MonitorChoice,
    /// Form of the log
    #[arg(long, default_value = "text")]
    log: LogForm,
}

/// Services that are called over plain HTTP; without an address a login or an issue is 502, and
/// nobody is told anything.
#[derive(Args)]
struct RawServices {
    /// Identity service that checks passwords: its base address
    #[arg(long, value_name = "URL", env = "IDENTITY_URL")]
    identity_url: Option<ServiceUrl>,
    /// Issue tracker: the base address, below which it has /graphql
    #[arg(long, value_name = "URL", env = "TRACKER_URL")]
    tracker_url: Option<ServiceUrl>,
    /// Where mail is posted, as in http://127.0.0.1:9000/emails
    #[arg(long, value_name = "URL", env = "MAIL_URL")]
    mail_url: Option<ServiceUrl>,
    /// Where events are posted, as in http://127.0.0.1:9000/capture
    #[arg(long, value_name = "URL", env = "ANALYTICS_URL")]
    analytics_url: Option<ServiceUrl>,
}

#[derive(Args)]
struct RawHub {
    /// The code host's API: its base address; without it only what is cached and what the database
    /// holds is known of repositories
    #[arg(long, value_name = "URL", env = "HUB_URL")]
    hub_url: Option<ServiceUrl>,
    /// Seconds that the code host may take for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(1..))]
    hub_timeout: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// No step but 0 has landed
    Blocking,
    /// No step has landed: sync calls on a pool of threads, as in `--steps start`
    Threads,
    /// All steps have landed
    Async,
}

#[derive(Clone, Copy, ValueEnum)]
enum MonitorChoice {
    /// Kernel counters at park, unpark and after long polls
    Counters,
    /// Kernel counters around every poll: exact, and dearer
    FullSplit,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogForm {
    /// A line of text per event
    Text,
    /// A JSON object per event
    Json,
}

/// Reads the command line and starts the log. Ends the program with status 2 if the line is wrong.
pub(crate) fn parse() -> Task {
    match Raw::parse() {
        Raw {
            command: Some(RawCommand::Migrate { database_url }),
            ..
        } => Task::Migrate { database_url },
        Raw {
            command:
                Some(RawCommand::Seed {
                    database_url,
                    redis_url,
                }),
            ..
        } => Task::Seed {
            database_url,
            redis_url,
        },
        Raw {
            command: Some(RawCommand::Worker(worker)),
            ..
        } => {
            start_log(worker.log);
            Task::Work(resolve_worker(worker))
        }
        Raw {
            command: None,
            serve,
        } => {
            start_log(serve.log);
            match resolve(serve) {
                Ok(options) => Task::Serve(Box::new(options)),
                Err(error) => Raw::command()
                    .error(ErrorKind::ValueValidation, error)
                    .exit(),
            }
        }
    }
}

fn resolve(raw: RawServe) -> Result<Options, String> {
    let steps = match (raw.steps, raw.mode) {
        (Some(steps), _) => steps,
        (None, Some(Mode::Blocking)) => Steps::blocking(),
        (None, Some(Mode::Threads)) => Steps::start(),
        (None, Some(Mode::Async) | None) => Steps::all(),
    };
    Ok(Options {
        address: SocketAddr::new(raw.host, required(raw.port, "--port")?),
        steps,
        monitor: match raw.monitor {
            MonitorChoice::Counters => MonitorMode::Counters,
            MonitorChoice::FullSplit => MonitorMode::FullSplit,
        },
        workers: usize::from(raw.workers),
        stream_idle_max: Duration::from_secs(u64::from(raw.stream_idle_max)),
        admin_key: raw.admin_key,
        addresses: Addresses {
            database_url: required(raw.database_url, "--database-url")?,
            redis_url: required(raw.redis_url, "--redis-url")?,
            notify_url: raw.notify_url,
            services: ServiceUrls {
                identity: raw.services.identity_url,
                tracker: raw.services.tracker_url,
                mail: raw.services.mail_url,
                analytics: raw.services.analytics_url,
            },
            hub: raw.hub.hub_url.map(|url| HubAddress {
                url,
                answer_max: Duration::from_secs(u64::from(raw.hub.hub_timeout)),
            }),
        },
    })
}

fn resolve_worker(raw: RawWorker) -> worker::Options {
    worker::Options {
        database_url: raw.database_url,
        redis_url: raw.redis_url,
        pace: Pace {
            rate: raw.rate,
            jitter: raw.jitter,
            seed: raw.seed,
        },
        chunks: raw.chunks.map(|chunks| usize::from(chunks.get())),
    }
}

/// clap has refused the command line if it was missing; a subcommand alone may leave it out.
fn required<T>(given: Option<T>, option: &str) -> Result<T, String> {
    given.ok_or_else(|| format!("{option} is required"))
}

fn start_log(form: LogForm) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_unset_or_wrong| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match form {
        LogForm::Text => log.with_ansi(false).init(),
        LogForm::Json => log.json().init(),
    }
}
