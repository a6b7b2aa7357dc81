//! A service under the monitor: one route answers at once, one waits, one blocks, one spawns a task
//! that blocks, and one does its blocking work where it belongs, in the pool.
//!
//!     cargo run -p unstall-loop-monitor --example monitored_axum
//!     curl http://127.0.0.1:8080/block
//!     curl http://127.0.0.1:8080/__unstall/snapshot

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio::net::TcpListener;
use unstall_loop_monitor::Monitor;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    // Long holds are warnings of `tracing`; whoever subscribes sees them.
    tracing_subscriber::fmt().init();
    let monitor = Monitor::builder().build();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    monitor.install(&mut builder);
    let runtime = builder.build()?;
    // Spawned, so that it runs on the loop that is watched, not in `block_on` beside it.
    runtime.block_on(runtime.spawn(serve(monitor)))??;
    Ok(())
}

async fn serve(monitor: Monitor) -> Result<(), AnyError> {
    // Before the listener: a loop that stalls at the start shows too.
    let lag_probe = monitor.spawn_lag_probe()?;
    let app = Router::new()
        .route("/quick", get(|| async { "at once\n" }))
        .route("/wait", get(wait))
        .route("/block", get(block))
        .route("/spawn", get(spawn))
        .route("/pool", get(pool))
        .with_state(monitor.clone())
        .layer(monitor.layer())
        .merge(monitor.router());
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let listener = TcpListener::bind(address).await?;
    tracing::info!("listening on http://{address}");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    lag_probe.abort();
    Ok(())
}

async fn wait() -> &'static str {
    tokio::time::sleep(Duration::from_millis(150)).await;
    "waited; the loop was free\n"
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the monitor is there to find"
)]
async fn block() -> &'static str {
    std::thread::sleep(Duration::from_millis(150));
    "blocked; nobody else was served\n"
}

/// Counted under `tasks`, not as time of this route.
#[expect(
    clippy::disallowed_methods,
    reason = "what the monitor is there to find"
)]
async fn spawn(State(monitor): State<Monitor>) -> &'static str {
    monitor.spawn("mailer", async {
        std::thread::sleep(Duration::from_millis(150));
    });
    "spawned; nobody is served while the task blocks\n"
}

/// Counted under `pool`, with its wait for a thread.
#[expect(clippy::disallowed_methods, reason = "the pool's threads may block")]
async fn pool(State(monitor): State<Monitor>) -> Result<&'static str, String> {
    let job = monitor.spawn_blocking("thumbnail", || {
        std::thread::sleep(Duration::from_millis(150));
    });
    job.await.map_err(|error| error.to_string())?;
    Ok("done in the pool; the loop was free\n")
}
