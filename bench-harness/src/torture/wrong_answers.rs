//! Answers that are none, or that break off: each is an error of one kind, counted once, asked for
//! once, and its connection is never used again.

use unstall_results::record::ErrorKind::{
    self, CheckFailed, Connect, Decode, Protocol, Reset, Status, Timeout,
};
use unstall_testbed::{Behaviour, right_answer};

use super::case::{Case, Group};
use super::exchange::{Exchange, USERS, WRONG};

const GROUP: Group = Group::WrongAnswers;

/// Frames that are none: name, what they are, report.
const FRAMES: [(&str, &[ErrorKind], &str); 27] = [
    ("two-lengths", &[Protocol], "valyala/fasthttp#2294"),
    ("length-list", &[Protocol], "RFC 9112 §6.3"),
    ("negative-length", &[Protocol], "openwrt/uhttpd#4"),
    ("signed-length", &[Protocol], "openwrt/uhttpd#4"),
    ("hex-length", &[Protocol], "openwrt/uhttpd#4"),
    ("huge-length", &[Protocol], "RFC 9110 §8.6"),
    ("chunk-rubbish", &[Protocol], "hyperium/hyper#228"),
    ("chunk-overflow", &[Protocol], "baidu/dperf#577"),
    ("chunk-too-long", &[Protocol], "RFC 9112 §7.1"),
    ("nul-in-head", &[Protocol], "yhirose/cpp-httplib#1908"),
    ("nul-in-name", &[Protocol], "jetty/jetty.project#13768"),
    ("no-colon", &[Protocol], "RFC 9112 §5"),
    ("no-head", &[Protocol], "hyperium/hyper#2468"),
    ("version-2", &[Protocol], "RFC 9112 §2.3"),
    ("status-99", &[Protocol], "RFC 9112 §4"),
    ("status-2000", &[Protocol], "RFC 9112 §4"),
    ("status-999", &[Status], "JakeChampion/fetch#1415"),
    // An answer that nobody wants, or one that is none: it isn't a 1xx to be passed over.
    (
        "switching",
        &[Status, Protocol],
        "projectdiscovery/httpx#2518",
    ),
    ("endless-line", &[Protocol], "neonmoe/minreq#55"),
    ("endless-head", &[Protocol], "sbstp/attohttpc#102"),
    ("endless-extension", &[Protocol], "RFC 9112 §7.1.1"),
    ("endless-trailers", &[Protocol], "xroche/httrack#913"),
    // Some clients give up after a number of them.
    (
        "endless-interims",
        &[Timeout, Protocol],
        "lalinsky/dusty#175",
    ),
    ("endless-chunks", &[Timeout], "RFC 9112 §7.1"),
    ("reset-in-head", &[Reset], "RFC 9112 §9.5"),
    ("cut-in-chunk", &[Reset], "psf/requests#4956"),
    ("half-close-early", &[Reset], "RFC 9112 §9.6"),
];

pub(super) fn cases() -> Vec<Case> {
    let frames = FRAMES.into_iter().map(|(name, kinds, stands_for)| {
        let exchange = Exchange::wrong(format!("/framing/{name}"), kinds);
        let exchange = match name {
            // A whole answer, for all its status.
            "status-999" => exchange.connections(u64::from(USERS)),
            "endless-interims" => exchange.more("timeout = \"300ms\"\nexpect = { status = 200 }"),
            _ => exchange,
        };
        exchange.case(GROUP, name, stands_for)
    });
    frames
        .chain(broken_off())
        .chain(anywhere())
        .chain(checked())
        .chain(no_answer())
        .collect()
}

/// Connections that end too early.
fn broken_off() -> Vec<Case> {
    [
        ("rubbish", Protocol, "RFC 9112 §4"),
        ("half-head", Reset, "RFC 9112 §8"),
        ("close", Reset, "RFC 9112 §9.5"),
        ("reset", Reset, "RFC 9112 §9.5"),
        ("reset-in-body", Reset, "RFC 9112 §9.5"),
        ("truncated", Reset, "psf/requests#4956"),
        ("truncated-chunked", Reset, "RFC 9112 §8"),
    ]
    .map(|(name, kind, stands_for)| {
        Exchange::wrong(format!("/{name}"), &[kind]).case(GROUP, name, stands_for)
    })
    .into()
}

/// The right answer, closed or reset after any of its bytes.
fn anywhere() -> Vec<Case> {
    let bytes = right_answer().len() as u64;
    let whole = Exchange::right("/cut/${iteration}")
        .counts(1, 1, &[(Reset, bytes)])
        .body_bytes(15)
        .connections(bytes + 1);
    let reset = Exchange::wrong("/reset-at/${iteration}", &[Reset])
        .counts(1, 0, &[(Reset, bytes)])
        .connections(bytes);
    vec![
        whole.case(GROUP, "cut-anywhere", "httpie/cli#965"),
        reset.case(GROUP, "reset-anywhere", "RFC 9112 §9.5"),
    ]
}

/// Answers that are HTTP and not what the scenario expects: their connections are as good as any.
fn checked() -> Vec<Case> {
    [
        ("500", Status, "locustio/locust#1363"),
        ("404", Status, "locustio/locust#1363"),
        ("wrong-shape", CheckFailed, "locustio/locust#1363"),
        ("not-json", Decode, "locustio/locust#1363"),
    ]
    .map(|(name, kind, stands_for)| {
        let more = "timeout = \"20s\"\n\
                    expect = { status = 200, json = { \"/status\" = \"string\" } }";
        Exchange::wrong(format!("/{name}"), &[kind])
            .more(more)
            .connections(u64::from(USERS))
            .case(GROUP, name, stands_for)
    })
    .into()
}

/// Servers that never get as far as a request.
fn no_answer() -> Vec<Case> {
    let at = |server, kind| Exchange::wrong("/ok", &[kind]).at(server);
    let close = at(Behaviour::CloseOnAccept, Reset).any_sent();
    let reset = at(Behaviour::ResetOnAccept, Reset).any_sent();
    vec![
        at(Behaviour::Refuse, Connect)
            .sent(0)
            .any_left_open()
            .case(GROUP, "refused", "wg/wrk#289"),
        close.case(GROUP, "closed-on-accept", "wg/wrk#289"),
        reset.case(GROUP, "reset-on-accept", "wg/wrk#289"),
        at(Behaviour::Silent, Timeout).connections(WRONG).case(
            GROUP,
            "silent",
            "Hyperfoil/Hyperfoil#637",
        ),
        at(Behaviour::Full, Timeout).sent(0).any_left_open().case(
            GROUP,
            "backlog-full",
            "giltene/wrk2#33",
        ),
    ]
}
