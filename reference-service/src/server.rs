//! Runs the service: one runtime, its stores, its routes, until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::ListenerExt;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use unstall_loop_monitor::{LagProbeError, Mode, Monitor};

use crate::api_key::AdminKey;
use crate::bridge::BridgeCounters;
use crate::migrations;
use crate::routes::{self, App};
use crate::run_stream::RunStreams;
use crate::start_faults::StartFaults;
use crate::steps::{Step, Steps, Variant};
use crate::thread_slots::{Sessions, ThreadSlots};
use crate::to_its_end;
use crate::variants::threads::CallPool;
use crate::variants::{self, Addresses, ConnectError};

/// How long requests in flight may take after a request to stop. With
/// [`BRIDGES`] and [`CLOSE`] it is less than the 10 s that `unstall` waits before it kills.
const DRAIN: Duration = Duration::from_secs(7);

/// How long what bridges have taken may take after that.
const BRIDGES: Duration = Duration::from_secs(1);

/// How long connections may take to close after that.
const CLOSE: Duration = Duration::from_secs(1);

/// What to serve, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; port 0 takes a free one, which the log tells.
    pub address: SocketAddr,
    /// Steps that have landed.
    pub steps: Steps,
    /// Worker threads of the runtime; 1 is one event loop.
    pub workers: usize,
    /// How the monitor charges blocked time. It is on in every variant.
    pub monitor: Mode,
    /// How long a run's stream may say nothing before its readers take the worker for dead.
    pub stream_idle_max: Duration,
    /// Who acts for others on v2 routes, if anybody.
    pub admin_key: Option<AdminKey>,
    /// The servers behind.
    pub addresses: Addresses,
}

/// Why the service doesn't run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// No runtime, or no thread beside it.
    #[error("can't start the runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The address is in use, or not this machine's.
    #[error("can't listen on {address}: {source}; choose another --port or --host")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A server behind is missing.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Its schema is missing.
    #[error(
        "the database has no table `conversations`; run `unstall-reference migrate` and then `unstall-reference seed`"
    )]
    NotMigrated,
    /// The system's signals can't be watched.
    #[error("can't watch for signals: {0}")]
    Signals(#[source] io::Error),
    /// The server ended by itself.
    #[error("the server failed: {0}")]
    Server(#[source] io::Error),
}

/// How long an idle thread of the blocking pool stays, in every variant. fred looks its
/// server's name up on such a thread once, as it connects; with Tokio's 10 s that one would still
/// be counted while requests are measured, and the count would tell how the service started
/// instead of what its requests need.
const POOL_THREAD_IDLE_MAX: Duration = Duration::from_millis(250);

/// Serves until TERM or INT, then drains.
///
/// # Errors
/// [`ServeError`]
pub fn run(options: Options) -> Result<(), ServeError> {
    let monitor = monitor(options.monitor);
    let mut runtime = Builder::new_multi_thread();
    runtime
        .worker_threads(options.workers)
        .thread_keep_alive(POOL_THREAD_IDLE_MAX)
        .enable_all();
    monitor.install(&mut runtime);
    let runtime = runtime.build().map_err(ServeError::Runtime)?;
    // The service is spawned, so that all of it runs on the workers: the future given to
    // `block_on` runs on this thread, beside the loop, where the monitor's hooks don't reach.
    let served = runtime.block_on(async {
        match tokio::spawn(serve(options, monitor)).await {
            Ok(result) => result,
            Err(panicked) => Err(ServeError::Server(io::Error::other(panicked))),
        }
    });
    // A store that never answers must not hold up the exit.
    runtime.shutdown_timeout(CLOSE);
    served
}

/// The monitor, which knows every route: one that nobody asks for is unproven, not forgotten.
fn monitor(mode: Mode) -> Monitor {
    let monitor = Monitor::builder()
        .mode(mode)
        .prove_from_environment()
        .build();
    for (method, template) in routes::declared() {
        monitor.declare_route(&method, template);
    }
    monitor
}

async fn serve(options: Options, monitor: Monitor) -> Result<(), ServeError> {
    // Stores first: whoever waits for the port to open waits for warm pools.
    if !migrations::are_applied(&options.addresses.database_url).await? {
        return Err(ServeError::NotMigrated);
    }
    let slots = ThreadSlots::new();
    let sessions = match options.steps.variant_of(Step::StreamReader) {
        Variant::Blocking | Variant::Threads => {
            Some(Sessions::start(slots.clone()).map_err(ServeError::Runtime)?)
        }
        Variant::Async => None,
    };
    let calls = CallPool::new(slots, StartFaults::counted_by(&monitor));
    let bridges = BridgeCounters::counted_by(&monitor);
    let stores = variants::open(&options.steps, &options.addresses, &calls, &bridges).await?;
    let services = stores.services.clone();
    let run_streams = RunStreams {
        reading: stores.reading.clone(),
        idle_max: options.stream_idle_max,
    };
    let app = App {
        stores,
        run_streams,
        sessions,
        admin_key: options.admin_key,
    };
    // The monitor's own routes stay outside of its layer.
    let router = routes::with_request_ids(routes::router(app))
        .layer(monitor.layer())
        .merge(monitor.router());
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    start_lag_probe(&monitor);

    let listen_error = |source| ServeError::Listen {
        address: options.address,
        source,
    };
    let listener = TcpListener::bind(options.address)
        .await
        .map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    // Small answers must not wait for the client's acknowledgement.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "can't set TCP_NODELAY");
        }
    });
    let (stop, mut stopped) = watch::channel(false);
    watch_signals(stop).map_err(ServeError::Signals)?;
    tracing::info!("listening on {address}");

    let mut until_stop = stopped.clone();
    let server = axum::serve(listener, service).with_graceful_shutdown(async move {
        // An error means that the watcher is gone: stop as well.
        drop(until_stop.wait_for(|stop| *stop).await);
    });
    let drained = async {
        // As above.
        drop(stopped.wait_for(|stop| *stop).await);
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = to_the_end(server) => result.map_err(ServeError::Server)?,
        () = drained => tracing::warn!("requests still in flight after {} s are dropped", DRAIN.as_secs()),
    }
    services.close(BRIDGES).await;
    Ok(())
}

/// Serves until the last request is answered, and what clients that have left had begun is done.
async fn to_the_end(server: impl IntoFuture<Output = io::Result<()>>) -> io::Result<()> {
    server.await?;
    to_its_end::all_have_ended().await;
    Ok(())
}

/// The probe ends with the runtime.
fn start_lag_probe(monitor: &Monitor) {
    match monitor.spawn_lag_probe() {
        Ok(_detached) => (),
        Err(LagProbeError::SeveralLoops { .. }) => {
            tracing::info!("no loop lag with several workers: a free one serves the probe's timer");
        }
        Err(error) => tracing::warn!(%error, "no loop lag"),
    }
}

/// Tells when TERM or INT arrives.
fn watch_signals(stop: watch::Sender<bool>) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        tracing::info!("stopping");
        stop.send_replace(true);
    });
    Ok(())
}
