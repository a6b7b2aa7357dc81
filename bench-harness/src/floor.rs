//! What this machine can measure at all right now: a server that does nothing, driven by the very
//! engine that will drive the service. A service that seems as fast as this one is not measured;
//! the machine is. Takes less than a second.

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use unstall_results::record::MachineFloor;
use unstall_scenarios::{Inputs, Plan};

use crate::engine::{
    Amount, BlockMeasurement, BlockSpec, EngineError, Progress, Stop, Target, Warmup, run_block,
};

/// How long each of the two loads lasts.
const LASTS: Duration = Duration::from_millis(300);
/// Users of the load that tells the rate.
const USERS: u32 = 50;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
const ENDPOINT: &str = "nothing";
const SCENARIO: &str = r#"
name = "floor"
describe = "A server that does nothing"
[[request]]
name = "nothing"
method = "GET"
path = "/"
"#;

/// Why there is no floor.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// The server that does nothing could not be started.
    #[error("a server that does nothing could not be started on loopback: {0}")]
    Server(#[source] io::Error),
    /// The engine could not drive it.
    #[error("a server that does nothing could not be measured: {0}")]
    Engine(#[from] EngineError),
    /// It was driven and answered nothing.
    #[error(
        "a server that does nothing gave no answer on loopback within {} ms: this machine is too \
         busy to measure anything",
        LASTS.as_millis()
    )]
    NoAnswer,
}

/// Measures the floor. Blocks the calling thread.
///
/// # Errors
/// [`FloorError`] if this machine can't measure anything.
pub fn measure() -> Result<MachineFloor, FloorError> {
    let server = NullServer::start().map_err(FloorError::Server)?;
    let alone = load(&server, 1)?;
    let many = load(&server, USERS)?;
    let response = &alone.endpoints[ENDPOINT].response;
    let quantile = |q| response.quantile_us(q).ok_or(FloorError::NoAnswer);
    Ok(MachineFloor {
        response_us_p50: quantile(0.5)?,
        response_us_p99: quantile(0.99)?,
        requests_per_second: many.completed as f64 / many.wall.as_secs_f64().max(1e-9),
    })
}

fn load(server: &NullServer, users: u32) -> Result<BlockMeasurement, EngineError> {
    let plan = Plan::parse(SCENARIO, Path::new("floor"), &Inputs::default())
        .expect("it is a constant, and a test parses it");
    let spec = BlockSpec {
        warmup: Warmup {
            rounds_per_user: 3,
            lasting_at_least: Duration::ZERO,
        },
        ..BlockSpec::closed(users, Amount::For(LASTS))
    };
    run_block(
        &Arc::new(plan),
        &server.target(),
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
}

/// A server on loopback that answers every request at once, on one thread. Dropped, it ends.
#[derive(Debug)]
pub struct NullServer {
    port: u16,
    _running: oneshot::Sender<()>,
}

impl NullServer {
    /// Starts it.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start() -> io::Result<Self> {
        let (running, over) = oneshot::channel();
        let (told, port) = mpsc::channel();
        let serve = move || {
            let runtime = Builder::new_current_thread().enable_io().build();
            let served = runtime.and_then(|runtime| runtime.block_on(serve(&told, over)));
            if let Err(error) = served {
                // Nobody listens once the port is known: what fails then is seen by the engine.
                let _ = told.send(Err(error));
            }
        };
        std::thread::Builder::new()
            .name("null-server".to_owned())
            .spawn(serve)?;
        let ended = || Err(io::Error::other("its thread ended"));
        Ok(Self {
            port: port.recv().unwrap_or_else(|mpsc::RecvError| ended())?,
            _running: running,
        })
    }

    /// Where it listens.
    pub fn target(&self) -> Target {
        Target::loopback(self.port)
    }
}

async fn serve(
    told: &mpsc::Sender<io::Result<u16>>,
    over: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // As above.
    let _ = told.send(Ok(listener.local_addr()?.port()));
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(answer(stream));
        }
    };
    tokio::select! {
        failed = accept => failed,
        _ = over => Ok(()),
    }
}

/// One answer for each end of a head; the requests of this server have no body.
async fn answer(mut stream: TcpStream) {
    let mut read = Vec::with_capacity(1_024);
    // A connection that fails is the engine's to count.
    while let Ok(1..) = stream.read_buf(&mut read).await {
        while let Some(end) = read
            .windows(END_OF_HEAD.len())
            .position(|window| window == END_OF_HEAD)
        {
            read.drain(..end + END_OF_HEAD.len());
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_nothing_is_measured() {
        let floor = measure().expect("loopback is there");
        assert!(floor.response_us_p50 > 0 && floor.response_us_p50 <= floor.response_us_p99);
        assert!(floor.requests_per_second > 0.0);
    }
}
