//! Cases in namespaces of their own (namespaces(7)): a network that is only this process', with as
//! few ports as we like and a name server of ours. No privilege is needed where the system lets
//! users have namespaces; elsewhere these cases are not run.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use nix::unistd::{getegid, geteuid};
use tempfile::TempDir;
use unstall_bench_harness::engine::{BlockMeasurement, Target, reach};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{ErrorKind, LocalFault};
use unstall_testbed::{Behaviour, FaultyServer};

use super::case::{Check, Tried, Trouble};
use super::exchange::counted_once;
use super::limits::{PROGRAM_MAX, finish};
use super::load::{ENDPOINT, broken, cold, kinds, measure, scenario, scenario_of_client, start};
use super::resolver::SlowResolver;

pub(super) const PORTS: &str = "no-ports";
pub(super) const PORTS_FORESEEN: &str = "ports-foreseen";
pub(super) const SLOW_RESOLVER: &str = "slow-resolver";
pub(super) const SILENT_RESOLVER: &str = "silent-resolver";

/// Ephemeral ports that the case's network has.
const PORT_RANGE: (u16, u16) = (40_000, 40_009);
const LOOKUP: Duration = Duration::from_millis(400);
/// So long that no block here waits for it.
const NEVER: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(500);
const NAME: &str = "torture.test";

/// Tries one of the cases in this process, which is of no use for anything else afterwards.
pub(super) fn try_here(name: &str) -> Tried {
    enter().map_err(|why| {
        Trouble::NotRun(format!(
            "this system lets nobody have a network of his own: {why}"
        ))
    })?;
    match name {
        PORTS => ports(),
        PORTS_FORESEEN => ports_foreseen(),
        SLOW_RESOLVER => slow_resolver(),
        SILENT_RESOLVER => silent_resolver(),
        _ => Err(Trouble::Broken(format!("there is no case `{name}` here"))),
    }
}

/// A user, a network and a view of the file system that are this process' own.
fn enter() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    let own = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    unshare(own).map_err(|error| error.to_string())?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| format!("{path} can't be written: {error}"))
    };
    // Only then may a user map the own group (user_namespaces(7)).
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|error| format!("its file system can't be made its own: {error}"))?;
    raise_loopback().map_err(|error| format!("its loopback can't be raised: {error}"))
}

/// Sets the loopback interface up: one message of rtnetlink(7).
fn raise_loopback() -> nix::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const LOOPBACK_INDEX: i32 = 1;
    const INTERFACE_UP: u32 = 1;
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes()); // length
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes()); // sequence number
    message.extend(0_u32.to_ne_bytes()); // from
    message.extend([0; 4]); // any family and type
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(INTERFACE_UP.to_ne_bytes()); // flags
    message.extend(INTERFACE_UP.to_ne_bytes()); // which of them
    let kernel = NetlinkAddr::new(0, 0);
    sendto(netlink.as_raw_fd(), &message, &kernel, MsgFlags::empty())?;
    let mut answer = [0; 512];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // NLMSG_ERROR: the head of 16 bytes, then 0 or an error, negative.
    let code = answer[..length]
        .get(16..20)
        .and_then(|code| code.try_into().ok());
    match code.map_or(0, i32::from_ne_bytes) {
        0 => Ok(()),
        error => Err(nix::errno::Errno::from_raw(-error)),
    }
}

/// More users than ports, all of which hold theirs: as many as there are ports time out, and the
/// others are our own fault.
fn ports() -> Tried {
    const USERS: u32 = 25;
    let server = start(Behaviour::Paths)?;
    let (first, last) = PORT_RANGE;
    let set = |first: u16, last: u16| set("ip_local_port_range", &format!("{first} {last}"));
    set(first, last)?;
    let ports = u64::from(last - first) + 1;
    let spec = cold(USERS, u64::from(USERS));
    let block = measure(
        &scenario("GET", "/hang", "timeout = \"2s\""),
        &server.url(),
        &spec,
    )?;
    // The server ends by a connection to itself.
    set(first, u16::MAX)?;
    let local = block.local_faults.get(&LocalFault::NoPorts).copied();
    let mut checks = vec![
        Check::same(
            "for want of a port",
            u64::from(USERS) - ports,
            local.unwrap_or(0),
        ),
        Check::same(
            "errors",
            kinds([(&ErrorKind::Timeout, &ports)]),
            kinds(&block.errors),
        ),
        Check::same("sent", ports, block.sent),
        Check::same("connections", ports, server.connections()),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// `unstall run` for more connections than there are ports while those of ended ones are held:
/// said before the first request, and only where connections aren't kept.
fn ports_foreseen() -> Tried {
    const REQUESTS: u64 = 2_000;
    let server = start(Behaviour::Paths)?;
    set("ip_local_port_range", "40000 40999")?;
    set("tcp_tw_reuse", "0")?;
    let folder = tempfile::tempdir().map_err(|error| broken("a folder", &error))?;
    let program = std::env::current_exe().map_err(|error| broken("this program", &error))?;
    let mut checks = vec![];
    for (reuse, is_told) in [("never", true), ("user", false)] {
        let client = format!("[client]\nreuse = \"{reuse}\"");
        let file = folder.path().join(format!("{reuse}.toml"));
        fs::write(&file, scenario_of_client(&client, "GET", "/ok", ""))
            .map_err(|error| broken("the scenario", &error))?;
        let mut command = Command::new(&program);
        command
            .arg("run")
            .arg(file)
            .args(["--target", &server.url(), "--warmup", "0", "-c", "4"])
            .args(["--requests", &REQUESTS.to_string(), "--out"])
            .arg(folder.path().join(format!("{reuse}.json")));
        let output = finish(command, PROGRAM_MAX)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = format!("up to {REQUESTS} connections to one address within 60 s");
        checks.extend([
            Check::same(
                &format!("foreseen, reuse = {reuse}"),
                is_told,
                said.contains(&told) && said.contains("ip_local_port_range"),
            ),
            Check::holds(
                &format!("it is run, reuse = {reuse}"),
                server.requests() > 0,
                said,
            ),
        ]);
    }
    // The server ends by a connection to itself.
    set("ip_local_port_range", &format!("40000 {}", u16::MAX))?;
    Ok(checks)
}

/// Sets one of this network's own settings.
fn set(name: &str, value: &str) -> Result<(), Trouble> {
    let file = format!("/proc/sys/net/ipv4/{name}");
    fs::write(&file, value)
        .map_err(|error| Trouble::NotRun(format!("{file} can't be written: {error}")))
}

/// A name server that takes its time: it is asked once for each connection, and who opened the
/// connection has waited for it.
fn slow_resolver() -> Tried {
    const USERS: u32 = 3;
    const REQUESTS: u64 = 30;
    let named = Named::start(LOOKUP)?;
    let spec = cold(USERS, REQUESTS);
    let block = measure(&scenario("GET", "/ok", ""), &named.target(), &spec)?;
    let response = &block.endpoints[ENDPOINT].response;
    let slow_from_us = LOOKUP.as_micros();
    let slow: u64 = response
        .iter()
        .filter(|(us, _)| u128::from(*us) >= slow_from_us)
        .map(|(_, count)| count)
        .sum();
    let (looked_up, fastest_us) = lookups(&block);
    let users = u64::from(USERS);
    let mut checks = vec![
        Check::same("completed", REQUESTS, block.completed),
        Check::same("connections", users, named.server.connections()),
        Check::same("names looked up", users, named.resolver.lookups()),
        Check::at_least("requests that waited for a name", users, slow),
        Check::unless_busy("requests that waited for a name", users, slow),
        Check::same("times of looking up", users, looked_up),
        Check::at_least("fastest of them, µs", slow_from_us, fastest_us.into()),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// One that answers when nobody waits any more: nothing is held up by it, neither the block's end
/// nor the look before it, and the requests that waited for it show where their time went.
fn silent_resolver() -> Tried {
    const USERS: u32 = 3;
    let named = Named::start(NEVER)?;
    let target = Target::parse(&named.target()).map_err(|error| broken("the target", &error))?;
    let reached = reach(&target, TIMEOUT).is_ok();
    let answers_before = named.resolver.answers();
    let spec = cold(USERS, USERS.into());
    let more = format!("timeout = \"{}ms\"", TIMEOUT.as_millis());
    let block = measure(&scenario("GET", "/ok", &more), &named.target(), &spec)?;
    let users = u64::from(USERS);
    let (looked_up, fastest_us) = lookups(&block);
    let mut checks = vec![
        Check::holds("nothing reached", !reached, "reached without a name"),
        Check::same("answers before that was known", 0, answers_before),
        Check::same("completed", 0, block.completed),
        Check::same(
            "errors",
            kinds([(&ErrorKind::Timeout, &users)]),
            kinds(&block.errors),
        ),
        Check::same(
            "answers before the block's end",
            0,
            named.resolver.answers(),
        ),
        Check::same("times of looking up", users, looked_up),
        Check::at_least(
            "fastest of them, µs",
            (TIMEOUT / 2).as_micros(),
            fastest_us.into(),
        ),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// How many names were looked up, and the shortest time of them, µs.
fn lookups(block: &BlockMeasurement) -> (u64, u64) {
    let dns = block.endpoints[ENDPOINT].dns.as_ref();
    let fastest_us = dns.and_then(|dns| dns.quantile_us(0.0)).unwrap_or(0);
    (dns.map_or(0, LatencyHistogram::count), fastest_us)
}

/// A server with a name, and who knows that.
struct Named {
    resolver: SlowResolver,
    server: FaultyServer,
    /// Holds what covers the system's files.
    _folder: TempDir,
}

impl Named {
    fn start(delay: Duration) -> Result<Self, Trouble> {
        // What is there is covered by a file of ours; what isn't there is as it has to be.
        let folder = tempfile::tempdir()
            .map_err(|error| Trouble::NotRun(format!("no folder could be made: {error}")))?;
        let address = Ipv4Addr::LOCALHOST;
        // Whoever looks a name up waits for longer than any case here.
        let server = format!("nameserver {address}\noptions timeout:30 attempts:1\n");
        cover(folder.path(), "/etc/resolv.conf", &server)?;
        cover(folder.path(), "/etc/nsswitch.conf", "hosts: files dns\n")?;
        let no_resolver =
            |error| Trouble::NotRun(format!("no name server could be started: {error}"));
        Ok(Self {
            resolver: SlowResolver::start(address, delay).map_err(no_resolver)?,
            server: start(Behaviour::Paths)?,
            _folder: folder,
        })
    }

    fn target(&self) -> String {
        format!("http://{NAME}:{}", self.server.addr().port())
    }
}

/// Puts a text in a file's place, for this process only.
fn cover(folder: &Path, path: &str, text: &str) -> Result<(), Trouble> {
    let own = folder.join(path.trim_start_matches('/').replace('/', "-"));
    if !Path::new(path).exists() {
        return Ok(());
    }
    let not_run = |why: String| Trouble::NotRun(format!("{path} can't be replaced: {why}"));
    fs::write(&own, text).map_err(|error| not_run(error.to_string()))?;
    let none = None::<&str>;
    mount(Some(own.as_path()), path, none, MsFlags::MS_BIND, none)
        .map_err(|error| not_run(error.to_string()))
}
