//! `unstall-testbed proxied PORT ROUND_TRIP_US COMMAND…`: starts a service and a delay proxy before
//! it, so that `unstall ab` can start a version that is slower by a stated time.
//!
//! The proxy listens on PORT. The service's own port is in `UNSTALL_PORT`, and `{port}` in its command
//! becomes that, where nobody else has put in another one. Both end with the process group, as every
//! service does that `unstall` starts.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use unstall_testbed::DelayProxy;

const USAGE: &str = "write it like unstall-testbed proxied 8001 2500 my-service, which finds its own port in UNSTALL_PORT";

/// Serves until the service ends, and fails if it did.
pub(crate) fn serve(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [port, round_trip_us, program, arguments @ ..] = words else {
        return Err(format!("a port, a round trip and a command are needed; {USAGE}").into());
    };
    let number = |text: &str| -> Result<u64, String> {
        let parsed = text.parse();
        parsed.map_err(|_| format!("`{text}` is no whole number; {USAGE}"))
    };
    let port = u16::try_from(number(port)?).map_err(|_| format!("no port {port}; {USAGE}"))?;
    let round_trip = Duration::from_micros(number(round_trip_us)?);
    // Free now; should somebody be faster, the service says so.
    let own_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let own = own_port.to_string();
    let mut service = Command::new(program)
        .args(arguments.iter().map(|word| word.replace("{port}", &own)))
        .env("UNSTALL_PORT", &own)
        .spawn()
        .map_err(|error| format!("`{program}` could not be started: {error}"))?;
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, own_port));
    let proxy = DelayProxy::start_at(port, target, round_trip);
    if proxy.is_err() {
        service.kill()?;
    }
    let ended = service.wait()?;
    proxy.map_err(|error| format!("no proxy on port {port}: {error}"))?;
    if ended.success() {
        Ok(())
    } else {
        Err(format!("`{program}` ended: {ended}").into())
    }
}
