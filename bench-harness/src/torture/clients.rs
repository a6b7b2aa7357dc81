//! What a client does around an exchange: redirects, followed by the standard and to a bound, and
//! content codings, undone and counted in both sizes.

use unstall_results::record::ErrorKind::{Decode, Status};
use unstall_testbed::{Behaviour, Received};

use super::case::{Case, Check, Group, Tried};
use super::exchange::{Exchange, USERS, counted_once};
use super::load::{cold, kinds, measure, scenario_of_client, start};

const GROUP: Group = Group::Client;
const FOLLOWED: &str = "[client]\nredirects_max = 5";
const DECODED: &str = "[client]\ncompression = true";
const REDIRECTS: &str = "RFC 9110 §15.4";
const CODINGS: &str = "RFC 9110 §8.4.1";
const HOPS: u64 = 3;
/// Statuses, and the method that a POST has behind them.
const STATUSES: [(&str, u16, &str); 5] = [
    ("redirect-301", 301, "GET"),
    ("redirect-302", 302, "GET"),
    ("redirect-303", 303, "GET"),
    ("redirect-307", 307, "POST"),
    ("redirect-308", 308, "POST"),
];
/// Coding, its bytes of the right body, and the names of its cases, by the state of the body.
type Coded = (&'static str, u64, [(&'static str, &'static str); 5]);
const CODED: [Coded; 4] = [
    (
        "gzip",
        35,
        [
            ("gzip", "whole"),
            ("gzip-bytes", "bytes"),
            ("gzip-cut", "cut"),
            ("gzip-spoilt", "spoilt"),
            ("gzip-more", "more"),
        ],
    ),
    (
        "deflate",
        23,
        [
            ("deflate", "whole"),
            ("deflate-bytes", "bytes"),
            ("deflate-cut", "cut"),
            ("deflate-spoilt", "spoilt"),
            ("deflate-more", "more"),
        ],
    ),
    (
        "raw-deflate",
        17,
        [
            ("raw-deflate", "whole"),
            ("raw-deflate-bytes", "bytes"),
            ("raw-deflate-cut", "cut"),
            ("raw-deflate-spoilt", "spoilt"),
            ("raw-deflate-more", "more"),
        ],
    ),
    (
        "br",
        19,
        [
            ("br", "whole"),
            ("br-bytes", "bytes"),
            ("br-cut", "cut"),
            ("br-spoilt", "spoilt"),
            ("br-more", "more"),
        ],
    ),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = redirects();
    cases.extend([
        Case::own(GROUP, "redirect-methods", REDIRECTS, methods),
        Case::own(GROUP, "redirect-elsewhere", "RFC 9110 §17.16.3", elsewhere),
    ]);
    cases.extend(
        coded().map(|(name, exchange, _)| exchange.client(DECODED).case(GROUP, name, CODINGS)),
    );
    cases
}

fn redirects() -> Vec<Case> {
    let followed = STATUSES.map(|(name, status, _)| {
        Exchange::right(format!("/redirect/{status}/hops/{HOPS}"))
            .client(FOLLOWED)
            .redirects(HOPS)
            .case(GROUP, name, REDIRECTS)
    });
    let wrong =
        |what: &str| Exchange::wrong(format!("/redirect/302/{what}"), &[Status]).client(FOLLOWED);
    let mut cases = Vec::from(followed);
    cases.extend([
        // One hop more than is followed.
        wrong("loop")
            .redirects(5)
            .case(GROUP, "redirect-loop", REDIRECTS),
        // Without a Location it is an answer like any other, and so it is to who follows none.
        wrong("nowhere")
            .connections(u64::from(USERS))
            .case(GROUP, "redirect-nowhere", REDIRECTS),
        Exchange::right("/redirect/302/hops/1")
            .expects_status(302)
            .body_bytes(9)
            .case(GROUP, "redirect-not-followed", REDIRECTS),
        // Load goes where it was sent, and nowhere else.
        wrong("host/elsewhere.test/ok").case(GROUP, "redirect-astray", REDIRECTS),
    ]);
    cases
}

/// Bodies of every coding, right and wrong: the case's name, the exchange, and whether the body can
/// be decoded, perhaps to another one.
pub(super) fn coded() -> impl Iterator<Item = (&'static str, Exchange, bool)> {
    CODED.into_iter().flat_map(|(coding, bytes, states)| {
        states.map(|(name, state)| {
            let path = format!("/coded/{coding}/{state}");
            match state {
                "whole" | "bytes" => (name, Exchange::right(path).encoded_bytes(bytes), true),
                // It has no checksum: it decodes to another text, as its reader sees, on a
                // connection that is as good as any.
                "spoilt" if coding == "raw-deflate" => {
                    let exchange = Exchange::wrong(path, &[Decode]).more(
                        "timeout = \"20s\"\n\
                         expect = { status = 200, json = { \"/status\" = \"string\" } }",
                    );
                    (name, exchange.connections(u64::from(USERS)), true)
                }
                _ => (name, Exchange::wrong(path, &[Decode]), false),
            }
        })
    })
}

/// What becomes of a POST with a body behind each status.
fn methods() -> Tried {
    const BODY: &str = "{\"a\":1}";
    let mut checks = vec![];
    for (_, status, method) in STATUSES {
        let server = start(Behaviour::Paths)?;
        let path = format!("/redirect/{status}/hops/1");
        let scenario = scenario_of_client(FOLLOWED, "POST", &path, "json = { a = 1 }");
        let spec = cold(1, 1);
        let block = measure(&scenario, &server.url(), &spec)?;
        let received = server.received();
        let shown = |asked: &Received| {
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            format!("{} {} {body}", asked.method, asked.path)
        };
        let behind = if method == "POST" { BODY } else { "" };
        checks.push(Check::same(
            &format!("behind a {status}"),
            format!("POST {path} {BODY}, {method} /ok {behind}"),
            received.iter().map(shown).collect::<Vec<_>>().join(", "),
        ));
        checks.extend(counted_once(&block, &spec));
    }
    Ok(checks)
}

/// Another service gets load only where the scenario names it, and never what was meant for the
/// first one.
fn elsewhere() -> Tried {
    const CREDENTIALS: &str = "headers = { authorization = \"Bearer s\", cookie = \"own=1\" }";
    let (server, other) = (start(Behaviour::Paths)?, start(Behaviour::Paths)?);
    let path = format!("/redirect/307/port/{}/ok", other.addr().port());
    let spec = cold(1, 1);
    let run = |client: &str| {
        let scenario = scenario_of_client(client, "GET", &path, CREDENTIALS);
        measure(&scenario, &server.url(), &spec)
    };
    let refused = run(FOLLOWED)?;
    let unasked = other.requests();
    let followed = run(&format!("{FOLLOWED}\n[hosts]\nother = \"{}\"", other.url()))?;
    let credentials = |received: Vec<Received>| {
        let told = received
            .into_iter()
            .flat_map(|asked| [asked.authorization, asked.cookie]);
        told.flatten().collect::<Vec<_>>().join(", ")
    };
    let mut checks = vec![
        Check::same(
            "not named: errors",
            kinds([(&Status, &1)]),
            kinds(&refused.errors),
        ),
        Check::same("not named: requests there", 0, unasked),
        Check::same("named: completed", 1, followed.completed),
        Check::same("named: requests there", 1, other.requests()),
        Check::same(
            "credentials there",
            String::new(),
            credentials(other.received()),
        ),
        Check::same(
            "credentials here",
            "Bearer s, own=1, Bearer s, own=1".to_owned(),
            credentials(server.received()),
        ),
    ];
    for block in [&refused, &followed] {
        checks.extend(counted_once(block, &spec));
    }
    Ok(checks)
}
