//! TLS: who is trusted, how connections end; and what a client does around an exchange, over TLS
//! and HTTP/2 as without them.

use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use unstall_results::record::ErrorKind::{Reset, Status, Timeout, Tls};
use unstall_testbed::{Behaviour, Farewell};

use super::case::{Case, Check, Group, Tried};
use super::clients;
use super::exchange::{Exchange, RIGHT, USERS, WRONG, counted_once};
use super::load::{cold, measure_at};
use super::right_answers;
use super::service::{Certificate, HTTP1, HTTP2, Kind, Service, TlsKind};

const GROUP: Group = Group::Tls;
static NEWEST: [&SupportedProtocolVersion; 1] = [&TLS13];
static OLDEST: [&SupportedProtocolVersion; 1] = [&TLS12];
const ONE_EACH: u64 = USERS as u64;

/// A way to the faulty server, over which clients behave as they do without it.
#[derive(Clone, Copy)]
struct Way {
    kind: Kind,
    is_http2: bool,
    /// What the scenario says of the client.
    client: &'static str,
    followed: &'static str,
    decoded: &'static str,
    cookies: &'static str,
}

const BY_TLS: Way = Way {
    kind: Kind::BehindTls(TlsKind::right(HTTP1)),
    is_http2: false,
    client: "",
    followed: "[client]\nredirects_max = 5",
    decoded: "[client]\ncompression = true",
    cookies: "[client]\ncookies = true",
};
const BY_HTTP2: Way = Way {
    kind: Kind::BehindHttp2,
    is_http2: true,
    client: "[client]\nhttp = \"2\"",
    followed: "[client]\nhttp = \"2\"\nredirects_max = 5",
    decoded: "[client]\nhttp = \"2\"\ncompression = true",
    cookies: "[client]\nhttp = \"2\"\ncookies = true",
};
const BY_BOTH: Way = Way {
    kind: Kind::BehindTls(TlsKind::right(HTTP2)),
    is_http2: true,
    ..BY_TLS
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = agreed();
    cases.extend(refused());
    cases.extend(ended());
    let own = |name, stands_for, trial| Case::own(GROUP, name, stands_for, trial);
    cases.extend([
        own("tls-frames", "RFC 8446 §5.1", frames),
        own("tls-redirects", "RFC 9110 §15.4", || redirects(&BY_TLS)),
        own("h2-redirects", "RFC 9110 §15.4", || redirects(&BY_HTTP2)),
        own("tls-h2-redirects", "RFC 9110 §15.4", || {
            redirects(&BY_BOTH)
        }),
        own("tls-codings", "RFC 9110 §8.4.1", || codings(&BY_TLS)),
        own("h2-codings", "RFC 9110 §8.4.1", || codings(&BY_HTTP2)),
        own("tls-h2-codings", "RFC 9110 §8.4.1", || codings(&BY_BOTH)),
        own("tls-cookies", "RFC 6265 §5.4", || cookies(&BY_TLS)),
        own("h2-cookies", "RFC 9113 §8.2.3", || cookies(&BY_HTTP2)),
        own("tls-h2-cookies", "RFC 9113 §8.2.3", || cookies(&BY_BOTH)),
        own("h2-large", "RFC 9113 §6.9", || large(&BY_HTTP2)),
        own("tls-h2-large", "RFC 9113 §6.9", || large(&BY_BOTH)),
    ]);
    cases
}

fn over(kind: TlsKind, exchange: Exchange) -> Exchange {
    exchange.served(Kind::BehindTls(kind))
}

/// Right answers by every version, and by both protocols.
fn agreed() -> Vec<Case> {
    let right = |kind: TlsKind| over(kind, Exchange::right("/ok")).handshakes(ONE_EACH);
    let by = |versions: &'static [&SupportedProtocolVersion; 1]| TlsKind {
        versions,
        ..TlsKind::right(HTTP1)
    };
    vec![
        right(by(&NEWEST)).case(GROUP, "tls-1.3", "RFC 8446 §2"),
        right(by(&OLDEST)).case(GROUP, "tls-1.2", "RFC 5246 §7.3"),
        right(TlsKind::right(HTTP2)).case(GROUP, "tls-h2", "RFC 9113 §3.2"),
        // Who agrees to nothing speaks HTTP/1.1.
        right(TlsKind::right(&[])).case(GROUP, "tls-no-alpn", "RFC 7301 §3.1"),
    ]
}

/// Handshakes that come to nothing: no request is sent, and each is an error of TLS.
fn refused() -> Vec<Case> {
    let refused = |kind: TlsKind| {
        let exchange = over(kind, Exchange::wrong("/ok", &[Tls]));
        exchange.sent(0).read(0).handshakes(WRONG)
    };
    let showing = |certificate| {
        refused(TlsKind {
            certificate,
            ..TlsKind::right(HTTP1)
        })
    };
    let behind = |behind, kind| {
        let exchange = Exchange::wrong("/ok", &[kind]).served(Kind::NoTls(behind));
        exchange.sent(0).read(0).any_left_open()
    };
    vec![
        showing(Certificate::None).case(GROUP, "tls-refused", "RFC 8446 §6.2"),
        refused(TlsKind::right(&["spdy/3"])).case(GROUP, "tls-no-protocol", "RFC 7301 §3.2"),
        showing(Certificate::OfAnotherName).case(GROUP, "tls-wrong-name", "RFC 9110 §4.3.4"),
        showing(Certificate::Expired).case(GROUP, "tls-expired", "RFC 5280 §4.1.2.5"),
        showing(Certificate::OfAnotherAuthority).case(GROUP, "tls-unknown-ca", "RFC 5280 §6.1"),
        behind(Behaviour::Paths, Tls).case(GROUP, "tls-not-tls", "RFC 8446 §5.1"),
        behind(Behaviour::CloseOnAccept, Tls).case(GROUP, "tls-closed", "RFC 8446 §6.1"),
        behind(Behaviour::Silent, Timeout).case(GROUP, "tls-silent", "Hyperfoil/Hyperfoil#637"),
    ]
}

/// Connections that end by close_notify, as a whole answer may, or without a word, as a cut one
/// does: where the connection's end is the body's, only the former is an answer.
fn ended() -> Vec<Case> {
    let by = |farewell| TlsKind {
        farewell,
        ..TlsKind::right(HTTP1)
    };
    let right = |farewell, path| over(by(farewell), Exchange::right(path)).connections(RIGHT);
    let wrong = |farewell, path| over(by(farewell), Exchange::wrong(path, &[Reset]));
    use Farewell::{Said, Unsaid};
    vec![
        right(Said, "/until-close").case(GROUP, "tls-until-close", "RFC 9112 §9.8"),
        wrong(Unsaid, "/until-close").case(GROUP, "tls-until-cut", "RFC 9112 §9.8"),
        // It had its length: nothing is missing.
        right(Unsaid, "/close-after")
            .client("[client]\nreuse = \"never\"")
            .case(GROUP, "tls-cut-behind", "RFC 9112 §9.8"),
        wrong(Said, "/truncated").case(GROUP, "tls-truncated", "psf/requests#4956"),
        wrong(Unsaid, "/truncated").case(GROUP, "tls-cut-in-body", "RFC 9112 §9.8"),
        wrong(Unsaid, "/truncated-chunked").case(GROUP, "tls-cut-in-chunk", "RFC 9112 §9.8"),
        wrong(Unsaid, "/half-head").case(GROUP, "tls-cut-in-head", "RFC 9112 §9.8"),
        wrong(Said, "/reset-in-body").case(GROUP, "tls-reset-in-body", "RFC 9112 §9.5"),
    ]
}

/// What is right without TLS is right over it.
fn frames() -> Tried {
    each(right_answers::frames().map(|frame| {
        let exchange = Exchange::right(format!("/framing/{frame}")).any_connections();
        (frame.to_owned(), exchange.served(BY_TLS.kind))
    }))
}

/// The checks of several exchanges, each under its name.
fn each(exchanges: impl Iterator<Item = (String, Exchange)>) -> Tried {
    let mut all = vec![];
    for (name, exchange) in exchanges {
        let checks = exchange.run()?.into_iter().map(|check| Check {
            what: format!("{name}: {}", check.what),
            ..check
        });
        all.extend(checks);
    }
    Ok(all)
}

impl Way {
    /// Connections of a block whose requests fail behind a whole head.
    fn connections_of_failures(&self) -> u64 {
        if self.is_http2 { ONE_EACH } else { WRONG }
    }
}

fn redirects(way: &Way) -> Tried {
    const HOPS: u64 = 3;
    let followed = [301, 302, 303, 307, 308].map(|status| {
        let exchange = Exchange::right(format!("/redirect/{status}/hops/{HOPS}"));
        (status.to_string(), exchange.redirects(HOPS))
    });
    let wrong = |what: &str| Exchange::wrong(format!("/redirect/302/{what}"), &[Status]);
    let in_a_loop = wrong("loop").redirects(5);
    let unfollowed = [
        ("loop", in_a_loop.connections(way.connections_of_failures())),
        ("nowhere", wrong("nowhere").connections(ONE_EACH)),
    ];
    let unfollowed = unfollowed.map(|(name, exchange)| (name.to_owned(), exchange));
    let all = followed.into_iter().chain(unfollowed);
    each(all.map(|(name, exchange)| (name, exchange.client(way.followed).served(way.kind))))
}

fn codings(way: &Way) -> Tried {
    each(clients::coded().map(|(name, exchange, is_decoded)| {
        let exchange = if is_decoded {
            exchange
        } else {
            exchange.connections(way.connections_of_failures())
        };
        let exchange = exchange.client(way.decoded).served(way.kind);
        (name.to_owned(), exchange)
    }))
}

/// Cookies come back to where they were set; also those for TLS only, since loopback counts as
/// secure without it, as it does in browsers.
fn cookies(way: &Way) -> Tried {
    let requests = ["/cookie/a/1", "/cookie/b/2/secure", "/ok"].map(|path| {
        format!("[[request]]\nname = \"{path}\"\nmethod = \"GET\"\npath = \"{path}\"\n")
    });
    let scenario = format!(
        "name = \"torture\"\ndescribe = \"a case of the self-test\"\n{}\n{}",
        way.cookies,
        requests.concat()
    );
    let service = Service::start(&way.kind)?;
    let spec = cold(1, 1);
    let block = measure_at(&scenario, &service.target()?, &spec)?;
    let received = service.received();
    let sent = received.iter().map(|request| {
        let cookie = request.cookie.as_deref().unwrap_or("none");
        format!("{} with {cookie}", request.path)
    });
    let mut checks = vec![
        Check::same("completed", 3, block.completed),
        Check::same(
            "cookies",
            "/cookie/a/1 with none, /cookie/b/2/secure with a=1, /ok with a=1; b=2".to_owned(),
            sent.collect::<Vec<_>>().join(", "),
        ),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// More than the windows hold at once.
fn large(way: &Way) -> Tried {
    const BYTES: u64 = 5_000_000;
    let exchange = Exchange::right(format!("/large/{BYTES}"))
        .more("timeout = \"20s\"\nexpect = { status = 200 }")
        .body_bytes(BYTES);
    let exchange = exchange.client(way.client).served(way.kind);
    each([("large".to_owned(), exchange)].into_iter())
}
