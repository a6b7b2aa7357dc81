//! The functional check of answers: which part fails, and what the message says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use unstall_scenarios::check::{CheckFailure, CheckKind, Values};
use unstall_scenarios::plan::Request;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan, catalogue};

const JSON: [(&str, &[u8]); 1] = [("content-type", b"application/json; charset=utf-8")];

fn request(expect: &str) -> Request {
    let text = format!(
        "name = 'a'\n[vars]\nt = {{ env = 'T', secret = true }}\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n{expect}\n"
    );
    let inputs = Inputs {
        overrides: BTreeMap::new(),
        environment: BTreeMap::from([("T".into(), "hush".into())]),
    };
    let plan = Plan::parse(&text, Path::new("a.toml"), &inputs).unwrap();
    plan.requests.into_iter().next().unwrap()
}

/// As a user accepts an answer, with a scope that knows no secret of its own.
fn accept(request: &Request, status: u16, body: &[u8]) -> Result<Values, CheckFailure> {
    let text = "name = 'a'\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n";
    let plan = Plan::parse(text, Path::new("a.toml"), &Inputs::default()).unwrap();
    let scope = Scope::new(Arc::new(plan), 0, 1, 0);
    request.accept(&scope, status, JSON, body)
}

fn failure(request: &Request, status: u16, body: &[u8]) -> CheckFailure {
    let failure = request.expect.check(status, JSON, body).unwrap_err();
    // Both doors say the same.
    assert_eq!(accept(request, status, body), Err(failure.clone()));
    failure
}

#[test]
fn without_expect_any_2xx_passes_and_the_body_is_not_read() {
    let request = request("");
    assert_eq!(request.expect.check(204, JSON, b"no json"), Ok(()));
    assert_eq!(accept(&request, 200, b""), Ok(BTreeMap::new()));
    let failed = failure(&request, 404, br#"{"detail": "hush, not here"}"#);
    assert_eq!(failed.kind, CheckKind::Status);
    assert_eq!(
        failed.message,
        r#"status 404, expected 200–299; answer: {"detail": "[secret], not here"}"#
    );
}

#[test]
fn the_first_wrong_part_is_named() {
    let request = request(
        "expect = { status = [200, 201], headers = { Content-Type = 'application/json*' }, json = { '/id' = 'integer', '/name' = 'non-empty' } }",
    );
    assert_eq!(
        request
            .expect
            .check(201, JSON, br#"{"id": 1, "name": "n"}"#),
        Ok(())
    );
    let message = |status, body: &[u8]| failure(&request, status, body).message;
    assert_eq!(message(500, b""), "status 500, expected 200 or 201");
    assert_eq!(
        message(200, br#"{"id": "1"}"#),
        r#"`/id` is a string, expected integer; answer: {"id": "1"}"#
    );
    assert_eq!(
        message(200, br#"{"id": 1}"#),
        r#"`/name` is missing, expected a non-empty string or array; answer: {"id": 1}"#
    );
    assert_eq!(failure(&request, 200, b"<html>").kind, CheckKind::Decode);
    assert_eq!(
        failure(&request, 200, b"").message,
        "the body is empty, expected JSON"
    );
    let plain = [("content-type", b"text/plain".as_slice())];
    let failed = request.expect.check(200, plain, b"").unwrap_err();
    assert_eq!(failed.kind, CheckKind::Check);
    assert_eq!(
        failed.message,
        "header `content-type` is `text/plain`, expected `application/json*`"
    );
    let failed = request.expect.check(200, [], b"").unwrap_err();
    assert_eq!(
        failed.message,
        "header `content-type` is missing, expected `application/json*`"
    );
}

#[test]
fn a_repeated_header_passes_if_one_of_its_values_does() {
    let request = request("expect = { headers = { x = 'b' } }");
    let twice = [("X", b"a".as_slice()), ("x", b"b".as_slice())];
    assert_eq!(request.expect.check(200, twice, b""), Ok(()));
}

#[test]
fn messages_stay_short_and_on_one_line() {
    let request = request("expect = { status = 200 }");
    let long = "line\n".repeat(10_000) + "hush";
    let failed = failure(&request, 500, long.as_bytes());
    assert!(failed.message.chars().count() < 200, "{failed}");
    assert!(!failed.message.contains('\n'));
    // A secret across the cut is hidden before the cut.
    let across = "x".repeat(118) + "hush";
    assert!(
        !failure(&request, 500, across.as_bytes())
            .message
            .contains("hu")
    );
}

#[test]
fn accept_extracts_after_checking() {
    let request = request(
        "expect = { json = { '/a' = { equals = { b = [1, 'x'] } } } }\nextract = { first = { json = '/a/b/0' }, all = { json = '' } }",
    );
    let answer = json!({"a": {"b": [1, "x"]}});
    let extracted = accept(&request, 200, answer.to_string().as_bytes()).unwrap();
    assert_eq!(extracted["first"], json!(1));
    assert_eq!(extracted["all"], answer);
    let failed = failure(&request, 200, br#"{"a": {"b": [2]}}"#);
    assert!(
        failed
            .message
            .starts_with(r#"`/a` is an object, expected {"b":[1,"x"]}"#),
        "{failed}"
    );
}

#[test]
fn a_missing_value_to_extract_is_a_failed_check() {
    let request = request("extract = { id = { json = '/id' } }");
    assert_eq!(request.expect.check(200, JSON, b"{}"), Ok(()));
    let failed = accept(&request, 200, b"{}").unwrap_err();
    assert_eq!(failed.kind, CheckKind::Check);
    assert_eq!(
        failed.message,
        "`/id` is missing, and `id` is taken from it; answer: {}"
    );
}

#[test]
fn a_streams_items_are_checked_one_by_one() {
    let request = request(
        "stream = { decoder = 'ndjson' }\nexpect = { each = { json = { '/message' = 'string' } } }",
    );
    assert_eq!(request.accept_item(br#"{"message": ""}"#, true), Ok(true));
    let failed = request
        .accept_item(br#"{"message": null}"#, false)
        .unwrap_err();
    assert_eq!(failed.kind, CheckKind::Check);
    let broken = request.accept_item(b"{", false).unwrap_err();
    assert_eq!(broken.kind, CheckKind::Decode);
    assert!(
        broken.message.starts_with("the item is not JSON"),
        "{broken}"
    );
}

/// Which item is the first token is for the scenario to say.
#[test]
fn case_16_an_item_means_something_by_the_scenarios_test() {
    let request = |decoder: &str| {
        request(&format!(
            "stream = {{ decoder = '{decoder}', meaningful = {{ json = '/message', is = 'non-empty' }} }}"
        ))
    };
    let events = request("sse");
    assert_eq!(
        events.accept_item(br#"{"role": "assistant"}"#, true),
        Ok(false)
    );
    assert_eq!(events.accept_item(br#"{"message": ""}"#, true), Ok(false));
    assert_eq!(events.accept_item(br#"{"message": "a"}"#, true), Ok(true));
    // Events may be anything; what JSON Lines calls a document may not.
    assert_eq!(events.accept_item(b"ping", true), Ok(false));
    let lines = request("ndjson");
    for asks_meaning in [true, false] {
        let failed = lines.accept_item(b"ping", asks_meaning).unwrap_err();
        assert_eq!(failed.kind, CheckKind::Decode);
    }
}

#[test]
fn the_last_item_and_the_end_marker_are_told_apart_from_others() {
    let request = request(
        "stream = { decoder = 'sse', complete = { last = { json = '/done', equals = true }, end_marker = '[DONE]' } }",
    );
    let stream = request.stream.unwrap();
    assert!(stream.is_end_marker(b"[DONE]") && !stream.is_end_marker(b"[DONE] "));
    assert_eq!(stream.lacks_in_last(br#"{"done": true}"#), None);
    let lack = stream.lacks_in_last(br#"{"done": false}"#).unwrap();
    assert_eq!(lack, "`/done` of the last item is not true");
    assert!(stream.lacks_in_last(b"bye").is_some());
}

/// The answers of the service's interface page pass, and lose no field unseen.
#[test]
fn the_shipped_scenarios_check_every_field() {
    let answers = [
        (
            "usage-check",
            0,
            json!({"message": "ok", "conversation_id": "0198"}),
        ),
        (
            "usage-check",
            1,
            json!({"total_human_messages": 0, "agent_message_counts": {}}),
        ),
        (
            "tunnel-github",
            0,
            json!({"workspace_id": "a1", "repo_url": null, "socket_online": true}),
        ),
        (
            "tunnel-github",
            1,
            json!({"workspace_id": "a1", "online": false}),
        ),
        ("tunnel-github", 2, json!({"branches": ["main"]})),
        ("share-access", 2, json!({"message": "ok"})),
        (
            "auth",
            0,
            json!({"uid": "u-1", "exists": true, "needs_github_linking": false}),
        ),
        (
            "auth",
            1,
            json!({"status": "success", "user_id": "u-1", "email": "a@b.test", "message": "ok"}),
        ),
        (
            "auth",
            2,
            json!({"providers": [{"provider_type": "sso_google"}], "primary_provider": null}),
        ),
    ];
    let shared = json!({"message": "ok", "sharedID": "c-1"});
    let answers = answers.map(|(name, index, answer)| (name, index, 200, answer));
    for (name, index, status, answer) in
        answers
            .into_iter()
            .chain([("share-access", 0, 201, shared)])
    {
        let plan = catalogue::open(name, &Inputs::default()).unwrap();
        let expect = &plan.requests[index].expect;
        let check =
            |answer: &serde_json::Value| expect.check(status, JSON, answer.to_string().as_bytes());
        assert_eq!(check(&answer), Ok(()), "{name} {index}");
        for field in answer.as_object().unwrap().keys() {
            let mut less = answer.clone();
            less.as_object_mut().unwrap().remove(field);
            // A tunnel that nobody has registered has no repository.
            let may_be_missing = field == "repo_url";
            assert_eq!(
                check(&less).is_ok(),
                may_be_missing,
                "{name} {index} {field}"
            );
        }
    }
}
