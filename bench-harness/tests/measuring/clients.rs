//! What a user's client does around its exchanges: redirects, cookies, content codings, several
//! hosts, connections that are kept or not.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use unstall_bench_harness::engine::{BlockMeasurement, EngineError};
use unstall_results::record::{EndpointSamples, ErrorKind};
use unstall_scenarios::Plan;

use crate::client_server::{ClientServer, answer};
use crate::support::{cold, parse, run, try_run};

const OK: &[u8] = br#"{"status":"ok"}"#;

fn scenario(head: &str, requests: &[&str]) -> Arc<Plan> {
    let requests = requests.iter().enumerate();
    let requests = requests.map(|(index, lines)| {
        format!("[[request]]\nname = \"r{index}\"\ntimeout = \"5s\"\n{lines}\n")
    });
    let requests: String = requests.collect();
    parse(&format!(
        "name = \"test\"\ndescribe = \"test\"\n{head}\n{requests}"
    ))
}

fn of<'m>(measurement: &'m BlockMeasurement, name: &str) -> &'m EndpointSamples {
    &measurement.endpoints[name]
}

#[track_caller]
fn only_error(measurement: &BlockMeasurement, kind: ErrorKind, words: &[&str]) {
    let kinds: Vec<ErrorKind> = measurement.errors.keys().copied().collect();
    assert_eq!(
        (measurement.completed, kinds),
        (0, vec![kind]),
        "{:?}",
        measurement.examples
    );
    for word in words {
        let message = &measurement.examples[0].message;
        assert!(message.contains(word), "no {word:?} in {message}");
    }
}

/// Redirects `/{status}/rest` to `/rest`; all else is right.
fn redirecting() -> ClientServer {
    ClientServer::start(|asked| {
        let mut words = asked.target[1..].splitn(2, '/');
        let status = words.next().and_then(|word| word.parse().ok());
        match (status, words.next()) {
            (Some(status), Some(rest)) => {
                std::thread::sleep(Duration::from_millis(20));
                answer(status, &[&format!("Location: /{rest}")], b"moved")
            }
            _ => answer(200, &["content-type: application/json"], OK),
        }
    })
}

#[test]
fn redirects_are_followed_by_the_standard_and_counted() {
    let server = redirecting();
    let plan = scenario(
        "[client]\nredirects_max = 3",
        &[
            "method = \"POST\"\npath = \"/302/done\"\njson = { a = 1 }\nexpect = { status = 200, json = { \"/status\" = { equals = \"ok\" } } }",
            "method = \"POST\"\npath = \"/307/308/done\"\nquery = { q = 1 }\njson = { a = 1 }\nexpect = { status = 200 }",
            "method = \"HEAD\"\npath = \"/303/301/302/done\"\nexpect = { status = 200 }",
        ],
    );
    let measured = run(&plan, &server.url(), &cold(1, 2));
    assert_eq!(
        (measured.completed, measured.offered),
        (6, 6),
        "{:?}",
        measured.examples
    );
    let redirects: Vec<u64> = ["r0", "r1", "r2"]
        .map(|name| of(&measured, name).redirects)
        .into();
    assert_eq!(redirects, [2, 4, 6]);
    let lines = server.lines();
    assert_eq!(
        lines[..9],
        [
            "POST /302/done",
            "GET /done",
            "POST /307/308/done?q=1",
            "POST /308/done?q=1",
            "POST /done?q=1",
            "HEAD /303/301/302/done",
            "HEAD /301/302/done",
            "HEAD /302/done",
            "HEAD /done"
        ]
    );
    let seen = server.seen();
    assert_eq!(
        (seen[1].body.as_str(), seen[1].header("content-type")),
        ("", None)
    );
    assert_eq!(seen[1].header("content-length"), None);
    assert_eq!(
        (seen[4].body.as_str(), seen[4].header("content-type")),
        (r#"{"a":1}"#, Some("application/json"))
    );
    assert!(
        seen[..5].iter().all(|asked| asked.connection == 0),
        "bodies of redirects are read"
    );
    // All hops are in a request's time, from its first byte.
    for (name, hops) in [("r0", 1), ("r1", 2), ("r2", 3)] {
        let samples = of(&measured, name);
        for times in [&samples.response, &samples.service] {
            let least = times.quantile_us(0.0).expect("two requests");
            assert!(least >= hops * 20_000, "{name}: {least}");
        }
    }
}

#[test]
fn redirects_end_somewhere() {
    let server = ClientServer::start(|_| answer(302, &["location: /a?token=hush"], b""));
    let get = "method = \"GET\"\npath = \"/a\"\nexpect = { status = 200 }";
    let plan = scenario("[client]\nredirects_max = 2", &[get]);
    let measured = run(&plan, &server.url(), &cold(1, 1));
    only_error(
        &measured,
        ErrorKind::Status,
        &[
            "more than 2 times",
            "GET /a, 302 to /a, 302 to /a, 302 to /a;",
            "redirects_max",
        ],
    );
    assert!(!measured.examples[0].message.contains("hush"));
    assert_eq!((of(&measured, "r0").redirects, server.seen().len()), (2, 3));

    // Without the scenario's word it is an answer like any other.
    let plan = scenario(
        "",
        &["method = \"GET\"\npath = \"/a\"\nexpect = { status = 302 }"],
    );
    let measured = run(&plan, &server.url(), &cold(1, 1));
    assert_eq!((measured.completed, of(&measured, "r0").redirects), (1, 0));

    let nowhere = ClientServer::start(|_| answer(302, &[], b""));
    let plan = scenario("[client]\nredirects_max = 2", &[get]);
    only_error(
        &run(&plan, &nowhere.url(), &cold(1, 1)),
        ErrorKind::Status,
        &["status 302"],
    );
    let broken = ClientServer::start(|_| answer(302, &["location: http://"], b""));
    only_error(
        &run(&plan, &broken.url(), &cold(1, 1)),
        ErrorKind::Protocol,
        &["Location"],
    );
}

/// Extracted by a user's setup, or drawn: the plan doesn't know them, and a service may write them
/// in another way than we did.
#[test]
fn redirects_tell_no_secrets() {
    for (location, elsewhere) in [("/s/{}", false), ("http://127.0.0.1:1/s/{}", true)] {
        let server = ClientServer::start(move |asked| {
            let secret = asked.target.strip_prefix("/s/").unwrap_or_default();
            match asked.target.as_str() {
                "/token" => answer(200, &["x-token: sekret+/tok="], b""),
                _ => answer(
                    302,
                    &[&format!(
                        "location: {}",
                        location.replace("{}", &secret.to_lowercase())
                    )],
                    b"",
                ),
            }
        });
        for secret in ["token", "drawn"] {
            let plan = scenario(
                "[client]\nredirects_max = 2\n[vars]\ntoken = { optional = true, secret = true }\n\
                 drawn = { random = \"uuid\", secret = true }\n\
                 [[setup]]\nname = \"token\"\nper = \"user\"\nmethod = \"GET\"\npath = \"/token\"\n\
                 extract = { token = { header = \"x-token\", secret = true } }",
                &[&format!(
                    "method = \"GET\"\npath = \"/s/${{{secret}}}\"\nexpect = {{ status = 200 }}"
                )],
            );
            let measured = run(&plan, &server.url(), &cold(1, 2));
            let way = if elsewhere {
                "http://127.0.0.1:1/s/[secret]"
            } else {
                "/s/[secret]"
            };
            let chain = format!("GET /s/[secret], 302 to {way}");
            only_error(&measured, ErrorKind::Status, &[&chain]);
            let sent = server.seen();
            assert!(
                sent.iter()
                    .any(|asked| asked.target.len() > "/s/sekret".len()),
                "{sent:?}"
            );
            assert!(!measured.examples[0].message.contains("sekret"));
        }
    }
}

#[test]
fn load_stays_where_it_was_sent() {
    let other = ClientServer::start(|_| answer(200, &[], b""));
    let location = format!("location: {}/there?code=hush#x", other.url());
    let server = ClientServer::start(move |_| answer(307, &[&location], b""));
    let request = "method = \"POST\"\npath = \"/here\"\nheaders = { authorization = \"Bearer t0ken\", cookie = \"own=1\", x-kept = \"1\" }\njson = { a = 1 }\nexpect = { status = 200 }";
    let plan = scenario("[client]\nredirects_max = 5", &[request]);
    let measured = run(&plan, &server.url(), &cold(1, 1));
    only_error(
        &measured,
        ErrorKind::Status,
        &["would send load to", &other.url(), "[hosts]"],
    );
    assert!(other.seen().is_empty());
    assert!(!measured.examples[0].message.contains("hush"));

    let named = format!(
        "[client]\nredirects_max = 5\n[hosts]\nother = \"{}\"",
        other.url()
    );
    let measured = run(&scenario(&named, &[request]), &server.url(), &cold(1, 2));
    assert_eq!(measured.completed, 2, "{:?}", measured.examples);
    let seen = other.seen();
    assert_eq!(
        (seen[0].target.as_str(), seen[0].body.as_str()),
        ("/there?code=hush", r#"{"a":1}"#)
    );
    assert_eq!(seen[0].header("host"), other.url().strip_prefix("http://"));
    assert_eq!(seen[0].header("x-kept"), Some("1"));
    for credential in ["authorization", "cookie"] {
        assert_eq!(seen[0].header(credential), None);
        assert!(server.seen()[0].header(credential).is_some());
    }
    // One connection to each, beside that of the block before.
    assert!(seen.iter().all(|asked| asked.connection == 0));
    assert!(server.seen()[1..].iter().all(|asked| asked.connection == 1));
}

#[test]
fn each_user_has_a_jar() {
    let server = ClientServer::start(|asked| match asked.target.as_str() {
        "/login" => {
            let session = format!("Set-Cookie: session=secret-of-{}; HttpOnly", asked.body);
            answer(
                303,
                &[
                    "location: /welcome",
                    &session,
                    "set-cookie: lang=en; Path=/me",
                ],
                b"",
            )
        }
        "/welcome" | "/me" => answer(200, &["set-cookie: gone=1; Max-Age=0"], OK),
        // It shows what it must not.
        _ => answer(
            500,
            &[],
            asked.header("cookie").unwrap_or("none").as_bytes(),
        ),
    });
    let plan = scenario(
        "[client]\ncookies = true\nredirects_max = 1\n[[setup]]\nname = \"login\"\nper = \"user\"\nmethod = \"POST\"\npath = \"/login\"\ncontent_type = \"text/plain\"\nbody = \"user-${user}\"\nexpect = { status = 200 }",
        &[
            "method = \"GET\"\npath = \"/me\"\nheaders = { cookie = \"own=1\" }\nexpect = { status = 200 }",
            "method = \"GET\"\npath = \"/broken\"\nexpect = { status = 200 }",
        ],
    );
    let measured = run(&plan, &server.url(), &cold(2, 4));
    assert_eq!(of(&measured, "r0").completed, 4, "{:?}", measured.examples);
    let seen = server.seen();
    let sent = |target: &str| -> BTreeSet<String> {
        let asked = seen.iter().filter(|asked| asked.target == target);
        asked
            .filter_map(|asked| asked.header("cookie").map(str::to_owned))
            .collect()
    };
    let users =
        |text: &str| BTreeSet::from([0, 1].map(|user| text.replace('#', &user.to_string())));
    assert_eq!(sent("/welcome"), users("session=secret-of-user-#"));
    assert_eq!(
        sent("/me"),
        users("own=1; lang=en; session=secret-of-user-#")
    );
    assert_eq!(sent("/broken"), users("session=secret-of-user-#"));
    let message = &measured.examples[0].message;
    assert!(
        message.contains("[secret]") && !message.contains("secret-of"),
        "{message}"
    );

    // Without the scenario's word nothing is kept.
    let plan = scenario(
        "",
        &["method = \"POST\"\npath = \"/login\"\nexpect = { status = 303 }"],
    );
    run(&plan, &server.url(), &cold(1, 2));
    assert_eq!(
        server
            .seen()
            .last()
            .and_then(|asked| asked.header("cookie").map(str::to_owned)),
        None
    );
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text).expect("memory takes it");
    packer.finish().expect("memory takes it")
}

#[test]
fn coded_answers_are_decoded_and_counted_in_both_sizes() {
    let text = format!(
        "{{\"status\":\"ok\",\"text\":\"{}\"}}",
        "abc ".repeat(5_000)
    );
    let (packed, plain) = (gzip(text.as_bytes()), text.clone().into_bytes());
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(text.as_bytes()).expect("memory takes it");
    let zlib = zlib.finish().expect("memory takes it");
    let sizes = [packed.len(), zlib.len(), plain.len()];
    let server = ClientServer::start(move |asked| match asked.target.as_str() {
        "/gzip" => answer(200, &["Content-Encoding: gzip"], &packed),
        "/deflate" => answer(200, &["content-encoding: deflate"], &zlib),
        "/head" => {
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\n".to_vec()
        }
        _ => answer(200, &[], &plain),
    });
    let get = |path: &str| {
        format!(
            "method = \"GET\"\npath = \"{path}\"\nexpect = {{ status = 200, json = {{ \"/status\" = {{ equals = \"ok\" }} }} }}"
        )
    };
    let head = "method = \"HEAD\"\npath = \"/head\"\nexpect = { status = 200 }";
    let requests = ["/gzip", "/deflate", "/plain"].map(get);
    let requests = [&requests[0], &requests[1], &requests[2], head];
    for (client, asks) in [
        ("compression = true", Some("gzip, deflate, br")),
        ("", None),
    ] {
        let before = server.seen().len();
        let measured = run(
            &scenario(&format!("[client]\n{client}"), &requests),
            &server.url(),
            &cold(1, 3),
        );
        assert_eq!(measured.completed, 12, "{:?}", measured.examples);
        for (index, size) in sizes.into_iter().enumerate() {
            let samples = of(&measured, &format!("r{index}"));
            assert_eq!(
                (samples.body_bytes, samples.encoded_bytes),
                (3 * text.len() as u64, 3 * size as u64)
            );
        }
        let seen = server.seen();
        assert!(
            seen[before..]
                .iter()
                .all(|asked| asked.header("accept-encoding") == asks)
        );
    }
}

#[test]
fn bodies_that_are_not_what_they_are_called_are_decode_errors() {
    let server = ClientServer::start(|asked| {
        let packed = gzip(OK);
        let body = match asked.target.as_str() {
            "/cut" => packed[..packed.len() - 9].to_vec(),
            "/spoilt" => [&packed[..packed.len() - 8], &[0; 8]].concat(),
            "/more" => [&packed, &b"more"[..]].concat(),
            "/bomb" => gzip(&vec![b'0'; 40 << 20]),
            "/unknown" => return answer(200, &["content-encoding: zstd"], OK),
            _ => OK.to_vec(),
        };
        answer(200, &["content-encoding: gzip"], &body)
    });
    let read = "expect = { status = 200, json = { \"/status\" = { equals = \"ok\" } } }";
    let counted = "expect = { status = 200 }";
    let measure = |path: &str, expect: &str| {
        let request = format!("method = \"GET\"\npath = \"{path}\"\n{expect}");
        run(&scenario("", &[&request]), &server.url(), &cold(1, 2))
    };
    for (path, words) in [
        ("/cut", "ends in the middle"),
        ("/spoilt", "checksum"),
        ("/more", "more comes behind"),
        ("/plain", "no gzip"),
    ] {
        for expect in [read, counted] {
            only_error(&measure(path, expect), ErrorKind::Decode, &[words]);
        }
    }
    only_error(&measure("/unknown", read), ErrorKind::Decode, &["zstd"]);
    let measured = measure("/unknown", counted);
    assert_eq!(
        (measured.completed, of(&measured, "r0").body_bytes),
        (2, 30)
    );
    // A bomb is kept up to a bound, and counted without one.
    only_error(
        &measure("/bomb", read),
        ErrorKind::CheckFailed,
        &["too long"],
    );
    let measured = measure("/bomb", counted);
    assert_eq!(of(&measured, "r0").body_bytes, 2 * (40 << 20));
    assert!(of(&measured, "r0").encoded_bytes < 1 << 20);
}

#[test]
fn coded_streams_show_each_item_when_it_is_flushed() {
    const ITEMS: usize = 3;
    let server = ClientServer::writing(|_, stream| {
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        let mut packer = GzBuilder::new().write(Vec::new(), Compression::default());
        let mut flush = |packed: &mut Vec<u8>| -> std::io::Result<()> {
            let part = std::mem::take(packed);
            let size = format!("{:x}\r\n", part.len());
            stream.write_all(&[size.as_bytes(), &part, b"\r\n"].concat())
        };
        for item in 0..ITEMS {
            packer.write_all(format!("data: {{\"message\":\"{item}\"}}\n\n").as_bytes())?;
            packer.flush()?;
            flush(packer.get_mut())?;
            std::thread::sleep(Duration::from_millis(40));
        }
        flush(&mut packer.finish()?)?;
        stream.write_all(b"0\r\n\r\n")
    });
    let plan = scenario(
        "[client]\ncompression = true",
        &[
            "method = \"GET\"\npath = \"/\"\nexpect = { status = 200 }\nstream = { decoder = \"sse\", meaningful = { json = \"/message\", is = \"string\" } }",
        ],
    );
    let measured = run(&plan, &server.url(), &cold(1, 2));
    assert_eq!(measured.completed, 2, "{:?}", measured.examples);
    let samples = of(&measured, "r0");
    assert_eq!(
        (samples.items, samples.items_coalesced),
        (2 * ITEMS as u64, 0)
    );
    let first = samples.ttft.as_ref().and_then(|ttft| ttft.quantile_us(0.0));
    let whole = samples.response.quantile_us(0.0);
    assert!(
        first
            .zip(whole)
            .is_some_and(|(first, whole)| first + 80_000 <= whole)
    );
    assert!(samples.encoded_bytes > 0 && samples.encoded_bytes != samples.body_bytes);
}

#[test]
fn a_scenario_may_have_several_hosts() {
    let [target, identity] = [(); 2].map(|()| ClientServer::start(|_| answer(200, &[], OK)));
    let hosts = format!(
        "[hosts]\nidentity = \"{}/base\"\n[[setup]]\nname = \"s\"\nhost = \"identity\"\nmethod = \"GET\"\npath = \"/setup\"\nper = \"run\"\nexpect = {{ status = 200 }}",
        identity.url()
    );
    let plan = scenario(
        &hosts,
        &[
            "method = \"GET\"\npath = \"/a\"\nexpect = { status = 200 }",
            "host = \"identity\"\nmethod = \"GET\"\npath = \"/b\"\nexpect = { status = 200 }",
        ],
    );
    let measured = run(&plan, &target.url(), &cold(2, 6));
    assert_eq!(measured.completed, 12, "{:?}", measured.examples);
    assert_eq!(target.lines(), ["GET /a"; 6]);
    assert_eq!(identity.lines()[0], "GET /base/setup");
    assert_eq!(identity.lines()[1..], ["GET /base/b"; 6]);
    for (server, connections) in [(&target, 2), (&identity, 3)] {
        let used: BTreeSet<usize> = server.seen().iter().map(|asked| asked.connection).collect();
        assert_eq!(used.len(), connections);
        let host = server.seen()[0].header("host").map(str::to_owned);
        assert_eq!(host.as_deref(), server.url().strip_prefix("http://"));
    }

    let wrong = scenario(
        "[hosts]\nidentity = \"unix://run/app.sock\"",
        &["method = \"GET\"\npath = \"/\"\nexpect = { status = 200 }"],
    );
    let error = try_run(&wrong, &target.url(), &cold(1, 1));
    assert!(matches!(error, Err(EngineError::Host(_))), "{error:?}");
}

#[test]
fn connections_are_kept_as_long_as_the_scenario_says() {
    let get = "method = \"GET\"\npath = \"/\"\nexpect = { status = 200 }";
    for (reuse, connections, payers, closes) in [
        ("user", 2, [2, 0, 0], false),
        ("iteration", 6, [6, 0, 0], false),
        ("never", 18, [6, 6, 6], true),
    ] {
        let server = ClientServer::start(|_| answer(200, &[], OK));
        let plan = scenario(&format!("[client]\nreuse = \"{reuse}\""), &[get, get, get]);
        let measured = run(&plan, &server.url(), &cold(2, 6));
        assert_eq!(measured.completed, 18, "{:?}", measured.examples);
        let seen = server.seen();
        let used: BTreeSet<usize> = seen.iter().map(|asked| asked.connection).collect();
        assert_eq!(used.len(), connections, "{reuse}");
        // Who opened one paid for it.
        let paid = ["r0", "r1", "r2"].map(|name| {
            let samples = of(&measured, name);
            samples.tcp.as_ref().map_or(0, |tcp| tcp.count())
        });
        assert_eq!(paid, payers, "{reuse}");
        let says_close = seen
            .iter()
            .all(|asked| asked.header("connection") == Some("close"));
        assert_eq!(says_close, closes, "{reuse}");
    }
}
