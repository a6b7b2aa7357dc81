//! Texts that PostgreSQL can't keep: the FastAPI example refuses them before it asks a server.

use super::EXAMPLES;
use super::exchanges::{Exchange, transcript};
use super::service::{Service, fresh_database, shared_testbed};

const CONVERSATIONS: &str = "/api/v1/conversations";
const MESSAGE: &str = "/api/v1/conversations/c-0-1/message";

#[tokio::test]
async fn a_nul_is_refused_wherever_a_text_is_taken() {
    let exchanges = [
        Exchange::json(
            CONVERSATIONS,
            r#"{"user_id":"u","title":"\u0000","status":"active","project_ids":["p\u0000"],"agent_ids":["\u0000"]}"#,
        ),
        Exchange::form(MESSAGE, "content=a%00b"),
        Exchange::form(
            "/api/v1/conversations/c-0-1/message?session_id=%00",
            "content=x",
        ),
        Exchange::get("/api/v1/conversations/c%00/active-session"),
        Exchange::get("/api/v1/conversations/c%00/task-status"),
        Exchange::post("/api/v1/conversations/c%00/stop"),
        Exchange::post("/api/v1/conversations/c-0-1/resume/%00"),
        Exchange::get("/api/v1/conversations/c%00/shared-emails"),
        Exchange::json(
            "/api/v1/conversations/share",
            r#"{"conversation_id":"c\u0000"}"#,
        ),
        Exchange::delete(
            "/api/v1/conversations/c%00/access",
            r#"{"emails":["a@b.test"]}"#,
        ),
        Exchange::json(
            "/api/v1/sso/login",
            r#"{"email":"n@b.test","sso_provider":"google","id_token":"id-token-n@b.test","provider_data":{"name":"\u0000"}}"#,
        ),
        Exchange::json(
            "/api/v1/signup",
            r#"{"uid":"n","email":"n@b.test","displayName":"\u0000"}"#,
        ),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=%00"),
    ];
    let testbed = shared_testbed();
    let mut transcripts = Vec::new();
    for version in EXAMPLES {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(version, &database_url, &testbed.redis_url());
        transcripts.push(transcript(&service, &exchanges).await);
    }
    assert_eq!(transcripts[0], transcripts[1]);
    insta::assert_snapshot!(transcripts[0]);
}
