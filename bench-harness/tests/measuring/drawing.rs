//! What the engine does with weights, drawn pauses and values, and what it takes from headers, texts
//! and a stream's items: told by a server that answers with what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use unstall_bench_harness::engine::{BlockSpec, OpenLoad};
use unstall_results::record::ErrorKind;

use crate::support::{cold, parse, run, try_run};

/// One request as it came: its target, and its body.
type Asked = (String, String);

/// Answers with the target: in a header, and in the body as HTML, or as events below `/events`.
fn start() -> (String, mpsc::Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(&stream, &sender));
        }
    });
    (url, asked)
}

/// Until the client leaves, or nobody listens any more.
fn serve(mut stream: &TcpStream, asked: &mpsc::Sender<Asked>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut target, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
            if target.is_empty() {
                target = line.split(' ').nth(1).expect("a request line").to_owned();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).expect("the tests send text");
        stream.write_all(answer(&target).as_bytes()).ok()?;
        asked.send((target, body)).ok()?;
    }
}

fn answer(target: &str) -> String {
    let body = if target.starts_with("/events") {
        format!(
            "data: {{\"id\": \"{target}\"}}\n\ndata: {{\"id\": \"late\", \"text\": \"end\"}}\n\n"
        )
    } else {
        format!("<input name=\"csrf\" value=\"t{}\">", target.len())
    };
    format!(
        "HTTP/1.1 200 OK\r\nlocation: /next?id={}\r\ncontent-length: {}\r\n\r\n{body}",
        target.len(),
        body.len()
    )
}

#[test]
fn weights_share_the_iterations_alike_in_both_versions() {
    let plan = parse(
        "name = 'test'\n\
         [[request]]\nname = 'often'\nweight = 3\nmethod = 'GET'\npath = '/often'\n\
         [[request]]\nname = 'seldom'\nweight = 1\nmethod = 'GET'\npath = '/seldom'\n\
         [[request]]\nname = 'always'\nmethod = 'GET'\npath = '/always'\n",
    );
    let mut counts = Vec::new();
    for _version in 0..2 {
        let (url, asked) = start();
        let spec = BlockSpec {
            seed: 5,
            ..cold(4, 100)
        };
        let block = run(&plan, &url, &spec);
        // So many iterations, of which each sends one alternative.
        assert_eq!((block.offered, block.completed), (200, 200));
        let completed = |name: &str| block.endpoints[name].completed;
        assert_eq!(completed("always"), 100);
        assert_eq!(completed("often") + completed("seldom"), 100);
        let mut asked_for: BTreeMap<String, u64> = BTreeMap::new();
        for (target, _) in asked.try_iter() {
            *asked_for.entry(target).or_default() += 1;
        }
        assert_eq!(asked_for["/often"], completed("often"));
        assert_eq!(asked_for["/seldom"], completed("seldom"));
        counts.push(asked_for);
    }
    assert_eq!(counts[0], counts[1]);
    assert!((60..=90).contains(&counts[0]["/often"]), "{counts:?}");
}

/// Which user serves an arrival is a matter of luck, and what it is asked for is not.
#[test]
fn arrivals_draw_alike_in_both_versions() {
    let plan = parse(
        "name = 'test'\n[vars]\nid = { random = 'uuid' }\n\
         [[request]]\nname = 'a'\nweight = 1\nmethod = 'GET'\npath = '/a/${id}'\n\
         [[request]]\nname = 'b'\nweight = 1\nmethod = 'GET'\npath = '/b/${id}'\n\
         [[request]]\nname = 'c'\nmethod = 'GET'\npath = '/c/${id}'\n",
    );
    let mut all = Vec::new();
    for _version in 0..2 {
        let (url, asked) = start();
        let spec = BlockSpec {
            seed: 5,
            warmup: cold(1, 1).warmup,
            ..BlockSpec::open(OpenLoad::constant(200.0, Duration::from_millis(300)))
        };
        let block = run(&plan, &url, &spec);
        let (a, b) = (&block.endpoints["a"], &block.endpoints["b"]);
        assert_eq!(a.completed + b.completed, block.endpoints["c"].completed);
        assert!(a.completed > 0 && b.completed > 0, "{block:?}");
        let asked: BTreeSet<String> = asked.try_iter().map(|(target, _)| target).collect();
        assert_eq!(
            asked.len() as u64,
            block.completed,
            "each has an id of its own"
        );
        all.push(asked);
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn answers_give_what_later_requests_send() {
    let plan = parse(
        r#"
name = "test"
[vars]
order = { random = "uuid" }
[[request]]
name = "page"
method = "GET"
path = "/page/${order}"
extract = { id = { header = "Location", regex = 'id=(\d+)' }, csrf = { regex = 'value="([^"]+)"' } }
[[request]]
name = "events"
method = "GET"
path = "/events"
stream = { decoder = "sse" }
extract = { first = { item = "/id" }, last = { item = "/id", which = "last" }, next = { header = "location" } }
[[request]]
name = "post"
method = "POST"
path = "/post/${order}"
json = ["${id}", "${csrf}", "${first}", "${last}", "${next}"]
think = { min = "1ms", max = "2ms" }
"#,
    );
    let (url, asked) = start();
    let block = run(&plan, &url, &cold(1, 2));
    assert_eq!(block.completed, 6, "{:?}", block.examples);
    let asked: Vec<Asked> = asked.try_iter().collect();
    let mut orders = Vec::new();
    for iteration in asked.chunks(3) {
        let page = iteration[0]
            .0
            .strip_prefix("/page/")
            .expect("the first request");
        assert_eq!(page.len(), 36);
        assert_eq!(iteration[2].0, format!("/post/{page}"));
        assert_eq!(
            iteration[2].1,
            r#"["42","t42","/events","late","/next?id=7"]"#
        );
        orders.push(page);
    }
    assert_ne!(orders[0], orders[1], "each iteration draws its own");
}

#[test]
fn what_isn_t_there_to_take_is_a_failed_check() {
    let (url, _asked) = start();
    for (name, extract, message) in [
        (
            "none",
            "a = { header = 'x-none' }",
            "there is no header `x-none`",
        ),
        (
            "regex",
            "a = { regex = 'nothing (.*)' }",
            "the body has nothing that fits",
        ),
        ("events", "a = { item = '/none' }", "no item has `/none`"),
    ] {
        let stream = if name == "events" {
            "stream = { decoder = 'sse' }"
        } else {
            ""
        };
        let plan = parse(&format!(
            "name = 'test'\n[[request]]\nname = 'it'\nmethod = 'GET'\npath = '/{name}'\n\
             extract = {{ {extract} }}\n{stream}\n"
        ));
        let block = run(&plan, &url, &cold(1, 2));
        assert_eq!(
            block.errors,
            BTreeMap::from([(ErrorKind::CheckFailed, 2)]),
            "{name}"
        );
        assert!(
            block.examples[0].message.contains(message),
            "{:?}",
            block.examples
        );
    }
}

/// Whatever goes wrong with them, neither secrets that answers brought nor drawn ones are told.
#[test]
fn secrets_of_a_run_are_in_no_example_and_in_no_setup_failure() {
    let (url, asked) = start();
    let plan = parse(
        r#"
name = "test"
[vars]
pin = { random = "text", length = 12, secret = true }
session = { optional = true, secret = true }
[[setup]]
per = "user"
method = "GET"
path = "/login/a-long-name"
extract = { session = { regex = 'value="([^"]+)"' } }
[[request]]
name = "it"
method = "GET"
path = "/${pin}/${session}"
expect = { status = 201 }
"#,
    );
    let block = run(&plan, &url, &cold(1, 1));
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Status, 1)]));
    let asked: Vec<Asked> = asked.try_iter().collect();
    assert_eq!(asked[0].0, "/login/a-long-name");
    let (_, path) = asked[1].0.split_at(1);
    let (pin, session) = path.split_once('/').expect("both");
    assert_eq!((pin.len(), session), (12, "t18"));
    let told = format!("{:?}", block.examples);
    assert!(told.contains("status 200, expected 201"), "{told}");
    assert!(!told.contains(pin) && !told.contains("t18"), "{told}");

    // An answer from which a secret was to be taken is not shown when that fails.
    let plan = parse(
        r#"
name = "test"
[[setup]]
method = "GET"
path = "/login/a-long-name"
extract = { session = { regex = 'none="([^"]+)"', secret = true } }
[[request]]
name = "it"
method = "GET"
path = "/"
"#,
    );
    let error = try_run(&plan, &url, &cold(1, 1)).expect_err("the setup fails");
    let told = error.to_string();
    assert!(told.contains("`session` is taken from it"), "{told}");
    assert!(!told.contains("t18"), "{told}");
}
