//! Texts that PostgreSQL doesn't keep, and paths that are no text: refused with a reason, before
//! any store is asked.

use reqwest::Method;
use serde_json::Value;

use super::service::{Service, fresh_database, shared_testbed};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// Status and detail.
async fn ask(
    service: &Service,
    method: Method,
    path: &str,
    kind: &str,
    body: &str,
) -> (u16, Value) {
    let request = reqwest::Client::new().request(method, service.url(&format!("/api/v1{path}")));
    let request = request.header("content-type", kind).body(body.to_owned());
    let response = request.send().await.expect(path);
    let status = response.status().as_u16();
    let mut answer: Value = serde_json::from_str(&response.text().await.expect(path)).expect(path);
    (status, answer["detail"].take())
}

#[tokio::test]
async fn a_nul_is_refused_where_it_is() {
    const CREATE: &str = r#"{"user_id":"u-0","title":"\u0000","status":"active","project_ids":["p-1"],"agent_ids":[]}"#;
    const SSO: &str = r#"{"email":"a@b.test","sso_provider":"google","id_token":"id-token-a@b.test","provider_data":{"name":"\u0000"}}"#;
    let (_, database_url) = fresh_database(shared_testbed());
    for steps in ["start", "0", "0,1,2a,2b,2c,2d,2e,3,4"] {
        let service = Service::start(steps, &database_url, &shared_testbed().redis_url());
        for (method, path, kind, body, place) in [
            (
                Method::POST,
                "/conversations",
                JSON,
                CREATE,
                r#"["body","title"]"#,
            ),
            (
                Method::POST,
                "/conversations/c-0-1/message",
                FORM,
                "content=%00",
                r#"["body","content"]"#,
            ),
            (
                Method::POST,
                "/conversations/c-0-1/message?session_id=%00",
                FORM,
                "content=x",
                r#"["query","session_id"]"#,
            ),
            (
                Method::POST,
                "/conversations/share",
                JSON,
                r#"{"conversation_id":"c\u0000"}"#,
                r#"["body","conversation_id"]"#,
            ),
            (
                Method::DELETE,
                "/conversations/c-0-1/access",
                JSON,
                r#"{"emails":["\u0000"]}"#,
                r#"["body","emails",0]"#,
            ),
            (
                Method::POST,
                "/sso/login",
                JSON,
                SSO,
                r#"["body","provider_data"]"#,
            ),
            (
                Method::GET,
                "/conversations/c%00/shared-emails",
                JSON,
                "",
                r#"["path","conversation_id"]"#,
            ),
            (
                Method::POST,
                "/conversations/c%00/stop",
                JSON,
                "",
                r#"["path","conversation_id"]"#,
            ),
            (
                Method::POST,
                "/conversations/c-0-1/stop?session_id=%00",
                JSON,
                "",
                r#"["query","session_id"]"#,
            ),
            (
                Method::POST,
                "/conversations/c-0-1/resume/s%00",
                JSON,
                "",
                r#"["path","session_id"]"#,
            ),
        ] {
            let (status, detail) = ask(&service, method, path, kind, body).await;
            assert_eq!(status, 422, "steps {steps}, {path}: {detail}");
            assert_eq!(detail[0]["type"], "string_pattern_mismatch", "{path}");
            assert_eq!(detail[0]["loc"].to_string(), place, "steps {steps}, {path}");
        }
        // The original reads this one by hand.
        for body in [
            r#"{"uid":"u","email":"a@b.test","displayName":"\u0000"}"#,
            r#"{"uid":"u","email":"a@b.test","providerData":[{"a":["\u0000"]}]}"#,
        ] {
            let (status, detail) = ask(&service, Method::POST, "/signup", JSON, body).await;
            let detail = detail.as_str().expect("words");
            assert!(
                status == 400 && detail.ends_with("has a NUL in it"),
                "{detail}"
            );
        }
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_json() {
    let (_, database_url) = fresh_database(shared_testbed());
    let service = Service::start("0", &database_url, &shared_testbed().redis_url());
    for (method, path) in [
        (Method::GET, "/conversations/c%ff/shared-emails"),
        (Method::POST, "/conversations/c/resume/%ff"),
        (Method::GET, "/tunnel/workspace/%ff"),
    ] {
        let (status, detail) = ask(&service, method, path, JSON, "").await;
        assert_eq!(
            (status, detail.as_str()),
            (400, Some("The path is not UTF-8"))
        );
    }
}
