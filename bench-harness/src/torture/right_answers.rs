//! Answers that are right by the standard, and that some client has hung on, refused or counted
//! wrongly.

use unstall_testbed::right_answer;

use super::case::{Case, Group};
use super::exchange::{Exchange, RIGHT};

/// Named frames with the body of `/ok`, on connections that stay: name, report.
const KEPT: [(&str, &str); 15] = [
    ("interims", "lalinsky/dusty#159, nghttp2/nghttp2#1259"),
    ("bytes", "cosimo/perl6-lwp-simple#29"),
    ("chunk-bytes", "cosimo/perl6-lwp-simple#29"),
    ("chunk-extensions", "hyperium/hyper#228"),
    ("chunk-case", "RFC 9112 §7"),
    ("trailers", "http-kit/http-kit#523"),
    ("obs-fold", "psf/requests#4796"),
    ("bare-lf", "twisted/twisted#5262"),
    ("no-reason", "mitmproxy/mitmproxy#15"),
    ("spaces", "RFC 9112 §5"),
    ("many-headers", "RFC 9110 §5.4"),
    ("long-header", "RFC 9110 §5.4"),
    ("same-lengths", "nodejs/node#6517"),
    ("old-kept", "hyperium/hyper#1614, netty/netty#241"),
    ("length-and-chunked", "dotnet/runtime#34402"),
];
/// The same where each answer ends its connection, in words or by what follows it.
const ENDED: [(&str, &str); 6] = [
    ("close-said", "wg/wrk#118"),
    ("old", "hyperium/hyper#1614"),
    ("old-until-close", "wg/wrk#118"),
    ("half-close", "RFC 9112 §9.6"),
    ("then-rubbish", "spring-projects/spring-boot#42058"),
    ("then-answer", "crate/crate#7191"),
];
const GROUP: Group = Group::RightAnswers;
/// Longer than what the sockets of both sides hold, so that a client is still sending.
const UPLOAD_BYTES: usize = 12 << 20;

/// Names of frames that carry the usual body.
pub(super) fn frames() -> impl Iterator<Item = &'static str> {
    KEPT.iter().chain(&ENDED).map(|(name, _)| *name)
}

pub(super) fn cases() -> Vec<Case> {
    let frame = |name: &str| Exchange::right(format!("/framing/{name}"));
    let kept = KEPT.map(|(name, stands_for)| {
        let exchange = match name {
            // Such a connection may be closed, because its two sides may not agree.
            "length-and-chunked" => frame(name).any_connections(),
            _ => frame(name),
        };
        exchange.case(GROUP, name, stands_for)
    });
    let ended = ENDED.map(|(name, stands_for)| {
        let exchange = frame(name).connections(RIGHT);
        exchange.case(GROUP, name, stands_for)
    });
    let then_newline = frame("then-newline").any_connections();
    kept.into_iter()
        .chain(ended)
        .chain([then_newline.case(GROUP, "then-newline", "hyperium/hyper#753")])
        .chain(bodies())
        .chain(without_a_body())
        .chain(split())
        .chain(early())
        .collect()
}

/// The body's length in every way in which it can be told.
fn bodies() -> Vec<Case> {
    let status_only = |path: &str, bytes: u64| {
        let exchange = Exchange::right(path).expects_status(200);
        exchange.body_bytes(bytes)
    };
    vec![
        Exchange::right("/chunked").case(GROUP, "chunked", "RedHatPerf/SailRocket#14"),
        Exchange::right("/until-close")
            .connections(RIGHT)
            .case(GROUP, "until-close", "wg/wrk#118"),
        status_only("/framing/empty", 0).case(GROUP, "empty", "RFC 9112 §6.3"),
        status_only("/framing/empty-chunked", 0).case(GROUP, "empty-chunked", "RFC 9112 §7.1"),
        status_only("/framing/nul-in-body", 15).case(GROUP, "nul-in-body", "scylladb/seastar#2736"),
        status_only("/large/3000001", 3_000_001).case(GROUP, "large", "grafana/k6#763"),
    ]
}

/// Answers whose headers speak of a body that isn't there.
fn without_a_body() -> Vec<Case> {
    let none = |method, path: &str, status| {
        let exchange = Exchange::right(path).expects_status(status);
        exchange.method(method).body_bytes(0)
    };
    let wrk = "wg/wrk#374";
    let cpython = "python/cpython#157951";
    vec![
        none("HEAD", "/ok", 200).case(GROUP, "head-length", wrk),
        none("HEAD", "/chunked", 200).case(GROUP, "head-chunked", wrk),
        none("HEAD", "/until-close", 200)
            .connections(RIGHT)
            .case(GROUP, "head-until-close", wrk),
        none("HEAD", "/continue", 200).case(GROUP, "head-continue", "nghttp2/nghttp2#1259"),
        none("GET", "/204", 204).case(GROUP, "204", cpython),
        none("GET", "/204-chunked", 204).case(GROUP, "204-chunked", cpython),
        none("GET", "/304", 304).case(GROUP, "304", cpython),
        none("GET", "/304-length", 304).case(GROUP, "304-length", cpython),
    ]
}

/// The answer in two reads, cut at any byte.
fn split() -> Vec<Case> {
    let bytes = right_answer().len() as u64;
    let exchange = Exchange::right("/split/${iteration}")
        .counts(1, bytes + 1, &[])
        .body_bytes(15)
        .connections(1);
    vec![exchange.case(GROUP, "split-anywhere", "cosimo/perl6-lwp-simple#29")]
}

/// Answered while the request's body is still being sent.
fn early() -> Vec<Case> {
    let body = "x".repeat(UPLOAD_BYTES);
    let upload = |what: &str, status: u16| {
        Exchange::right(format!("/early/{what}"))
            .method("POST")
            .more(format!(
                "timeout = \"20s\"\nexpect = {{ status = {status} }}\nbody = \"{body}\"\n\
                 content_type = \"text/plain\""
            ))
            .counts(2, 6, &[])
    };
    let refused = |what: &str| upload(what, 413).body_bytes(21);
    let report = "lysine-dev/okhttp#1001, grafana/k6#1872";
    vec![
        refused("read")
            .any_connections()
            .case(GROUP, "early-then-read", report),
        refused("half-close")
            .connections(6)
            .case(GROUP, "early-then-close", report),
        refused("deaf").connections(6).any_left_open().case(
            GROUP,
            "early-then-deaf",
            "akka/akka-http#1439",
        ),
        // All of it comes back, so that whoever stops sending waits for ever.
        upload("echo", 200)
            .body_bytes(UPLOAD_BYTES as u64)
            .connections(6)
            .case(GROUP, "early-then-echo", "RFC 9112 §9.5"),
    ]
}
