//! The ways to a service without TLS: addresses and names, Unix sockets, proxies.

use std::fs;

use unstall_results::record::ErrorKind;
use unstall_testbed::Authority;

use crate::program::{SMALL_RUN, SmallRun};
use crate::secure_server::{Secure, SecureServer};
use crate::test_proxy::{Manner, TestProxy};

#[test]
fn addresses_and_names_of_both_families() {
    let folder = tempfile::tempdir().expect("a folder");
    let six = SecureServer::plain("[::1]:0");
    let four = SecureServer::plain("127.0.0.1:0");
    for (host, server) in [("[::1]", &six), ("127.0.0.1", &four), ("localhost", &four)] {
        let authority = format!("{host}:{}", server.port());
        let target = format!("http://{authority}/base/");
        SmallRun::get(folder.path(), "", &target, &[]).assert_good();
        let asked = server.seen().requests.pop().expect("a request");
        assert_eq!((asked.host, asked.target.as_str()), (authority, "/base/it"));
    }
    SmallRun::get(folder.path(), "", "http://no-such-host.invalid", &[])
        .call
        .assert_code(2)
        .assert_stderr(&["no-such-host.invalid", "not resolved"]);
}

#[test]
fn a_unix_socket_is_a_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let server = SecureServer::at_socket(&path);
    let target = format!("unix:{}", path.display());
    let run = SmallRun::get(folder.path(), "", &target, &[]);
    run.assert_good();
    let record = run.record();
    assert_eq!(record.arms["run"].url.as_deref(), Some(target.as_str()));
    assert!(record.machine.colocated);
    let asked = server.seen().requests.pop().expect("a request");
    assert_eq!(
        (asked.host.as_str(), asked.target.as_str()),
        ("localhost", "/it")
    );

    let based = format!("{target}:/base");
    SmallRun::get(folder.path(), "http = \"2\"", &based, &[]).assert_good();
    let asked = server.seen().requests.pop().expect("a request");
    assert_eq!((asked.is_http2, asked.target.as_str()), (true, "/base/it"));

    SmallRun::get(folder.path(), "", &target, &["--watch"])
        .call
        .assert_code(2)
        .assert_stderr(&["app.sock", "unstall watch --pid"]);
    drop(server);
    SmallRun::get(folder.path(), "", &target, &[]).assert_refused(&[
        "app.sock",
        "refused",
        "start the service",
    ]);
    fs::remove_file(&path).expect("it was left");
    SmallRun::get(folder.path(), "", &target, &[]).assert_refused(&[
        "app.sock",
        "No such file",
        "start the service",
    ]);
}

#[test]
fn a_proxy_forwards_plain_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = SecureServer::plain("127.0.0.1:0");
    let proxy = TestProxy::start(Manner::Guarded("Basic bWU6cEB3"));
    let authority = format!("127.0.0.1:{}", server.port());
    let target = format!("http://{authority}");
    let through = proxy.with_credentials("me:p%40w");
    let run = SmallRun::get(folder.path(), "", &target, &["--proxy", &through]);
    run.assert_good();
    let seen = server.seen();
    let whole = format!("{target}/it");
    let load = seen.requests.iter().filter(|asked| asked.target == whole);
    let blocks = run.blocks().len() as u64;
    assert_eq!(load.count() as u64, blocks * SMALL_RUN, "{seen:?}");
    assert!(seen.requests.iter().all(|asked| asked.host == authority));
    let access = run.record().arms["run"].access.clone();
    assert_eq!(access.and_then(|access| access.proxy), Some(proxy.url()));
    let record = fs::read_to_string(folder.path().join("small.json")).expect("a record");
    for secret in ["p%40w", "p@w", "bWU6cEB3"] {
        assert!(!record.contains(secret) && !run.call.stderr.contains(secret));
    }

    let run = SmallRun::get(folder.path(), "", &target, &["--proxy", &proxy.url()]);
    run.assert_all(ErrorKind::Status, &["407"]);
}

#[test]
fn a_proxy_opens_tunnels_for_everything_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("the CA of the tests").expect("a CA");
    fs::write(folder.path().join("ca.pem"), authority.pem()).expect("writable");
    let identity = authority.server(&["localhost"]).expect("a certificate");
    let secure = SecureServer::secure("127.0.0.1:0", &Secure::of(&identity, &["h2"]));
    let plain = SecureServer::plain("127.0.0.1:0");
    let proxy = TestProxy::start(Manner::Guarded("Basic bWU6cHc="));
    let through = proxy.with_credentials("me:pw");
    let more = ["--ca", "ca.pem", "--proxy", &through];
    let target = format!("https://localhost:{}", secure.port());
    let run = SmallRun::get(folder.path(), "", &target, &more);
    let blocks = run.assert_good().blocks().len();
    let connect = format!("CONNECT localhost:{} HTTP/1.1\r\n", secure.port());
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1 + blocks * (1 + 3), "{asked:#?}");
    assert!(
        asked.iter().all(|head| head.starts_with(&connect)),
        "{asked:#?}"
    );
    assert_eq!(secure.seen().connections as usize, asked.len());

    // HTTP/2 without TLS: what the service says first belongs to the tunnel.
    let target = format!("http://127.0.0.1:{}", plain.port());
    SmallRun::get(folder.path(), "http = \"2\"", &target, &more).assert_good();
    assert!(plain.seen().requests.iter().all(|asked| asked.is_http2));
    assert!(proxy.asked()[asked.len()].starts_with("CONNECT 127.0.0.1:"));
}

/// A proxy that forwards would go to the name, which may be a service that nobody wants to load.
#[test]
fn a_name_of_its_own_goes_through_a_tunnel_to_the_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = SecureServer::plain("127.0.0.1:0");
    let proxy = TestProxy::start(Manner::Open);
    let authority = format!("127.0.0.1:{}", server.port());
    let more = ["--proxy", &proxy.url(), "--server-name", "app.example"];
    SmallRun::get(folder.path(), "", &format!("http://{authority}"), &more).assert_good();
    let connect = format!("CONNECT {authority} HTTP/1.1\r\n");
    let asked = proxy.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|head| head.starts_with(&connect)),
        "{asked:#?}"
    );
    let requests = server.seen().requests;
    let name = format!("app.example:{}", server.port());
    assert!(
        requests.iter().all(|asked| asked.host == name),
        "{requests:#?}"
    );
    assert!(
        requests.iter().any(|asked| asked.target == "/it"),
        "{requests:#?}"
    );
}

#[test]
fn a_proxy_that_does_not_let_us_through_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = "https://localhost:1";
    let refused = |proxy: &str, words: &[&str]| {
        let more = ["--insecure", "--proxy", proxy];
        SmallRun::get(folder.path(), "", target, &more).assert_refused(words);
    };
    let guarded = TestProxy::start(Manner::Guarded("Basic x"));
    let shown = guarded.url();
    refused(
        &shown,
        &[&shown, "wants credentials (407)", "user:password@"],
    );
    let wrong = guarded.with_credentials("me:wrong-password");
    refused(&wrong, &[&shown, "does not accept the credentials"]);
    let strict = TestProxy::start(Manner::Refusing("403 Forbidden"));
    refused(&strict.url(), &["403 Forbidden"]);
    refused(&TestProxy::start(Manner::Silent).url(), &["hung up"]);
    // What it leads to isn't there.
    refused(&TestProxy::start(Manner::Open).url(), &["hung up"]);
    refused(
        "http://127.0.0.1:1",
        &["the proxy http://127.0.0.1:1", "refused"],
    );
    refused("socks5://127.0.0.1:1", &["--proxy", "socks5"]);
    let socket = SmallRun::get(folder.path(), "", "unix:/x", &["--proxy", &shown]);
    socket.assert_refused(&["Unix socket", "--proxy"]);
}
