//! `unstall run` over TLS: whom it trusts, who it says it is, what is agreed on, and how each
//! failure is counted and told.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use unstall_results::record::ErrorKind;
use unstall_testbed::{Authority, Identity};

use crate::program::SmallRun;
use crate::secure_server::{Asked, Secure, SecureServer};

/// A CA that is in the file `ca.pem`.
struct Room {
    folder: TempDir,
    authority: Authority,
}

const BOTH: &[&str] = &["h2", "http/1.1"];
const TRUSTED: &[&str] = &["--ca", "ca.pem"];

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("the CA of the tests").expect("a CA");
        fs::write(folder.path().join("ca.pem"), authority.pem()).expect("writable");
        Self { folder, authority }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A server with a certificate for `localhost` and `127.0.0.1`.
    fn server(&self, alpn: &[&str]) -> SecureServer {
        let identity = self
            .authority
            .server(&["localhost", "127.0.0.1"])
            .expect("a certificate");
        start(&identity, alpn)
    }

    fn run(&self, client: &str, server: &SecureServer, more: &[&str]) -> SmallRun {
        SmallRun::get(self.path(), client, &url(server), more)
    }
}

fn start(identity: &Identity, alpn: &[&str]) -> SecureServer {
    SecureServer::secure("127.0.0.1:0", &Secure::of(identity, alpn))
}

fn url(server: &SecureServer) -> String {
    format!("https://localhost:{}", server.port())
}

fn of_the_load(server: &SecureServer) -> Vec<Asked> {
    let mut requests = server.seen().requests;
    requests.retain(|asked| asked.target.starts_with("/it"));
    requests
}

#[test]
fn a_known_ca_is_trusted_and_http_2_agreed_on() {
    let room = Room::new();
    let server = room.server(BOTH);
    let blocks = room.run("", &server, TRUSTED).assert_good().blocks().len();
    let seen = server.seen();
    // One to see whether it is there; in each block one for its monitor, and one for each user.
    assert_eq!(seen.connections as usize, 1 + blocks * (1 + 3));
    for handshake in &seen.handshakes {
        assert_eq!(handshake.name.as_deref(), Some("localhost"));
        assert_eq!(handshake.alpn.as_deref(), Some("h2"));
    }
    let requests = of_the_load(&server);
    assert_eq!(requests.len(), blocks * 6);
    for asked in requests {
        assert!(asked.is_http2);
        assert_eq!(asked.host, format!("localhost:{}", server.port()));
    }
}

#[test]
fn what_is_spoken_is_what_both_sides_can() {
    let room = Room::new();
    for (client, alpn, is_http2) in [
        ("", &["http/1.1"][..], false),
        ("", &[], false),
        ("http = \"1.1\"", BOTH, false),
        ("http = \"2\"", BOTH, true),
    ] {
        let server = room.server(alpn);
        room.run(client, &server, TRUSTED).assert_good();
        let requests = of_the_load(&server);
        assert!(
            requests.len() >= 6 && requests.iter().all(|asked| asked.is_http2 == is_http2),
            "{client} {alpn:?}: {requests:?}"
        );
    }
    let server = room.server(&["http/1.1"]);
    let refused = room.run("http = \"2\"", &server, TRUSTED);
    refused.assert_refused(&["none of the HTTP versions", "[client]"]);
    let server = room.server(&[]);
    let refused = room.run("http = \"2\"", &server, TRUSTED);
    refused.assert_refused(&["did not agree to HTTP/2", "auto"]);
}

#[test]
fn who_is_not_trusted_is_not_measured() {
    let room = Room::new();
    let other = Authority::new("another CA").expect("a CA");
    let names = &["localhost"];
    let unknown = ["signed by no CA that is trusted", "--ca"];
    room.run(
        "",
        &start(&other.server(names).expect("a certificate"), BOTH),
        TRUSTED,
    )
    .assert_refused(&unknown);
    // Nor is the CA of the tests one of this machine's.
    room.run("", &room.server(BOTH), &[])
        .assert_refused(&unknown);
    room.run(
        "",
        &start(&room.authority.expired(names).expect("a certificate"), BOTH),
        TRUSTED,
    )
    .assert_refused(&["has expired", "days ago"]);
    room.run(
        "",
        &start(
            &room
                .authority
                .server(&["other.test"])
                .expect("a certificate"),
            BOTH,
        ),
        TRUSTED,
    )
    .assert_refused(&["localhost", "other.test", "--server-name"]);
    room.run("", &start(&room.authority.itself(), BOTH), TRUSTED)
        .assert_refused(&["CA:TRUE", "basicConstraints"]);
}

#[test]
fn insecure_trusts_anybody_and_the_record_says_so() {
    let room = Room::new();
    let other = Authority::new("another CA").expect("a CA");
    let server = start(
        &other.expired(&["other.test"]).expect("a certificate"),
        BOTH,
    );
    let run = room.run("", &server, &["--insecure"]);
    run.assert_good()
        .call
        .assert_stderr(&["--insecure", "not verified"]);
    let access = run.record().arms["run"].access.clone();
    assert!(access.is_some_and(|access| access.insecure));
    room.run("", &server, &["--insecure", "--ca", "ca.pem"])
        .call
        .assert_code(2)
        .assert_stderr(&["cannot be used with"]);
}

#[test]
fn a_service_may_have_another_name_than_its_address() {
    let room = Room::new();
    let server = start(
        &room
            .authority
            .server(&["api.example.test"])
            .expect("a certificate"),
        BOTH,
    );
    let named = [TRUSTED, &["--server-name", "api.example.test"]].concat();
    room.run("", &server, &named).assert_good();
    let seen = server.seen();
    let asked = |name: &Option<String>| name.as_deref() == Some("api.example.test");
    assert!(
        seen.handshakes
            .iter()
            .all(|handshake| asked(&handshake.name))
    );
    let host = format!("api.example.test:{}", server.port());
    assert!(
        seen.requests.iter().all(|asked| asked.host == host),
        "{seen:?}"
    );
    room.run("", &server, &["--server-name", "no name"])
        .assert_refused(&["--server-name", "no name", "host name"]);
}

#[test]
fn addresses_have_certificates_too() {
    let room = Room::new();
    let identity = room.authority.server(&["::1"]).expect("a certificate");
    let server = SecureServer::secure("[::1]:0", &Secure::of(&identity, BOTH));
    let target = format!("https://[::1]:{}", server.port());
    SmallRun::get(room.path(), "", &target, TRUSTED).assert_good();
    // An address is no name that could be asked for (RFC 6066 §3).
    let seen = server.seen();
    assert!(
        seen.handshakes
            .iter()
            .all(|handshake| handshake.name.is_none())
    );
}

#[test]
fn a_handshake_that_fails_in_the_run_is_an_error_of_its_kind() {
    let room = Room::new();
    let (good, expired) = (
        room.authority
            .server(&["localhost"])
            .expect("a certificate"),
        room.authority
            .expired(&["localhost"])
            .expect("a certificate"),
    );
    // The first look and the monitor's pass; then the certificate is another one.
    let server = SecureServer::secure(
        "127.0.0.1:0",
        &Secure {
            later: Some((2, &expired)),
            ..Secure::of(&good, BOTH)
        },
    );
    room.run("", &server, TRUSTED)
        .assert_all(ErrorKind::Tls, &["has expired"]);
}

#[test]
fn who_wants_a_client_certificate_gets_it() {
    let room = Room::new();
    let identity = room
        .authority
        .server(&["localhost"])
        .expect("a certificate");
    let client = room.authority.client().expect("a certificate");
    client.write(room.path()).expect("writable");
    let shown = [
        "--client-certificate",
        "client.pem",
        "--client-key",
        "client.key",
    ];
    let shown = [TRUSTED, &shown].concat();
    for http in ["http = \"1.1\"", "http = \"2\""] {
        let strict = || {
            let secure = Secure {
                clients: Some(&room.authority),
                ..Secure::of(&identity, BOTH)
            };
            SecureServer::secure("127.0.0.1:0", &secure)
        };
        let server = strict();
        room.run(http, &server, &shown).assert_good();
        let seen = server.seen();
        assert!(seen.handshakes.iter().all(|one| one.has_client_certificate));
        // The service says so only behind the handshake, to each request.
        room.run(http, &strict(), TRUSTED).assert_all(
            ErrorKind::Tls,
            &["wants a client certificate", "--client-certificate"],
        );
        // Nobody asks for it, so it isn't shown.
        let server = room.server(BOTH);
        room.run(http, &server, &shown).assert_good();
        let seen = server.seen();
        assert!(!seen.handshakes.iter().any(|one| one.has_client_certificate));
    }
    Authority::new("another CA")
        .expect("a CA")
        .client()
        .expect("a certificate")
        .write(room.path())
        .expect("writable");
    let secure = Secure {
        clients: Some(&room.authority),
        ..Secure::of(&identity, BOTH)
    };
    let server = SecureServer::secure("127.0.0.1:0", &secure);
    room.run("", &server, &shown)
        .assert_all(ErrorKind::Tls, &["does not accept our client certificate"]);
}

#[test]
fn sessions_are_resumed_by_the_user_who_had_them_or_by_nobody() {
    let room = Room::new();
    let request = "method = \"GET\"\npath = \"/it/close\"\nexpect = { status = 200 }";
    for (more, resumed) in [(&[][..], 3), (&["--full-handshakes"], 0)] {
        let server = room.server(&["http/1.1"]);
        let more = [TRUSTED, more].concat();
        let run = SmallRun::of(room.path(), "", request, &url(&server), &more);
        run.assert_good();
        let blocks = run.blocks().len();
        let handshakes = server.seen().handshakes;
        assert_eq!(handshakes.len(), 1 + blocks * (1 + 6));
        // Three users, two requests each: only a user's second one can be short.
        let short = handshakes.iter().filter(|one| one.is_resumed);
        assert_eq!(short.count(), blocks * resumed, "{more:?}");
        let access = run.record().arms["run"].access.clone();
        assert_eq!(access.is_some_and(|it| it.full_handshakes), resumed == 0);
    }
}

#[test]
fn monitor_and_probe_take_the_way_of_the_load() {
    let room = Room::new();
    let request = "method = \"GET\"\npath = \"/it\"\nexpect = { status = 200 }\n\
                   [probe]\npath = \"/it/probed\"";
    for http in ["http = \"1.1\"", "http = \"2\""] {
        let server = room.server(BOTH);
        server.show_monitor();
        let run = SmallRun::of(room.path(), http, request, &url(&server), TRUSTED);
        run.assert_good();
        assert!(run.record().load.probe.is_some());
        for block in run.blocks() {
            assert!(block.monitor.is_some());
            assert!(
                block
                    .probe
                    .is_some_and(|probe| probe.offered > 0 && probe.errors.is_empty())
            );
        }
    }
}

#[test]
fn who_speaks_no_tls_is_told_from_who_does() {
    let room = Room::new();
    let plain = SecureServer::plain("127.0.0.1:0");
    SmallRun::get(room.path(), "", &url(&plain), TRUSTED).assert_refused(&["not TLS", "http://"]);
    let secure = room.server(BOTH);
    let target = format!("http://localhost:{}", secure.port());
    let run = SmallRun::get(room.path(), "", &target, &[]);
    run.call.assert_code(3);
    let block = run.blocks()[0].clone();
    assert_eq!((block.completed, block.errors.values().sum()), (0, 6));
}

#[test]
fn mistakes_name_the_option_the_file_and_what_was_expected() {
    let room = Room::new();
    let (certificate, key) = room
        .authority
        .client()
        .expect("a certificate")
        .write(room.path())
        .expect("writable");
    let other = Authority::new("another CA")
        .expect("a CA")
        .client()
        .expect("a certificate")
        .key_pem()
        .to_owned();
    let write = |name: &str, text: &[u8]| {
        fs::write(room.path().join(name), text).expect("writable");
    };
    let broken = fs::read_to_string(&certificate).expect("readable");
    write("other.key", other.as_bytes());
    write("empty.pem", b"");
    write("der.pem", &room.authority.der());
    write("broken.pem", broken.replacen("MII", "", 1).as_bytes());
    let locked = fs::read_to_string(&key).expect("readable");
    write(
        "locked.key",
        locked
            .replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
            .as_bytes(),
    );
    let with_key = |key| ["--client-certificate", "client.pem", "--client-key", key];
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["--ca", "nowhere.pem"],
            &["--ca nowhere.pem", "can't be read", "BEGIN CERTIFICATE"],
        ),
        (
            &["--ca", "empty.pem"],
            &["--ca empty.pem", "holds no certificate"],
        ),
        (
            &["--ca", "client.key"],
            &["--ca client.key", "it holds a private key"],
        ),
        (
            &["--ca", "der.pem"],
            &["--ca der.pem", "DER", "openssl x509"],
        ),
        (
            &["--ca", "broken.pem"],
            &["--ca broken.pem, line 1", "certificate"],
        ),
        (
            &with_key("client.pem"),
            &["--client-key client.pem", "it holds a certificate"],
        ),
        (
            &with_key("locked.key"),
            &["--client-key locked.key", "encrypted", "openssl pkey"],
        ),
        (
            &with_key("other.key"),
            &["--client-key other.key", "does not belong to", "client.pem"],
        ),
        (&["--client-certificate", "client.pem"], &["--client-key"]),
    ];
    for (arguments, words) in cases {
        // Nobody has to listen: the files are read first.
        let run = SmallRun::get(room.path(), "", "https://localhost:1", arguments);
        run.assert_refused(words);
    }
}
