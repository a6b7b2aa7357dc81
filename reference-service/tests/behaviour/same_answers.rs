//! One list of requests, asked at every state: one transcript.

use super::exchanges::{Exchange, transcript};
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed, start_worker};
use super::services;

const CREATE: &str = r#"{"user_id":"u-0","title":"t","status":"active","project_ids":["p-1","p-2"],"agent_ids":["a-1"]}"#;
const CONVERSATIONS: &str = "/api/v1/conversations";
const FREE: &str = "Bearer token-u-free";
const PRO: &str = "Bearer token-u-pro";
const SPAN: &str = "/api/v1/usage/usage?start_date=2000-01-01&end_date=2100-01-01T00:00:00Z";

fn exchanges() -> Vec<Exchange> {
    [
        health_and_identity(),
        conversations(),
        messages(),
        super::run_exchanges::runs(),
        super::run_exchanges::access(),
        super::account_exchanges::sharing(),
        super::account_exchanges::signing_up(),
        super::account_exchanges::signing_in(),
        usage(),
        tunnel(),
        branches(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn health_and_identity() -> Vec<Exchange> {
    vec![
        Exchange::get("/health"),
        Exchange::get("/nowhere"),
        Exchange::get(CONVERSATIONS),
        Exchange::get(SPAN).sent_by("Bearer wrong"),
        Exchange::get(SPAN).sent_by("Basic token-u-1"),
        Exchange::json(CONVERSATIONS, "{}").sent_by("Bearer token-u-200"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000a1").sent_by("Bearer "),
        Exchange::get("/api/v1/github/get-branch-list").sent_by("Bearer wrong"),
    ]
}

fn conversations() -> Vec<Exchange> {
    vec![
        Exchange::json(CONVERSATIONS, CREATE),
        Exchange::json("/api/v1/conversations?hidden=true", CREATE),
        Exchange::json("/api/v1/conversations?hidden=maybe", CREATE),
        Exchange::json(CONVERSATIONS, CREATE).sent_by(FREE),
        Exchange::json(CONVERSATIONS, CREATE).sent_by(PRO),
        Exchange::json(CONVERSATIONS, ""),
        Exchange::json(CONVERSATIONS, "{"),
        // Not sent as JSON.
        Exchange::form(CONVERSATIONS, CREATE),
        Exchange::json(CONVERSATIONS, "[]"),
        Exchange::json("/api/v1/conversations?hidden=maybe", "[]"),
        Exchange::json(
            CONVERSATIONS,
            r#"{"title":1,"status":"ACTIVE","project_ids":"p-1","agent_ids":[2]}"#,
        ),
        Exchange::json(
            CONVERSATIONS,
            r#"{"user_id":"u-0","title":"t","status":"active","project_ids":[],"agent_ids":[]}"#,
        ),
        Exchange::json(
            CONVERSATIONS,
            r#"{"user_id":"u-0","title":"t","status":"active","project_ids":["p-1","p-404"],"agent_ids":[]}"#,
        ),
    ]
}

fn messages() -> Vec<Exchange> {
    let message = "/api/v1/conversations/{new}/message";
    vec![
        Exchange::json(CONVERSATIONS, CREATE).sent_by("Bearer token-u-1"),
        Exchange::form(message, "content=two+words").sent_by("Bearer token-u-1"),
        Exchange::multipart(
            message,
            "--b\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\nin parts\r\n\
             --b\r\nContent-Disposition: form-data; name=\"images\"; filename=\"i.png\"\r\n\
             Content-Type: image/png\r\n\r\nnot really\r\n--b--\r\n",
        )
        .sent_by("Bearer token-u-1"),
        Exchange::form(
            "/api/v1/conversations/{new}/message?stream=false",
            "content=at+once&node_ids=[]",
        )
        .sent_by("Bearer token-u-1"),
        Exchange::form(
            "/api/v1/conversations/{new}/message?stream=perhaps",
            "content=x",
        ),
        Exchange::form("/api/v1/conversations/{new}/message?stream=perhaps", ""),
        Exchange::form(message, ""),
        Exchange::form(message, "content="),
        Exchange::json(message, r#"{"content":"json"}"#),
        Exchange::multipart(message, "--b\r\ncut off"),
        Exchange::form(message, "content=+%09"),
        Exchange::form(message, "content=x&node_ids=n-1"),
        Exchange::form(message, "content=x&node_ids=[{\"name\":\"main\"}]"),
        // Not the caller's, and not there: the agent finds out, and its stream just ends.
        Exchange::form(message, "content=x"),
        Exchange::form("/api/v1/conversations/c-404/message", "content=x"),
        Exchange::form(
            "/api/v1/conversations/c-404/message?stream=false",
            "content=x",
        ),
        Exchange::form("/api/v1/conversations/c-free/message", "content=x").sent_by(FREE),
        // The first brings the user to the limit.
        Exchange::form("/api/v1/conversations/c-pro/message", "content=x").sent_by(PRO),
        Exchange::form("/api/v1/conversations/c-pro/message", "content=x").sent_by(PRO),
        Exchange::json(CONVERSATIONS, CREATE).sent_by(PRO),
    ]
}

fn usage() -> Vec<Exchange> {
    vec![
        // 20 conversations with 5 human messages, a quarter of them with two agents.
        Exchange::get(SPAN).sent_by("Bearer token-u-2"),
        Exchange::get(SPAN).sent_by("Bearer token-u-100"),
        Exchange::get(SPAN).sent_by(PRO),
        Exchange::get("/api/v1/usage/usage?start_date=2000-01-01&end_date=2000-01-02"),
        Exchange::get(
            "/api/v1/usage/usage?start_date=2000-01-01T00:00:00%2B01:00&end_date=2000-01-02",
        ),
        Exchange::get("/api/v1/usage/usage?start_date=2100-01-01&end_date=2000-01-01"),
        Exchange::get("/api/v1/usage/usage"),
        Exchange::get("/api/v1/usage/usage?start_date=yesterday&end_date=2000-13-01"),
    ]
}

fn tunnel() -> Vec<Exchange> {
    vec![
        Exchange::get("/api/v1/tunnel/workspace/00000000000000a1"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000a2"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000b1"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000b1").sent_by("Bearer token-u-1"),
        Exchange::get("/api/v1/tunnel/workspace/ffffffffffffffff"),
        Exchange::get("/api/v1/tunnel/workspace/FFFFFFFFFFFFFFFF"),
        Exchange::get("/api/v1/tunnel/workspace/a1"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000a1/socket-status"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000a2/socket-status"),
        Exchange::get("/api/v1/tunnel/workspace/00000000000000b1/socket-status"),
        Exchange::get("/api/v1/tunnel/workspace/ffffffffffffffff/socket-status"),
        Exchange::get("/api/v1/tunnel/workspace/a1/socket-status"),
    ]
}

fn branches() -> Vec<Exchange> {
    vec![
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello"),
        Exchange::get("/api/v1/github/get-branch-list/?repo_name=octo/hello&limit=2"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo%2Fhello&limit=5&offset=28"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello&limit=5&offset=99"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello&search=MAIN"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello&search=/2&limit=3"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/nothing"),
        Exchange::get("/api/v1/github/get-branch-list"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello&limit=0&offset=-1"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello&limit=many"),
    ]
}

/// The exchanges whose answers differ, and both answers.
fn differences(one: &str, other: &str) -> String {
    let exchanges = |transcript: &str| -> Vec<String> {
        let lines: Vec<&str> = transcript.lines().collect();
        lines.chunks(3).map(|lines| lines.join("\n")).collect()
    };
    let (one, other) = (exchanges(one), exchanges(other));
    assert_eq!(one.len(), other.len(), "each exchange has three lines");
    let differing = one.iter().zip(&other).filter(|(one, other)| one != other);
    differing
        .map(|(one, other)| format!("{one}\n--\n{other}\n\n"))
        .collect()
}

#[tokio::test]
async fn every_state_answers_the_same() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let mut first: Option<String> = None;
    for state in services() {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        let service = Service::start(state, &database_url, &redis.url);
        let answers = transcript(&service, &exchanges()).await;
        let Some(first) = &first else {
            first = Some(answers);
            continue;
        };
        let differences = differences(first, &answers);
        assert!(
            differences.is_empty(),
            "{state} answers otherwise than the first state:\n{differences}"
        );
    }
    insta::assert_snapshot!(first.expect("there is a first state"));
}

#[tokio::test]
async fn request_ids_are_the_callers_if_sane() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    for state in ["start", "0", "fastapi asynchronous"] {
        let service = Service::start(state, &database_url, &testbed.redis_url());
        let client = reqwest::Client::new();
        for (sent, kept) in [
            ("req-1.a:b_c", true),
            ("two words", false),
            ("", false),
            (&*"x".repeat(129), false),
        ] {
            for path in ["/health", "/nowhere", "/api/v1/usage/usage"] {
                let response = client
                    .get(service.url(path))
                    .header("x-request-id", sent)
                    .send()
                    .await
                    .expect(path);
                let id = response
                    .headers()
                    .get("x-request-id")
                    .expect("an id")
                    .to_str()
                    .expect("plain text");
                assert_eq!(id == sent, kept, "{path} {sent:?}: {id:?}");
                assert!(kept || id.parse::<uuid::Uuid>().is_ok(), "{id:?}");
            }
        }
    }
}
