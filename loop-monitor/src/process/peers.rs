//! Who answers at an address: a name for a peer, also for one behind a proxy.
//!
//! Asked in this order, and never over the network: names that the caller gave; URLs and
//! `…_HOST`/`…_PORT` pairs in the process' environment; well-known ports; on loopback, the program
//! that listens there.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::descriptors::comm_of;
use super::listeners::listeners;
use super::sockets::Transport;
use super::{ProcessError, ProcessView, regular_file};

/// As much of `/etc/hosts` is read; one that blocks advertisers has some MiB.
const HOSTS_BYTES_MAX: u64 = 16 << 20;
/// Peers remembered; a service that calls more has its names looked up again.
const REMEMBERED_MAX: usize = 16_384;

/// Names of peers. Knows no credentials: of a URL only scheme, host and port are kept.
#[derive(Debug, Default)]
pub struct Peers {
    given: HashMap<SocketAddr, String>,
    environment: HashMap<SocketAddr, String>,
    unix: HashMap<String, String>,
    /// Where listeners are looked for; `None` never looks.
    view: Option<ProcessView>,
    looked_up: HashMap<SocketAddr, Option<String>>,
}

impl Peers {
    /// By the environment that the process has: one's own as it is now, another's as it was
    /// when it started.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn of(view: &ProcessView) -> Result<Self, ProcessError> {
        let variables: Vec<(String, String)> = if view.is_own() {
            std::env::vars_os()
                .map(|(name, value)| {
                    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
                    (text(name), text(value))
                })
                .collect()
        } else {
            let text = view.read_text("environ")?;
            text.split('\0')
                .filter_map(|variable| variable.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        let mut peers = Self::from_variables(&variables, &hosts_of(view));
        peers.view = Some(view.clone());
        Ok(peers)
    }

    /// Adds a name of the caller's, which goes before all others.
    pub fn give(&mut self, address: SocketAddr, name: impl Into<String>) {
        self.given.insert(address, name.into());
    }

    fn from_variables(variables: &[(String, String)], hosts: &Hosts) -> Self {
        let mut peers = Self::default();
        for (variable, value) in variables {
            if let Some(url) = NamedUrl::parse(value) {
                peers.add_url(variable, &url, hosts);
            } else if let Some(service) = variable.strip_suffix("_HOST") {
                let port = format!("{service}_PORT");
                let port = variables.iter().find(|(name, _)| *name == port);
                // Not every `…_PORT` is a number; then it names nobody.
                if let Some(port) = port.and_then(|(_, port)| port.parse().ok()) {
                    let name = format!("{} ({variable})", service.to_ascii_lowercase());
                    peers.add(&hosts.addresses(value), port, &name);
                }
            }
        }
        peers
    }

    fn add_url(&mut self, variable: &str, url: &NamedUrl, hosts: &Hosts) {
        let name = format!("{} ({variable})", url.service);
        for (host, port) in &url.ends {
            if host.starts_with('/') {
                self.unix
                    .entry(host.clone())
                    .or_insert_with(|| name.clone());
            } else if let Some(port) = port {
                self.add(&hosts.addresses(host), *port, &name);
            }
        }
    }

    /// Of two variables for one address, the first stays.
    fn add(&mut self, addresses: &[IpAddr], port: u16, name: &str) {
        for address in addresses {
            let address = SocketAddr::new(address.to_canonical(), port);
            self.environment
                .entry(address)
                .or_insert_with(|| name.to_owned());
        }
    }

    /// The name of who answers there.
    pub fn name(&mut self, peer: SocketAddr, transport: Option<Transport>) -> Option<String> {
        if let Some(name) = self
            .given
            .get(&peer)
            .or_else(|| self.environment.get(&peer))
        {
            return Some(name.clone());
        }
        if let Some(name) = well_known(peer.port()) {
            return Some(name.to_owned());
        }
        if transport == Some(Transport::Udp) || !peer.ip().is_loopback() {
            return None;
        }
        if let Some(name) = self.looked_up.get(&peer) {
            return name.clone();
        }
        let name = self.listening_program(peer);
        if self.looked_up.len() >= REMEMBERED_MAX {
            self.looked_up.clear();
        }
        self.looked_up.insert(peer, name.clone());
        name
    }

    /// The name of who listens at a path.
    #[must_use]
    pub fn name_unix(&self, path: &str) -> Option<String> {
        let in_environment = self.unix.get(path).cloned();
        in_environment.or_else(|| {
            let file = path.rsplit('/').next()?;
            file.starts_with(".s.PGSQL.")
                .then(|| "postgresql".to_owned())
        })
    }

    /// Processes that may not be read are passed over, and then the name is missing.
    fn listening_program(&self, peer: SocketAddr) -> Option<String> {
        let processes = listeners(self.view.as_ref()?, peer).ok()?;
        comm_of(i32::try_from(*processes.first()?).ok()?)
    }
}

/// What a URL says of its server.
#[derive(Debug, PartialEq, Eq)]
struct NamedUrl {
    service: String,
    /// Host and port; where it is a socket's path, no port.
    ends: Vec<(String, Option<u16>)>,
}

impl NamedUrl {
    /// `scheme[+driver]://[user[:password]@]host[:port][,host[:port]…][/…]`, or `unix://path`.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-_".contains(&byte);
        if scheme.is_empty() || !scheme.bytes().all(plain) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        // `postgresql+psycopg2`, `redis+unix`.
        let (service, driver) = scheme.split_once('+').unwrap_or((&scheme, ""));
        if service == "unix" || driver == "unix" {
            let path = rest.split(['?', '#']).next()?;
            return Some(Self {
                service: service.to_owned(),
                ends: vec![(path.to_owned(), None)],
            });
        }
        let (service, default_port) = known_scheme(service);
        let authority = rest.split(['/', '?', '#']).next()?;
        let hosts = authority.rsplit('@').next()?;
        let ends: Vec<(String, Option<u16>)> = hosts
            .split(',')
            .filter_map(|end| split_port(end, default_port))
            .collect();
        (!ends.is_empty()).then(|| Self {
            service: service.to_owned(),
            ends,
        })
    }
}

/// `host:port`, `[v6]:port`, `host`.
fn split_port(end: &str, default_port: Option<u16>) -> Option<(String, Option<u16>)> {
    let (host, port) = if let Some(rest) = end.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        (host, after.strip_prefix(':'))
    } else {
        match end.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (end, None),
        }
    };
    if host.is_empty() {
        return None;
    }
    let port = match port {
        Some(port) => Some(port.parse().ok()?),
        None => default_port,
    };
    Some((host.to_owned(), port))
}

/// One name for a service's several schemes, and the port that goes without saying.
fn known_scheme(scheme: &str) -> (&str, Option<u16>) {
    match scheme {
        "redis" | "rediss" | "valkey" | "valkeys" => ("redis", Some(6379)),
        "postgres" | "postgresql" | "psql" => ("postgresql", Some(5432)),
        "mysql" | "mariadb" => ("mysql", Some(3306)),
        "mongodb" => ("mongodb", Some(27017)),
        "amqp" => ("amqp", Some(5672)),
        "amqps" => ("amqp", Some(5671)),
        "kafka" => ("kafka", Some(9092)),
        "memcached" | "memcache" => ("memcached", Some(11211)),
        "nats" => ("nats", Some(4222)),
        "clickhouse" => ("clickhouse", Some(9000)),
        "http" | "ws" => ("http", Some(80)),
        "https" | "wss" => ("https", Some(443)),
        "ldap" => ("ldap", Some(389)),
        "smtp" => ("smtp", Some(25)),
        other => (other, None),
    }
}

/// Ports whose service nearly everybody would guess (IANA's registry, and custom).
fn well_known(port: u16) -> Option<&'static str> {
    Some(match port {
        22 => "ssh",
        25 | 465 | 587 => "smtp",
        53 => "DNS",
        80 => "http",
        389 | 636 => "ldap",
        443 => "https",
        1433 => "sqlserver",
        1521 => "oracle",
        2181 => "zookeeper",
        2379 => "etcd",
        3306 => "mysql",
        4222 => "nats",
        5432 => "postgresql",
        5671 | 5672 => "amqp",
        6379 => "redis",
        6432 => "pgbouncer",
        8123 => "clickhouse",
        9042 => "cassandra",
        9092 => "kafka",
        9200 => "elasticsearch",
        11211 => "memcached",
        27017 => "mongodb",
        _ => return None,
    })
}

/// Host names that can be known without asking anybody.
#[derive(Debug, Default)]
struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// hosts(5).
    fn parse(text: &str) -> Self {
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or(line);
            let mut words = line.split_ascii_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse) else {
                continue;
            };
            for name in words {
                let name = name.to_ascii_lowercase();
                hosts.entry(name).or_default().push(address);
            }
        }
        Self(hosts)
    }

    /// None for a name that only DNS knows.
    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(address) = host.parse() {
            return vec![address];
        }
        let host = host.to_ascii_lowercase();
        if host == "localhost" {
            return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        }
        self.0.get(&host).cloned().unwrap_or_default()
    }
}

/// As the process sees the file; without one, names are names.
fn hosts_of(view: &ProcessView) -> Hosts {
    let file = regular_file(&view.root().join("root/etc/hosts"));
    let text = file.and_then(|file| io::read_to_string(file.take(HOSTS_BYTES_MAX)).ok());
    Hosts::parse(&text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    fn peers(variables: &[(&str, &str)]) -> Peers {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Peers::from_variables(&variables, &Hosts::parse("10.0.0.9 cache # a comment\n"))
    }

    fn named(peers: &mut Peers, address: &str) -> Option<String> {
        let address = address.parse().expect("an address");
        peers.name(address, Some(Transport::Tcp))
    }

    #[test]
    fn urls_of_the_environment_name_proxies_and_tell_no_password() {
        let mut peers = peers(&[
            ("REDIS_URL", "redis://:secret@127.0.0.1:44551/0"),
            (
                "DATABASE_URL",
                "postgresql+asyncpg://u:p@ss@localhost:44552/db?x=1",
            ),
            ("CACHE", "rediss://cache"),
            ("MONGO", "mongodb://[::1]:1000,10.1.1.1"),
            ("MYSQL_HOST", "10.2.2.2"),
            ("MYSQL_PORT", "3999"),
            ("SOCKET", "redis+unix:///run/redis.sock?db=1"),
        ]);
        for (address, name) in [
            ("127.0.0.1:44551", "redis (REDIS_URL)"),
            ("127.0.0.1:44552", "postgresql (DATABASE_URL)"),
            ("[::1]:44552", "postgresql (DATABASE_URL)"),
            ("10.0.0.9:6379", "redis (CACHE)"),
            ("[::1]:1000", "mongodb (MONGO)"),
            ("10.1.1.1:27017", "mongodb (MONGO)"),
            ("10.2.2.2:3999", "mysql (MYSQL_HOST)"),
            ("10.3.3.3:9092", "kafka"),
        ] {
            assert_eq!(
                named(&mut peers, address).as_deref(),
                Some(name),
                "{address}"
            );
        }
        assert_eq!(named(&mut peers, "10.3.3.3:1234"), None);
        assert_eq!(
            peers.name_unix("/run/redis.sock").as_deref(),
            Some("redis (SOCKET)")
        );
        assert!(!format!("{peers:?}").contains("secret"));
        peers.give("127.0.0.1:44551".parse().expect("an address"), "sessions");
        assert_eq!(
            named(&mut peers, "127.0.0.1:44551").as_deref(),
            Some("sessions")
        );
    }

    #[test]
    fn what_is_no_url_names_nobody() {
        for text in [
            "",
            "x",
            "://h",
            "a b://h:1",
            "file:///etc/x",
            "http://",
            "http://h:port",
        ] {
            assert_eq!(NamedUrl::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_value_is_too_strange(value in "\\PC{0,60}") {
            let _ = (NamedUrl::parse(&value), NamedUrl::parse(&format!("redis://{value}")));
        }
    }

    #[test]
    fn on_loopback_the_listening_program_lends_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut peers = Peers::of(&ProcessView::own()).expect("readable");
        let comm = comm_of(i32::try_from(std::process::id()).expect("small"));
        assert!(comm.is_some());
        assert_eq!(peers.name(address, Some(Transport::Tcp)), comm);
    }
}
