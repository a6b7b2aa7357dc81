//! What later requests take from an answer, and that no secret gets into a message on the way.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use unstall_scenarios::check::{CheckFailure, CheckKind, Values};
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan};

fn plan(vars: &str, keys: &str) -> Arc<Plan> {
    let text = format!(
        "name = 'a'\n[vars]\n{vars}\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n{keys}\n"
    );
    Arc::new(Plan::parse(&text, Path::new("a.toml"), &Inputs::default()).unwrap())
}

fn taken(plan: &Arc<Plan>, headers: &[(&str, &[u8])], body: &[u8]) -> Result<Values, CheckFailure> {
    let scope = Scope::new(Arc::clone(plan), 0, 1, 0);
    plan.requests[0].accept(&scope, 200, headers.iter().copied(), body)
}

#[test]
fn headers_give_their_value_or_what_the_regex_takes_of_it() {
    let plan = plan(
        "",
        r"extract = { whole = { header = 'X-Id' }, id = { header = 'location', regex = 'id=(\w+)' }, theme = { header = 'set-cookie', regex = 'theme=([^;]*)' } }",
    );
    assert!(!plan.requests[0].reads_body());
    let headers: [(&str, &[u8]); 5] = [
        ("x-id", b"first"),
        ("X-ID", b"second"),
        ("Location", b"/orders?id=a7&x=1"),
        ("Set-Cookie", b"sid=1; Path=/"),
        ("set-cookie", b"theme=dark; Path=/"),
    ];
    let values = taken(&plan, &headers, b"not json").unwrap();
    assert_eq!(values["whole"], json!("first"));
    assert_eq!(values["id"], json!("a7"));
    assert_eq!(
        values["theme"],
        json!("dark"),
        "of several, the first that fits"
    );

    let failure = taken(&plan, &headers[..2], b"").unwrap_err();
    assert_eq!(failure.kind, CheckKind::Check);
    assert_eq!(
        failure.message,
        r"there is no header `location` that fits the regex id=(\w+), and `id` is taken from it"
    );
}

#[test]
fn a_regex_takes_from_texts_and_from_json_values() {
    let plan = plan(
        "",
        r#"extract = { csrf = { regex = 'name="csrf" value="([^"]+)"' }, year = { json = '/at', regex = '^\d{4}' } }"#,
    );
    assert!(plan.requests[0].reads_body());
    let body = br#"{"at": "2025-01-31", "html": "<input>", "x": "name=\"csrf\""}"#;
    let failure = taken(&plan, &[], body).unwrap_err();
    assert!(
        failure
            .message
            .starts_with("the body has nothing that fits the regex"),
        "{failure}"
    );

    let plan = self::plan(
        "",
        r#"extract = { csrf = { regex = 'csrf" value="([^"]+)"' } }"#,
    );
    let body = b"<input name=\"csrf\" value=\"t0k\">\xff";
    assert_eq!(taken(&plan, &[], body).unwrap()["csrf"], json!("t0k"));

    let plan = self::plan(
        "",
        r"extract = { year = { json = '/at', regex = '^\d{4}' }, n = { json = '/n', regex = '\d' } }",
    );
    let values = taken(&plan, &[], br#"{"at": "2025-01-31", "n": 73}"#).unwrap();
    assert_eq!(
        (&values["year"], &values["n"]),
        (&json!("2025"), &json!("7"))
    );
    let failure = taken(&plan, &[], br#"{"at": "soon", "n": 1}"#).unwrap_err();
    assert_eq!(
        failure.message,
        r#"`/at` is nothing that fits the regex ^\d{4}, and `year` is taken from it; answer: {"at": "soon", "n": 1}"#
    );
}

#[test]
fn items_give_the_first_or_the_last_value() {
    let plan = plan(
        "",
        "stream = { decoder = 'sse' }\nextract = { id = { item = '/id' }, last = { item = '/text', which = 'last' }, word = { item = '/text', regex = 'w(.)' } }",
    );
    let request = &plan.requests[0];
    assert!(request.takes_items());
    let mut values = Values::new();
    for item in [
        r#"{"role": "assistant"}"#,
        r#"{"id": "m-1", "text": "a"}"#,
        "[DONE]",
        r#"{"id": "m-2", "text": "wz"}"#,
        r#"{"text": null, "other": 1}"#,
    ] {
        request.take_item(item.as_bytes(), &mut values);
    }
    assert_eq!(values["id"], json!("m-1"));
    assert_eq!(values["last"], json!(null));
    assert_eq!(values["word"], json!("z"));
    request.check_taken(&values).unwrap();

    values.remove("word");
    let failure = request.check_taken(&values).unwrap_err();
    assert_eq!(
        failure.message,
        "no item has `/text` that fits the regex w(.), and `word` is taken from it"
    );
}

#[test]
fn what_every_alternative_extracts_is_there_whichever_is_sent() {
    let text = |second: &str| {
        format!(
            "name = 'a'\n\
             [[request]]\nname = 'a'\nweight = 1\nmethod = 'GET'\npath = '/a'\nextract = {{ id = {{ json = '/id' }}, only = {{ json = '/o' }} }}\n\
             [[request]]\nname = 'b'\nweight = 1\nmethod = 'GET'\npath = '/b'\nextract = {{ id = {{ header = 'x-id' }} }}\n\
             [[request]]\nname = 'c'\nmethod = 'GET'\npath = '/{second}'\n"
        )
    };
    let parse = |text: &str| Plan::parse(text, Path::new("a.toml"), &Inputs::default());
    parse(&text("${id}")).unwrap();
    let error = parse(&text("${only}")).unwrap_err().to_string();
    assert!(
        error.contains("a.toml:17:") || error.contains("`weight`"),
        "{error}"
    );
}

/// Every message that an answer's failure can give, for a plan whose secrets an answer brought.
#[test]
fn an_answer_that_repeats_a_runs_secret_is_quoted_without_it() {
    let text = r#"
name = "a"
[vars]
password = { random = "text", length = 12, secret = true }
[[setup]]
method = "POST"
path = "/login"
extract = { session = { header = "set-cookie", regex = "sid=([^;]+)", secret = true } }
[[request]]
name = "whole"
method = "POST"
path = "/"
form = { password = "${password}" }
expect = { headers = { location = "/ok" } }
[[request]]
name = "stream"
method = "GET"
path = "/s"
stream = { decoder = "ndjson" }
expect = { each = { json = { "/ok" = "boolean" } } }
"#;
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &Inputs::default()).unwrap());
    let mut scope = Scope::new(Arc::clone(&plan), 0, 1, 9);
    let headers: [(&str, &[u8]); 1] = [("set-cookie", b"sid=hush-1; Path=/")];
    let values = plan.setup[0]
        .request
        .accept(&scope, 200, headers, b"")
        .unwrap();
    scope.prepare(values);
    scope.begin_iteration(0);
    let sent = plan.requests[0].render(&scope).unwrap();
    let password = String::from_utf8(sent.body)
        .unwrap()
        .replace("password=", "");

    let answer = format!(r#"{{"detail": "hush-1 and {password} are wrong"}}"#);
    let failure = plan.requests[0]
        .accept(&scope, 422, [], answer.as_bytes())
        .unwrap_err();
    assert_eq!(
        failure.message,
        r#"status 422, expected 200–299; answer: {"detail": "[secret] and [secret] are wrong"}"#
    );
    let location = format!("/login?next=hush-1&p={password}");
    let failure = plan.requests[0]
        .accept(&scope, 200, [("location", location.as_bytes())], b"")
        .unwrap_err();
    assert_eq!(
        failure.message,
        "header `location` is `/login?next=[secret]&p=[secret]`, expected `/ok`"
    );
    // Without the scope nothing of the answer is shown.
    let expect = &plan.requests[0].expect;
    let failure = expect.check(422, [], answer.as_bytes()).unwrap_err();
    assert_eq!(failure.message, "status 422, expected 200–299");
    let failure = expect
        .check(200, [("location", location.as_bytes())], b"")
        .unwrap_err();
    assert_eq!(
        failure.message,
        "header `location` is something else, expected `/ok`"
    );
    let item = format!(r#"{{"ok": "{password} hush-1"}}"#);
    for item in [item.as_str(), "hush-1"] {
        let failure = plan.requests[1]
            .accept_item(item.as_bytes(), true)
            .unwrap_err();
        assert!(!failure.message.contains("hush-1"), "{failure}");
        assert!(!failure.message.contains(&password), "{failure}");
    }
    let debug = format!("{plan:?} {scope:?}");
    assert!(
        !debug.contains("hush-1") && !debug.contains(&password),
        "{debug}"
    );
}

#[test]
fn an_answer_with_a_secret_to_extract_is_never_quoted() {
    for extract in [
        "{ header = 'x-token', regex = 't=(.+)' }",
        "{ regex = 't=(.+);' }",
        "{ json = '/token', regex = 't=(.+);' }",
    ] {
        let plan = plan(
            "token = { optional = true, secret = true }",
            &format!(
                "extract = {{ token = {extract} }}\nexpect = {{ headers = {{ x-token = 'none' }} }}"
            ),
        );
        let body = br#"{"token": "hush"}"#;
        for (status, headers) in [
            (200, &[("x-token", b"hush".as_slice())][..]),
            (500, &[]),
            (200, &[("x-token", b"none")]),
        ] {
            let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
            let failure = plan.requests[0]
                .accept(&scope, status, headers.iter().copied(), body)
                .unwrap_err();
            assert!(!failure.message.contains("hush"), "{extract}: {failure}");
        }
    }
}

#[test]
fn headers_of_credentials_are_in_no_message() {
    let plan = plan(
        "",
        "expect = { headers = { set-cookie = 'sid=*; secure' } }",
    );
    let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    let headers: [(&str, &[u8]); 1] = [("set-cookie", b"sid=hush")];
    let failure = plan.requests[0]
        .accept(&scope, 200, headers, b"")
        .unwrap_err();
    assert_eq!(
        failure.message,
        "header `set-cookie` is something else, expected `sid=*; secure`"
    );
}

#[test]
fn a_hosts_url_keeps_its_secrets() {
    let text = "name = 'a'\n[vars]\ntenant = { env = 'TENANT', secret = true }\n\
                [hosts]\nh = '${tenant}'\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\nhost = 'h'\n";
    let parse = |tenant: &str| {
        let mut inputs = Inputs::default();
        inputs.environment.insert("TENANT".into(), tenant.into());
        Plan::parse(text, Path::new("a.toml"), &inputs)
    };
    let plan = parse("http://hush.example").unwrap();
    assert_eq!(plan.redact(&plan.hosts["h"]), "[secret]");
    for wrong in [
        "hush",
        "http://user:hush@a.example",
        "http://hush.example/?a",
        "http://hush .example",
    ] {
        let error = parse(wrong).unwrap_err().to_string();
        assert!(
            !error.contains("hush") && error.contains("a.toml:5:5"),
            "{error}"
        );
    }
    let error = Plan::parse(
        "name = 'a'\n[hosts]\nh = 'http://user:hush@a.example'\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n",
        Path::new("a.toml"),
        &Inputs::default(),
    );
    let error = error.unwrap_err().to_string();
    assert!(!error.contains("hush"), "{error}");
}

#[test]
fn secret_choices_are_hidden_everywhere() {
    let plan = plan(
        "pin = { random = 'choice', of = ['hush-1', 'hush-2'], secret = true }",
        "query = { pin = '${pin}' }",
    );
    assert_eq!(
        plan.redact("hush-1 hush-2 hush-3"),
        "[secret] [secret] hush-3"
    );
    assert!(!format!("{plan:?}").contains("hush"), "{plan:?}");
}
