//! What is sent: variables, their places and types, feeders, and what is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use unstall_scenarios::check::{CheckFailure, Values};
use unstall_scenarios::plan::Request;
use unstall_scenarios::render::{RenderedRequest, Variation};
use unstall_scenarios::scope::{RenderError, Scope};
use unstall_scenarios::{Inputs, Plan};

/// A plan of one POST request with these variables and these further keys.
fn plan(vars: &str, keys: &str) -> Arc<Plan> {
    let text =
        format!("name = 'a'\n[vars]\n{vars}\n[[request]]\nname = 'r'\nmethod = 'POST'\n{keys}\n");
    Arc::new(Plan::parse(&text, Path::new("tests/inline.toml"), &Inputs::default()).unwrap())
}

fn render(plan: &Arc<Plan>, user: u32) -> RenderedRequest {
    let scope = Scope::new(Arc::clone(plan), user, 4, 9);
    plan.requests[0].render(&scope).unwrap()
}

/// What a request takes from a right answer.
fn extract(request: &Request, scope: &Scope, body: &[u8]) -> Result<Values, CheckFailure> {
    request.accept(scope, 200, [], body)
}

fn body(rendered: RenderedRequest) -> String {
    String::from_utf8(rendered.body).unwrap()
}

#[test]
fn a_variable_alone_keeps_its_type_in_json() {
    let plan = plan(
        "n = 5\nf = 0.5\nb = true\ns = 'a\"b'",
        "path = '/'\njson = { n = '${n}', f = '${f}', b = '${b}', s = '${s}', text = '${n}-${s}', user = '${user}' }",
    );
    let sent: serde_json::Value = serde_json::from_slice(&render(&plan, 3).body).unwrap();
    let expected = json!({
        "n": 5, "f": 0.5, "b": true, "s": "a\"b", "text": "5-a\"b", "user": 3,
    });
    assert_eq!(sent, expected);
}

#[test]
fn values_from_outside_take_the_type_of_what_they_replace() {
    let text = "name = 'a'\n[vars]\nn = 5\nt = { env = 'T', default = 'x' }\n[[request]]\nname = 'r'\nmethod = 'POST'\npath = '/'\njson = ['${n}', '${t}']\n";
    let inputs = Inputs {
        overrides: BTreeMap::from([("n".into(), "6".into())]),
        environment: BTreeMap::from([("T".into(), "7".into())]),
    };
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
    assert_eq!(body(render(&plan, 0)), r#"[6,"7"]"#);
}

#[test]
fn overrides_win_over_the_environment_and_it_over_the_default() {
    let text = "name = 'a'\n[vars]\nt = { env = 'T', default = 'default' }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${t}'\n";
    let path = |overrides: &[&str], environment: &[&str]| {
        let named = |name: &str, values: &[&str]| {
            let values = values.iter();
            values
                .map(|value| (name.to_owned(), (*value).to_owned()))
                .collect()
        };
        let inputs = Inputs {
            overrides: named("t", overrides),
            environment: named("T", environment),
        };
        let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
        render(&plan, 0).path_and_query
    };
    assert_eq!(path(&[], &[]), "/default");
    assert_eq!(path(&[], &[""]), "/default");
    assert_eq!(path(&[], &["environment"]), "/environment");
    assert_eq!(path(&["override"], &["environment"]), "/override");
    // What comes from outside is never read as a template.
    assert_eq!(path(&["${user}"], &[]), "/%24%7Buser%7D");
}

#[test]
fn each_place_is_encoded_by_its_own_rules() {
    let vars = "v = 'a b/ö&='";
    let keys = "path = '/x y/${v}'\nquery = { q = '${v}', n = 1, t = true }";
    let sent = render(
        &plan(vars, &format!("{keys}\nform = {{ 'f 1' = '${{v}}' }}")),
        0,
    );
    assert_eq!(
        sent.path_and_query,
        "/x%20y/a%20b%2F%C3%B6%26%3D?q=a%20b%2F%C3%B6%26%3D&n=1&t=true"
    );
    assert_eq!(
        sent.headers,
        [(
            "content-type".to_owned(),
            "application/x-www-form-urlencoded".to_owned()
        )]
    );
    assert_eq!(body(sent), "f+1=a+b%2F%C3%B6%26%3D");
}

#[test]
fn multipart_avoids_a_boundary_that_a_value_has() {
    let plan = plan(
        "v = 'x unstall-boundary-0 y'",
        "path = '/'\nmultipart = { a = '${v}', b = 2 }",
    );
    let sent = render(&plan, 0);
    assert_eq!(
        sent.headers[0].1,
        "multipart/form-data; boundary=unstall-boundary-1"
    );
    assert_eq!(
        body(sent),
        "--unstall-boundary-1\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx unstall-boundary-0 y\r\n\
         --unstall-boundary-1\r\ncontent-disposition: form-data; name=\"b\"\r\n\r\n2\r\n--unstall-boundary-1--\r\n"
    );
}

#[test]
fn multipart_sends_files_as_they_are_and_repeats_parts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), b"\x00\xff unstall-boundary-0").unwrap();
    let text = r#"
name = "a"
[[request]]
name = "r"
method = "POST"
path = "/"
multipart = { f = [{ file = "a.bin", content_type = "image/png" }, { file = "a.bin", filename = "b\"\r\n" }], t = [1, "${user}", { text = "{}", content_type = "application/json" }] }
"#;
    let path = folder.path().join("a.toml");
    std::fs::write(&path, text).unwrap();
    let plan = Arc::new(Plan::load(&path, &Inputs::default()).unwrap());
    let sent = render(&plan, 3);
    let boundary = "unstall-boundary-1";
    let part = |head: &str, content: &[u8]| {
        let head = format!("--{boundary}\r\ncontent-disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    };
    let file = b"\x00\xff unstall-boundary-0";
    let expected = [
        part(
            "name=\"f\"; filename=\"a.bin\"\r\ncontent-type: image/png",
            file,
        ),
        part(
            "name=\"f\"; filename=\"b%22%0D%0A\"\r\ncontent-type: application/octet-stream",
            file,
        ),
        part("name=\"t\"", b"1"),
        part("name=\"t\"", b"3"),
        part("name=\"t\"\r\ncontent-type: application/json", b"{}"),
        format!("--{boundary}--\r\n").into_bytes(),
    ];
    assert_eq!(sent.body, expected.concat());
    assert_eq!(
        sent.headers[0].1,
        format!("multipart/form-data; boundary={boundary}")
    );
}

#[test]
fn what_needs_only_absent_variables_is_left_out() {
    let plan = plan(
        "none = { optional = true }",
        "path = '/'\nquery = { a = '${none}', b = 1 }\nheaders = { X-A = 'Bearer ${none}', x-b = '2' }\nform = { a = '${none}', b = 3 }",
    );
    let sent = render(&plan, 0);
    assert_eq!(sent.path_and_query, "/?b=1");
    assert_eq!(sent.headers[0], ("x-b".to_owned(), "2".to_owned()));
    assert_eq!(sent.headers.len(), 2);
    assert_eq!(body(sent), "b=3");
}

#[test]
fn a_requests_own_header_wins_over_the_default_and_content_type_may_be_set() {
    let text = "name = 'a'\n[defaults]\nheaders = { Accept = 'a', x-kept = '1' }\n[[request]]\nname = 'r'\nmethod = 'POST'\npath = '/'\nheaders = { accept = 'b', Content-Type = 'application/vnd.api+json' }\njson = []\n";
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &Inputs::default()).unwrap());
    let headers = render(&plan, 0).headers;
    let shown: Vec<String> = headers.iter().map(|(n, v)| format!("{n}: {v}")).collect();
    assert_eq!(
        shown,
        [
            "x-kept: 1",
            "accept: b",
            "content-type: application/vnd.api+json"
        ]
    );
}

#[test]
fn a_header_value_that_would_break_the_message_is_refused() {
    let text = "name = 'a'\n[vars]\nv = { env = 'V' }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\nheaders = { x-v = '${v}' }\n";
    let inputs = Inputs {
        overrides: BTreeMap::new(),
        environment: BTreeMap::from([("V".into(), "1\r\nhost: elsewhere".into())]),
    };
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
    let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    assert_eq!(
        plan.requests[0].render(&scope),
        Err(RenderError::Header { name: "x-v".into() })
    );
}

#[test]
fn extracted_values_last_an_iteration_and_the_setups_the_run() {
    let text = r#"
name = "a"
[vars]
id = { optional = true }
[[setup]]
per = "user"
unless = "id"
method = "POST"
path = "/ids"
extract = { id = { json = "/id" } }
[[request]]
name = "first"
method = "GET"
path = "/${id}"
extract = { next = { json = "/next" } }
[[request]]
name = "second"
method = "GET"
path = "/${id}/${next}"
"#;
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &Inputs::default()).unwrap());
    let mut scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    assert!(!scope.skips(&plan.setup[0]));
    scope.prepare(extract(&plan.setup[0].request, &scope, br#"{"id": 7}"#).unwrap());
    assert!(scope.skips(&plan.setup[0]));
    scope.begin_iteration(0);
    scope.answer(extract(&plan.requests[0], &scope, br#"{"next": "n"}"#).unwrap());
    let target = |scope: &Scope| plan.requests[1].render(scope).map(|r| r.path_and_query);
    assert_eq!(target(&scope), Ok("/7/n".to_owned()));
    scope.begin_iteration(1);
    assert_eq!(
        target(&scope),
        Err(RenderError::NoValue {
            name: "next".into()
        })
    );
    assert_eq!(plan.requests[0].variation(&plan), Variation::User);
    assert_eq!(plan.requests[1].variation(&plan), Variation::Iteration);
}

/// The rows that users draw over some iterations, in the order of their turns.
fn rows(pick: &str, seed: u64, users: u32, iterations: u64) -> Vec<String> {
    let vars = format!("id = {{ file = 'feeders/rows.jsonl', column = 'id', pick = '{pick}' }}");
    let plan = plan(&vars, "path = '/${id}'");
    let mut drawn = Vec::new();
    for iteration in 0..iterations {
        for user in 0..users {
            let mut scope = Scope::new(Arc::clone(&plan), user, users, seed);
            scope.begin_iteration(iteration);
            drawn.push(plan.requests[0].render(&scope).unwrap().path_and_query);
        }
    }
    drawn
}

#[test]
fn feeders_pick_rows_as_told() {
    assert_eq!(
        rows("round-robin", 1, 2, 3),
        ["/x", "/2", "/true", "/x", "/2", "/true"]
    );
    assert_eq!(
        rows("per-user", 1, 4, 2),
        ["/x", "/2", "/true", "/x", "/x", "/2", "/true", "/x"]
    );
    let random = rows("random", 1, 10, 10);
    assert_eq!(random, rows("random", 1, 10, 10));
    assert_ne!(random, rows("random", 2, 10, 10));
    assert_eq!(random.iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn columns_of_one_file_stay_on_one_row() {
    let plan = plan(
        "id = { file = 'feeders/rows.csv', column = 'id' }\ntext = { file = 'feeders/rows.csv', column = 'text' }",
        "path = '/'\njson = ['${id}', '${text}']",
    );
    assert_eq!(body(render(&plan, 0)), r#"["1","a"]"#);
    assert_eq!(body(render(&plan, 1)), r#"["2","b, c"]"#);
}

#[test]
fn a_secret_from_the_environment_may_have_a_default_that_anybody_can_guess() {
    let text = "name = 'a'\n[vars]\nt = { env = 'T', default = 'dev-${user}', secret = true }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${t}'\n";
    let sent = |environment: BTreeMap<String, String>| {
        let inputs = Inputs {
            overrides: BTreeMap::new(),
            environment,
        };
        let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
        let path = render(&plan, 3).path_and_query;
        (plan.redact(&path).into_owned(), path)
    };
    let both = |redacted: &str, path: &str| (redacted.to_owned(), path.to_owned());
    assert_eq!(sent(BTreeMap::new()), both("/dev-3", "/dev-3"));
    assert_eq!(
        sent(BTreeMap::from([("T".into(), "hush".into())])),
        both("/[secret]", "/hush")
    );
}

#[test]
fn secrets_are_in_no_debug_text_and_redacted_elsewhere() {
    let text = "name = 'a'\n[vars]\nt = { env = 'T', secret = true }\nf = { file = 'feeders/rows.csv', column = 'text', secret = true }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${f}'\nheaders = { authorization = 'Bearer ${t}' }\nextract = { session = { json = '/s', secret = true } }\n";
    let inputs = Inputs {
        overrides: BTreeMap::new(),
        environment: BTreeMap::from([("T".into(), "hush hush".into())]),
    };
    let plan = Arc::new(Plan::parse(text, Path::new("tests/a.toml"), &inputs).unwrap());
    let mut scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    scope.answer(extract(&plan.requests[0], &scope, br#"{"s": "mum"}"#).unwrap());
    let rendered = plan.requests[0].render(&scope).unwrap();
    let debug = format!("{plan:?} {scope:?} {rendered:?} {inputs:?}");
    for secret in ["hush", "mum", "b, c"] {
        assert!(!debug.contains(secret), "{debug}");
    }
    assert_eq!(
        scope.redact("x=hush%20hush y=mum z=b, c"),
        "x=[secret] y=[secret] z=[secret]"
    );
    // The answer holds the session: no message quotes it.
    let failure = extract(&plan.requests[0], &scope, br#"{"session": "mum"}"#).unwrap_err();
    assert!(!failure.message.contains("mum"), "{failure}");
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    bytes
}

proptest! {
    #[test]
    fn any_value_survives_every_place(value in "\\PC{0,30}|[\\x00-\\x7f]{0,30}") {
        prop_assume!(!value.is_empty());
        let text = "name = 'a'\n[vars]\nv = { default = '' }\n[[request]]\nname = 'r'\nmethod = 'POST'\npath = '/${v}'\nquery = { q = '${v}' }\njson = ['${v}', '<${v}>']\n";
        let inputs = Inputs {
            overrides: BTreeMap::from([("v".into(), value.clone())]),
            environment: BTreeMap::new(),
        };
        let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
        let sent = render(&plan, 0);
        let target = sent.path_and_query.strip_prefix('/').unwrap();
        prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic()));
        let (path, query) = target.split_once("?q=").unwrap();
        prop_assert_eq!(decoded(path), value.as_bytes());
        prop_assert_eq!(decoded(query), value.as_bytes());
        let json: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
        prop_assert_eq!(json, json!([value, format!("<{value}>")]));
    }
}
