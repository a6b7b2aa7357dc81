//! Whether this machine lets the load generator open as many connections as it is told to: asked
//! before the first request, so that a limit ends a run with a sentence and not with wrong numbers.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors beside the users' connections: the bystander probe's 64, the runtimes', the
/// record's, started services' pipes.
const DESCRIPTORS_BESIDE: u64 = 128;
/// Ports that are left to others, those of the probe included.
const PORTS_BESIDE: u64 = 128;

/// Why so many connections can't be had here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The hard limit of descriptors is too low.
    #[error(
        "so many connections need {needed} descriptors, and this process may have {hard}: raise \
         the hard limit (`ulimit -Hn {needed}` as root, LimitNOFILE of the unit), or use fewer \
         users (-c) or arrivals in flight (--in-flight)"
    )]
    Descriptors {
        /// As many as it takes.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// There are too few ephemeral ports.
    #[error(
        "so many connections to one address need {needed} ports, and this machine has \
         {available}: widen net.ipv4.ip_local_port_range (sysctl), or use fewer users (-c) or \
         arrivals in flight (--in-flight)"
    )]
    Ports {
        /// As many as it takes.
        needed: u64,
        /// As many as there are.
        available: u64,
    },
    /// The kernel refused to tell or to change the limit.
    #[error("the limit of descriptors can't be read or raised: {0}")]
    Refused(#[from] Errno),
}

/// Sees to it that `connections` can be open at once, of which `to_one_address` go to the same
/// address by TCP, and so need a port each. The soft limit of descriptors is raised as far as
/// needed, which started services inherit; the hard one is the machine's.
///
/// # Errors
/// [`LimitError`] says how many are needed, how many there are, and what to do.
pub fn allow_connections(connections: u64, to_one_address: u64) -> Result<(), LimitError> {
    let needed = connections + DESCRIPTORS_BESIDE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if let Some(raised) = descriptors(needed, soft, hard)? {
        setrlimit(Resource::RLIMIT_NOFILE, raised, hard)?;
    }
    if to_one_address == 0 {
        return Ok(());
    }
    match port_range() {
        Some(available) => ports(to_one_address + PORTS_BESIDE, available),
        None => Ok(()),
    }
}

/// How many connections to one address can have a port at the same time, if the kernel tells.
pub fn ports_available() -> Option<u64> {
    port_range().map(|all| all.saturating_sub(PORTS_BESIDE))
}

/// Ports of [`port_count`]; where the kernel doesn't tell, there is nothing to compare with.
fn port_range() -> Option<u64> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    range.ok().and_then(|range| port_count(&range))
}

/// How many descriptors this process may have now, if the kernel tells.
pub fn descriptors_allowed() -> Option<u64> {
    let limit = getrlimit(Resource::RLIMIT_NOFILE);
    limit.ok().map(|(soft, _)| soft) // for a message only
}

/// The soft limit to set, if the present one doesn't do.
fn descriptors(needed: u64, soft: u64, hard: u64) -> Result<Option<u64>, LimitError> {
    if needed <= soft {
        return Ok(None);
    }
    if needed <= hard {
        return Ok(Some(needed));
    }
    Err(LimitError::Descriptors { needed, hard })
}

fn ports(needed: u64, available: u64) -> Result<(), LimitError> {
    if needed <= available {
        return Ok(());
    }
    Err(LimitError::Ports { needed, available })
}

/// `32768 60999` → 28232.
fn port_count(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(high.checked_sub(low)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_as_far_as_needed_and_the_hard_one_refused() {
        // Those of standard input, output and errors are in use.
        assert!(descriptors_allowed() >= Some(3));
        assert_eq!(descriptors(500, 1_024, 4_096).expect("enough"), None);
        assert_eq!(
            descriptors(2_000, 1_024, 4_096).expect("enough"),
            Some(2_000)
        );
        let refused = descriptors(5_000, 1_024, 4_096)
            .expect_err("too many")
            .to_string();
        assert!(
            refused.contains("5000") && refused.contains("4096"),
            "{refused}"
        );
    }

    #[test]
    fn ports_are_counted_with_both_ends() {
        assert_eq!(port_count("32768\t60999\n"), Some(28_232));
        assert_eq!(port_count("60999 32768"), None);
        assert_eq!(port_count("ports"), None);
        assert!(ports(28_232, 28_232).is_ok());
        let refused = ports(30_000, 28_232).expect_err("too many").to_string();
        assert!(refused.contains("ip_local_port_range"), "{refused}");
    }
}
