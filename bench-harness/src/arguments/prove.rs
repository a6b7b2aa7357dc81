//! The arguments of `unstall prove`, in their raw form.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{AccessArguments, assignment, duration, url_path};

/// `unstall prove`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall prove my.toml --target 'server --port {port}'\n  \
                        unstall prove my.toml --target http://127.0.0.1:8000 \
                        --route 'GET /items/{id}' --out certificate.json\n  \
                        unstall prove --pid 4711 --duration 30s\n\n\
                        A command gets {port} replaced, UNSTALL_PORT and UNSTALL_PROVE=1 set. A \
                        service at a URL must have been started with UNSTALL_PROVE=1.\n\
                        Exits 0 only if every route is proven, 1 if any blocks or is unproven."
)]
pub(crate) struct ProveArguments {
    /// Scenarios of the catalogue (`unstall scenarios list`) or paths of scenario files
    #[arg(required_unless_present = "pid", value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// The service: the command that starts it, or the URL of one that proves already
    #[arg(long, value_name = "X", required_unless_present = "pid")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// A route that must be proven, also if the service doesn't declare it
    #[arg(long = "route", value_name = "METHOD /TEMPLATE", value_parser = route)]
    pub(crate) routes: Vec<String>,
    /// Sets a variable of the scenario, over its environment variable and default
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) variables: Vec<(String, String)>,
    /// Requests per endpoint and scenario [default: 20, or fewer where the scenario says so]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) requests: Option<u64>,
    /// A command's service is ready when this path answers 2xx
    #[arg(long, value_name = "PATH", default_value = "/health", value_parser = url_path)]
    pub(crate) ready: String,
    /// Write the certificate here, JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Instead: trace the event loops of a process that runs, Python or any other, and whoever
    /// sends it requests
    #[arg(long, value_name = "PID", conflicts_with_all = ["scenarios", "target", "variables"])]
    #[arg(conflicts_with_all = ["requests", "ready"])]
    pub(crate) pid: Option<u32>,
    /// With --pid: how long, like 30s [default: until Ctrl-C or the process' end]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "pid")]
    pub(crate) duration: Option<Duration>,
    /// With --pid: one JSON line per finding on stdout, and `ready` and `end`
    #[arg(long, requires = "pid", conflicts_with_all = ["json", "out"])]
    pub(crate) events: bool,
    /// With --events: trace all threads of a Python, from each line `begin` on stdin to the mark
    /// that the process makes; for test frameworks
    #[arg(long, requires = "events", conflicts_with = "duration")]
    pub(crate) stretches: bool,
}

/// `GET /items/{id}`, as certificates write it.
fn route(text: &str) -> Result<String, String> {
    let expected = "expected a method and a route, like 'GET /items/{id}'";
    let (method, template) = text.trim().split_once(' ').ok_or(expected)?;
    if method.is_empty() || !method.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(format!("`{method}` is no method; {expected}"));
    }
    let template = url_path(template.trim())?;
    Ok(format!("{} {template}", method.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_method_and_a_template() {
        assert_eq!(route("get  /a/{b}").as_deref(), Ok("GET /a/{b}"));
        for wrong in ["/a", "GET", "GET a", "GET /a b", "G3T /a", " /a"] {
            assert!(route(wrong).is_err(), "{wrong}");
        }
    }
}
