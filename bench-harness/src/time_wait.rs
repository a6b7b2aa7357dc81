//! Ports that stay taken behind the connections that had them (TIME_WAIT, RFC 9293 §3.6.1):
//! foreseen where a scenario's users don't keep their connections, before they run out and spoil a
//! block.

use std::fmt;
use std::time::Duration;

use unstall_scenarios::plan::{Plan, Request, Reuse};

use crate::engine::{Amount, LoadModel};
use crate::limits;

/// How long the kernel keeps a port behind a connection that this side has closed first
/// (`TCP_TIMEWAIT_LEN` of Linux).
const HELD: Duration = Duration::from_secs(60);
/// The same where another connection may take it (tcp(7), `tcp_tw_reuse`): its time stamp has to
/// be a later one.
const HELD_UNTIL_REUSED: Duration = Duration::from_secs(1);

/// More connections than ports, while these are held.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortage {
    reuse: Reuse,
    /// Most connections to one address within `held`; `None` where only the service bounds them.
    opened: Option<u64>,
    available: u64,
    held: Duration,
}

/// What the kernel says about it.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    available: u64,
    held: Duration,
}

/// Foresees that ports may run out in these blocks, all of which go to the same address: that of
/// the service, which `is_here` if it is reached over loopback. `None` where they suffice, or
/// where the kernel doesn't tell how many there are.
pub fn foresee(
    plan: &Plan,
    is_here: bool,
    blocks: &[&LoadModel],
    warmup_rounds: u32,
) -> Option<Shortage> {
    let available = limits::ports_available()?;
    let setting = |name: &str| {
        // Where there is no such setting, nothing is reused.
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
    };
    let held = held(
        &setting("tcp_tw_reuse"),
        &setting("tcp_timestamps"),
        is_here,
    );
    foresee_by(Kernel { available, held }, plan, blocks, warmup_rounds)
}

/// How long a port is held, by the kernel's settings.
fn held(tw_reuse: &str, timestamps: &str, is_here: bool) -> Duration {
    let has_timestamps = matches!(timestamps.trim(), "1" | "2");
    let is_reused = match tw_reuse.trim() {
        "1" => true,
        // Over loopback only, which is how kernels come.
        "2" => is_here,
        _ => false,
    };
    if is_reused && has_timestamps {
        HELD_UNTIL_REUSED
    } else {
        HELD
    }
}

fn foresee_by(
    kernel: Kernel,
    plan: &Plan,
    blocks: &[&LoadModel],
    warmup_rounds: u32,
) -> Option<Shortage> {
    let each = per_iteration(plan)?;
    let most = blocks
        .iter()
        .map(|block| opened(block, warmup_rounds, kernel.held));
    let opened = most.sum::<Option<f64>>().map(|all| {
        let rates = blocks.iter().map(|block| rate_max(block));
        // However many blocks there are, an open load sends at its rate.
        let by_rate = rates
            .collect::<Option<Vec<f64>>>()
            .map(|rates| rates.into_iter().fold(0.0, f64::max) * kernel.held.as_secs_f64());
        let iterations = by_rate.map_or(all, |by_rate| all.min(by_rate));
        (iterations * each).ceil() as u64
    });
    let is_short = opened.is_none_or(|opened| opened > kernel.available);
    is_short.then_some(Shortage {
        reuse: plan.client.reuse,
        opened,
        available: kernel.available,
        held: kernel.held,
    })
}

/// Connections that an iteration opens to one of the services, the one that gets most; `None`
/// where users keep theirs.
fn per_iteration(plan: &Plan) -> Option<f64> {
    match plan.client.reuse {
        Reuse::User => None,
        Reuse::Iteration => Some(1.0),
        Reuse::Never => {
            let share = |request: &Request| {
                let alternative = request.alternative.as_ref();
                alternative.map_or(1.0, |one| one.share.end - one.share.start)
            };
            let to = |host: &Option<String>| {
                let own = plan.requests.iter().filter(|one| one.host == *host);
                own.map(share).sum::<f64>()
            };
            let hosts = plan.requests.iter().map(|request| to(&request.host));
            Some(hosts.fold(0.0, f64::max))
        }
    }
}

/// Iterations of a block that may begin while a port is held; `None` where nothing bounds them.
fn opened(block: &LoadModel, warmup_rounds: u32, held: Duration) -> Option<f64> {
    match block {
        LoadModel::Closed { users, amount } => match amount {
            Amount::PerEndpoint(requests) => {
                let warm = u64::from(*users) * u64::from(warmup_rounds);
                Some((requests + warm) as f64)
            }
            Amount::For(_) => None,
        },
        LoadModel::Open(open) => {
            let within = open.duration().min(held).as_secs_f64();
            Some(rate_max(block)? * within)
        }
    }
}

/// Iterations per second at most; `None` of a closed load.
fn rate_max(block: &LoadModel) -> Option<f64> {
    match block {
        LoadModel::Closed { .. } => None,
        LoadModel::Open(open) => Some(
            open.stages
                .iter()
                .map(|stage| stage.rate)
                .fold(0.0, f64::max),
        ),
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reuse,
            opened,
            available,
            held,
        } = self;
        let word = match reuse {
            Reuse::Iteration => "iteration",
            _ => "never",
        };
        let seconds = held.as_secs();
        let many = opened.map_or_else(
            || "as many connections as the service answers requests".to_owned(),
            |opened| format!("up to {opened} connections to one address within {seconds} s"),
        );
        write!(
            out,
            "reuse = \"{word}\" in the scenario's [client] opens {many}, and each may keep its port \
             for {seconds} s after its end (TIME_WAIT), of which this machine has {available} to \
             spare: where the service doesn't close first they run out, and blocks become invalid. \
             Stay below {} connections/s (--rate), widen net.ipv4.ip_local_port_range",
            available / seconds.max(1)
        )?;
        if *held > HELD_UNTIL_REUSED {
            write!(
                out,
                ", or let ports be taken again (sysctl net.ipv4.tcp_tw_reuse=1)"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unstall_scenarios::Inputs;

    use super::*;
    use crate::engine::OpenLoad;

    const KERNEL: Kernel = Kernel {
        available: 28_000,
        held: HELD,
    };

    fn plan(reuse: &str, requests: &[&str]) -> Plan {
        let requests = requests.iter().enumerate().map(|(index, more)| {
            format!("[[request]]\nname = \"r{index}\"\nmethod = \"GET\"\npath = \"/\"\n{more}\n")
        });
        let text = format!(
            "name = \"ports\"\ndescribe = \"d\"\n[client]\nreuse = \"{reuse}\"\n\
             [hosts]\nother = \"http://127.0.0.1:1\"\n{}",
            requests.collect::<String>()
        );
        Plan::parse(&text, Path::new("p.toml"), &Inputs::default()).expect("a plan")
    }

    fn closed(requests: u64) -> LoadModel {
        LoadModel::Closed {
            users: 10,
            amount: Amount::PerEndpoint(requests),
        }
    }

    #[test]
    fn what_the_kernel_lets_others_take_is_held_for_a_second() {
        for (tw_reuse, timestamps, is_here, seconds) in [
            ("2\n", "1\n", true, 1),
            ("2\n", "1\n", false, 60),
            ("1\n", "1\n", false, 1),
            ("1\n", "0\n", true, 60),
            ("0\n", "1\n", true, 60),
            ("", "", true, 60),
        ] {
            let held = held(tw_reuse, timestamps, is_here).as_secs();
            assert_eq!(held, seconds, "{tw_reuse:?} {timestamps:?} {is_here}");
        }
    }

    #[test]
    fn requests_of_all_blocks_are_held_against_the_ports() {
        let never = plan("never", &["", ""]);
        let blocks = |count: usize, requests: u64| vec![closed(requests); count];
        let of = |plan: &Plan, blocks: &[LoadModel]| {
            let blocks: Vec<&LoadModel> = blocks.iter().collect();
            foresee_by(KERNEL, plan, &blocks, 5).map(|shortage| shortage.opened)
        };
        // Two requests each, and five rounds of warm-up by ten users before every block.
        assert_eq!(of(&never, &blocks(10, 1_350)), None);
        assert_eq!(of(&never, &blocks(10, 1_351)), Some(Some(28_020)));
        assert_eq!(of(&plan("iteration", &["", ""]), &blocks(10, 1_351)), None);
        assert_eq!(of(&plan("user", &["", ""]), &blocks(10, 1_000_000)), None);
        // Each service is an address of its own, and of alternatives one is sent.
        let elsewhere = plan("never", &["", "host = \"other\""]);
        assert_eq!(of(&elsewhere, &blocks(10, 1_351)), None);
        let either = plan("never", &["weight = 1", "weight = 1"]);
        assert_eq!(of(&either, &blocks(10, 1_351)), None);
    }

    #[test]
    fn a_rate_is_held_against_them_while_they_are_held() {
        let never = plan("never", &[""]);
        let short = |rate: f64, seconds: u64, blocks: usize| {
            let load = OpenLoad::constant(rate, Duration::from_secs(seconds));
            let loads = vec![LoadModel::Open(load); blocks];
            let loads: Vec<&LoadModel> = loads.iter().collect();
            foresee_by(KERNEL, &never, &loads, 5)
        };
        assert_eq!(short(466.0, 600, 1), None);
        assert_eq!(short(466.0, 10, 100), None);
        assert!(short(467.0, 60, 1).is_some());
        assert!(short(467.0, 30, 2).is_some());
        assert_eq!(short(467.0, 30, 1), None);
    }

    #[test]
    fn it_says_how_many_there_are_and_what_to_do() {
        let unbounded = LoadModel::Closed {
            users: 1,
            amount: Amount::For(Duration::from_secs(1)),
        };
        let never = plan("never", &[""]);
        let told = |kernel, block: &LoadModel| {
            let shortage = foresee_by(kernel, &never, &[block], 0);
            shortage.expect("a shortage").to_string()
        };
        let shown = told(KERNEL, &closed(30_000));
        for word in [
            "reuse = \"never\"",
            "up to 30000 connections",
            "28000",
            "below 466 connections/s",
            "ip_local_port_range",
            "tcp_tw_reuse=1",
        ] {
            assert!(shown.contains(word), "no {word} in {shown}");
        }
        let quick = Kernel {
            held: HELD_UNTIL_REUSED,
            ..KERNEL
        };
        let shown = told(quick, &unbounded);
        assert!(
            shown.contains("as many connections as the service answers"),
            "{shown}"
        );
        assert!(!shown.contains("tcp_tw_reuse"), "{shown}");
    }
}
