//! HTTP/2: frames of every shape, connections and streams that end in every way, windows that are
//! small or shut. A stream that fails costs its connection only where the standard says so.

use unstall_results::record::ErrorKind::{self, Protocol, Reset, Timeout};
use unstall_testbed::Http2Server;

use super::case::{Case, Check, Group, Tried, Trouble};
use super::exchange::{Exchange, RIGHT, USERS, WRONG, counted_once};
use super::load::{cold, kinds, measure, scenario_of_client};
use super::service::Kind;

const GROUP: Group = Group::Http2;
const CLIENT: &str = "[client]\nhttp = \"2\"";
/// A connection of each user, which the fault leaves in use.
const KEPT: u64 = USERS as u64;

/// Right answers, on connections that stay: name, section of the standard.
const FRAMES: [(&str, &str); 16] = [
    ("h2-plain", "RFC 9113 §8.1"),
    ("h2-trailers", "RFC 9113 §8.1"),
    ("h2-interims", "RFC 9113 §8.1"),
    ("h2-continuation", "RFC 9113 §6.10"),
    ("h2-padded", "RFC 9113 §6.1"),
    ("h2-bytes", "RFC 9113 §6.1"),
    ("h2-empty-end", "RFC 9113 §6.1"),
    ("h2-unknown-frames", "RFC 9113 §5.5"),
    ("h2-late-words", "RFC 9113 §5.1"),
    ("h2-settings-late", "RFC 9113 §3.4"),
    ("h2-settings-again", "RFC 9113 §6.5.3"),
    ("h2-ping", "RFC 9113 §6.7"),
    ("h2-ping-flood", "RFC 9113 §6.7"),
    ("h2-204", "RFC 9110 §15.3.5"),
    // What the standard forbids here takes nothing from the answer, and few clients insist.
    ("h2-settings-never", "RFC 9113 §3.4"),
    ("h2-data-after-end", "RFC 9113 §5.1"),
];
/// Answers that aren't HTTP/2: name, kinds, connections, section.
const MALFORMED: [(&str, &[ErrorKind], u64, &str); 18] = [
    ("h2-push", &[Protocol], WRONG, "RFC 9113 §8.4"),
    ("h2-length-short", &[Protocol], KEPT, "RFC 9113 §8.1.1"),
    ("h2-length-long", &[Protocol], KEPT, "RFC 9113 §8.1.1"),
    ("h2-no-status", &[Protocol], KEPT, "RFC 9113 §8.3.2"),
    ("h2-upper-case", &[Protocol], WRONG, "RFC 9113 §8.2.1"),
    ("h2-connection-header", &[Protocol], KEPT, "RFC 9113 §8.2.2"),
    ("h2-data-first", &[Protocol], WRONG, "RFC 9113 §8.1"),
    ("h2-other-stream", &[Protocol], WRONG, "RFC 9113 §5.1.1"),
    ("h2-frame-too-large", &[Protocol], WRONG, "RFC 9113 §4.2"),
    ("h2-bad-index", &[Protocol], WRONG, "RFC 7541 §6.1"),
    ("h2-bad-padding", &[Protocol], WRONG, "RFC 9113 §6.1"),
    ("h2-window-zero", &[Protocol], WRONG, "RFC 9113 §6.9"),
    ("h2-window-overflow", &[Protocol], WRONG, "RFC 9113 §6.9.1"),
    ("h2-ping-short", &[Protocol], WRONG, "RFC 9113 §6.7"),
    ("h2-settings-on-stream", &[Protocol], WRONG, "RFC 9113 §6.5"),
    ("h2-header-list", &[Protocol], KEPT, "RFC 9113 §10.5.1"),
    (
        "h2-endless-continuation",
        &[Protocol],
        WRONG,
        "RFC 9113 §10.5",
    ),
    ("h2-not-http2", &[Protocol], WRONG, "RFC 9113 §3.4"),
];
/// Connections and streams that end too early, or never.
const ENDED: [(&str, ErrorKind, u64, &str); 8] = [
    ("h2-goaway-error", Reset, WRONG, "RFC 9113 §6.8"),
    ("h2-close", Reset, WRONG, "RFC 9113 §5.4.1"),
    ("h2-reset", Reset, WRONG, "RFC 9113 §5.4.1"),
    ("h2-cut-in-frame", Reset, WRONG, "RFC 9113 §4.1"),
    ("h2-cut-in-body", Reset, WRONG, "RFC 9113 §8.1"),
    ("h2-reset-in-body", Reset, KEPT, "RFC 9113 §5.4.2"),
    ("h2-hang", Timeout, WRONG, "Hyperfoil/Hyperfoil#637"),
    ("h2-hang-in-body", Timeout, WRONG, "Hyperfoil/Hyperfoil#637"),
];
/// Why a service may reset a stream (RFC 9113 §7), and what comes of it.
const REASONS: [(&str, u32, ErrorKind); 15] = [
    ("NO_ERROR", 0x0, Reset),
    ("PROTOCOL_ERROR", 0x1, Reset),
    ("INTERNAL_ERROR", 0x2, Reset),
    ("FLOW_CONTROL_ERROR", 0x3, Reset),
    ("SETTINGS_TIMEOUT", 0x4, Reset),
    ("STREAM_CLOSED", 0x5, Reset),
    ("FRAME_SIZE_ERROR", 0x6, Reset),
    ("REFUSED_STREAM", 0x7, Reset),
    ("CANCEL", 0x8, Reset),
    ("COMPRESSION_ERROR", 0x9, Reset),
    ("CONNECT_ERROR", 0xa, Reset),
    ("ENHANCE_YOUR_CALM", 0xb, Reset),
    ("INADEQUATE_SECURITY", 0xc, Reset),
    // Another HTTP would do.
    ("HTTP_1_1_REQUIRED", 0xd, Protocol),
    ("one of tomorrow", 0xff, Reset),
];

pub(super) fn cases() -> Vec<Case> {
    let frames = FRAMES.map(|(name, stands_for)| {
        let exchange = match name {
            "h2-204" => right(name).expects_status(204).body_bytes(0),
            "h2-data-after-end" => right(name).any_connections(),
            _ => right(name),
        };
        exchange.case(GROUP, name, stands_for)
    });
    let malformed = MALFORMED.map(|(name, kinds, connections, stands_for)| {
        let exchange = wrong(name, kinds).connections(connections);
        let exchange = match name {
            // It doesn't understand them.
            "h2-not-http2" => exchange.read(0),
            _ => exchange,
        };
        exchange.case(GROUP, name, stands_for)
    });
    let ended = ENDED.map(|(name, kind, connections, stands_for)| {
        let exchange = wrong(name, &[kind]).connections(connections);
        exchange.case(GROUP, name, stands_for)
    });
    let mut cases = Vec::from(frames);
    cases.extend(renewed());
    cases.extend(windows());
    cases.extend(malformed);
    cases.extend(ended);
    cases.push(Case::own(GROUP, "h2-reset-reasons", "RFC 9113 §7", reasons));
    cases
}

fn right(name: &'static str) -> Exchange {
    let exchange = Exchange::right("/ok").served(Kind::Http2(name));
    exchange.client(CLIENT)
}

fn wrong(name: &'static str, kinds: &[ErrorKind]) -> Exchange {
    let exchange = Exchange::wrong("/ok", kinds).served(Kind::Http2(name));
    exchange.client(CLIENT)
}

/// Connections that end in good order: no request is lost, and none is asked twice of who took it;
/// and answers that aren't the usual ones.
fn renewed() -> Vec<Case> {
    let each = |name| right(name).connections(RIGHT);
    vec![
        each("h2-goaway-behind").case(GROUP, "h2-goaway-behind", "RFC 9113 §6.8"),
        each("h2-close-behind").case(GROUP, "h2-close-behind", "RFC 9113 §5.4.1"),
        // All but each user's first one are refused once.
        each("h2-goaway-refused").read(2 * RIGHT - KEPT).case(
            GROUP,
            "h2-goaway-refused",
            "RFC 9113 §8.7",
        ),
        right("h2-burst")
            .more("timeout = \"20s\"\nexpect = { status = 200 }")
            .body_bytes(5_000)
            .case(GROUP, "h2-burst", "RFC 9113 §6.1"),
        right("h2-304-length")
            .expects_status(304)
            .body_bytes(0)
            .case(GROUP, "h2-304-length", "RFC 9113 §8.1.1"),
    ]
}

/// Bodies of requests against windows.
fn windows() -> Vec<Case> {
    // More than a window holds at first (RFC 9113 §6.9.2).
    const LARGE: usize = 100_000;
    const SMALL: usize = 5_000;
    let post = |exchange: Exchange, bytes: usize, status: u16, timeout: &str| {
        let body = "x".repeat(bytes);
        exchange.method("POST").more(format!(
            "timeout = \"{timeout}\"\nexpect = {{ status = {status} }}\nbody = \"{body}\"\n\
             content_type = \"text/plain\""
        ))
    };
    vec![
        post(right("h2-window-small"), SMALL, 200, "20s")
            .uploaded(SMALL as u64 * RIGHT)
            .case(GROUP, "h2-window-small", "RFC 9113 §6.9"),
        post(right("h2-early"), LARGE, 413, "20s").case(GROUP, "h2-early", "RFC 9113 §8.1"),
        post(wrong("h2-window-stalled", &[Timeout]), LARGE, 200, "300ms").case(
            GROUP,
            "h2-window-stalled",
            "RFC 9113 §6.9",
        ),
    ]
}

/// Every reason for which a stream may be reset; its connection stays in use.
fn reasons() -> Tried {
    let mut checks = vec![];
    for (name, reason, kind) in REASONS {
        let server = Http2Server::resetting(reason)
            .map_err(|error| Trouble::NotRun(format!("no server could be started: {error}")))?;
        let scenario = scenario_of_client(CLIENT, "GET", "/ok", "timeout = \"5s\"");
        let spec = cold(USERS, WRONG);
        let block = measure(&scenario, &server.url(), &spec)?;
        checks.extend([
            Check::same(name, kinds([(&kind, &WRONG)]), kinds(&block.errors)),
            Check::same(
                &format!("connections behind {name}"),
                KEPT,
                server.connections(),
            ),
            Check::same(&format!("requests, {name}"), WRONG, server.requests()),
        ]);
        checks.extend(counted_once(&block, &spec));
    }
    Ok(checks)
}
