//! What the routes leave in the database, at every state.

use sqlx::{Connection, PgConnection};

use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed, start_worker};
use super::services;

#[tokio::test]
async fn a_conversation_and_its_messages_are_stored_alike() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in services() {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        let service = Service::start(steps, &database_url, &redis.url);
        let client = reqwest::Client::new();
        let body = r#"{"user_id":"someone-else","title":"A 'title' $1","status":"active","project_ids":["p-2","p-1"],"agent_ids":["a-1","a,\"2\""]}"#;
        let created: serde_json::Value = client
            .post(service.url("/api/v1/conversations?hidden=true"))
            .header("authorization", "Bearer token-u-7")
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        let id = created["conversation_id"].as_str().expect("an id");
        let answer = client
            .post(service.url(&format!("/api/v1/conversations/{id}/message")))
            .header("authorization", "Bearer token-u-7")
            .header("content-type", "application/x-www-form-urlencoded")
            .body("content=hello")
            .send()
            .await
            .expect("an answer");
        // The end of the stream is the agent's: by then it has stored both messages.
        answer.text().await.expect("a whole stream");

        let mut connection = PgConnection::connect(&database_url)
            .await
            .expect("connects");
        let row: (String, String, String, Vec<String>, Vec<String>) = sqlx::query_as(
            "SELECT user_id, title, status, project_ids, agent_ids FROM conversations WHERE id = $1",
        )
        .bind(id)
        .fetch_one(&mut connection)
        .await
        .expect("the conversation is there");
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let expected = (
            "u-7".to_owned(),
            "A 'title' $1".to_owned(),
            "archived".to_owned(),
            texts(&["p-2", "p-1"]),
            texts(&["a-1", "a,\"2\""]),
        );
        assert_eq!(row, expected, "steps {steps}");

        let messages: Vec<(String, Option<String>, String)> = sqlx::query_as(
            "SELECT type, sender_id, content FROM messages WHERE conversation_id = $1 ORDER BY created_at",
        )
        .bind(id)
        .fetch_all(&mut connection)
        .await
        .expect("messages are there");
        let message = |kind: &str, sender: Option<&str>, content: &str| {
            (
                kind.to_owned(),
                sender.map(str::to_owned),
                content.to_owned(),
            )
        };
        let expected = [
            message(
                "SYSTEM_GENERATED",
                None,
                "Ask anything about octo/project-2, octo/project-1.",
            ),
            message("HUMAN", Some("u-7"), "hello"),
            message("AI_GENERATED", None, "You asked: hello"),
        ];
        assert_eq!(messages, expected, "steps {steps}");
    }
}
