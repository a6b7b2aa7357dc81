//! A service of three routes under the monitor: one answers at once, one waits, one blocks.
//!
//!     cargo run -p unstall-loop-monitor --example monitored_axum
//!     curl http://127.0.0.1:8080/block
//!     curl http://127.0.0.1:8080/__unstall/snapshot

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
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
