//! The routes of v2: whoever calls them has a key, of their own or the administrator's.

use reqwest::Client;
use sqlx::{Connection, PgConnection};

use super::exchanges::{Exchange, transcript};
use super::own_redis::OwnRedis;
use super::same_answers::differences;
use super::service::{Service, fresh_database, shared_testbed, start_worker};
use super::{PROVEN_STATES, STATES};

/// Of u-0 and u-5, and one that is nobody's.
const KEY_0: &str = "sk-0000000000000000000000000000000000000000000000000000000000000000";
const KEY_5: &str = "sk-0000000000000000000000000000000000000000000000000000000000000005";
const NO_KEY: &str = "sk-ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
const ADMIN: &str = "an-administrators-secret";

const CONVERSATIONS: &str = "/api/v2/conversations";
const SHOWN: &str = "/api/v2/conversations/?hidden=false";
const MESSAGE: &str = "/api/v2/conversations/{new}/message";
const AT_ONCE: &str = "/api/v2/conversations/{new}/message/?stream=false";
const STOP: &str = "/api/v2/conversations/{new}/stop";
const STOP_NAMED: &str = "/api/v2/conversations/{new}/stop/?session_id=conversation:u-5:new";
const SEARCH: &str = "/api/v2/search";

const NEW: &str = r#"{"project_ids":["p-1"],"agent_ids":["a-1"]}"#;
const WHOLE: &str = r#"{"content":"in one piece","node_ids":[{"node_id":"n-1","name":"main"}],"attachment_ids":["f-1"],"tunnel_url":null}"#;
const CACHE_OF_P_1: &str = r#"{"project_id":"p-1","query":"cache"}"#;
const CACHE_OF_P_4: &str = r#"{"project_id":"p-4","query":"cache"}"#;

/// An exchange, the status of its answer, and what its body has.
type Expected = (Exchange, u16, &'static str);

fn by_own_key() -> Vec<Expected> {
    let json = |path, body, status, part| {
        let exchange = Exchange::json(path, body).sent_with_key(KEY_5);
        (exchange, status, part)
    };
    let post = |path, part| (Exchange::post(path).sent_with_key(KEY_5), 200, part);
    let strangers = Exchange::json(AT_ONCE, r#"{"content":"x"}"#).sent_with_key(KEY_0);
    vec![
        json(CONVERSATIONS, NEW, 200, "conversation_id"),
        json(SHOWN, NEW, 200, "conversation_id"),
        json(MESSAGE, r#"{"content":"by key"}"#, 200, "asked: "),
        json(AT_ONCE, WHOLE, 200, "You asked: in one piece"),
        post(STOP, "No active session to stop"),
        post(STOP_NAMED, "Generation stopped"),
        // What is wrong with the request.
        json(CONVERSATIONS, "{}", 422, "agent_ids"),
        json(
            CONVERSATIONS,
            r#"{"project_ids":[],"agent_ids":[]}"#,
            422,
            "too_short",
        ),
        json(
            "/api/v2/conversations?hidden=maybe",
            NEW,
            422,
            "bool_parsing",
        ),
        json(
            CONVERSATIONS,
            r#"{"project_ids":["p-404"],"agent_ids":[]}"#,
            404,
            "No such project: p-404",
        ),
        json(MESSAGE, r#"{"content":" \t"}"#, 400, "cannot be empty"),
        json(MESSAGE, "{}", 422, "content"),
        json(MESSAGE, "{", 422, "json_invalid"),
        json(
            MESSAGE,
            r#"{"content":"x","node_ids":"n-1"}"#,
            422,
            "list_type",
        ),
        json(
            MESSAGE,
            r#"{"content":"x","attachment_ids":[7],"tunnel_url":8}"#,
            422,
            "tunnel_url",
        ),
        json(
            "/api/v2/conversations/{new}/message?stream=perhaps",
            "{}",
            422,
            "bool_parsing",
        ),
        // Somebody else's: the agent finds out.
        (strangers, 500, "The agent failed to answer"),
    ]
}

fn by_no_good_key() -> Vec<Expected> {
    let refused = |exchange| (exchange, 401, "Invalid API key");
    let create = || Exchange::json(CONVERSATIONS, NEW);
    vec![
        refused(create()),
        refused(Exchange::json(CONVERSATIONS, "{")),
        refused(create().sent_with_key(NO_KEY)),
        refused(Exchange::json(MESSAGE, "{}").sent_with_key("sk-")),
        refused(Exchange::post(STOP).sent_with_key("")),
        // A token is no key, and neither is a user's id.
        refused(create().sent_by("Bearer token-u-5")),
        refused(Exchange::post(STOP).sent_for("u-5")),
        (
            Exchange::get(CONVERSATIONS).sent_with_key(KEY_5),
            405,
            "Method Not Allowed",
        ),
    ]
}

fn by_the_administrators_key() -> Vec<Expected> {
    let json = |user, path, body, status, part| {
        let exchange = Exchange::json(path, body).sent_with_key(ADMIN);
        (exchange.sent_for(user), status, part)
    };
    let stop = |key, status, part| {
        let exchange = Exchange::post(STOP).sent_with_key(key);
        (exchange.sent_for("u-7"), status, part)
    };
    let nobody = "X-User-Id";
    let for_nobody = Exchange::json(CONVERSATIONS, NEW).sent_with_key(ADMIN);
    let own = Exchange::json(SEARCH, CACHE_OF_P_1).sent_with_key(KEY_0);
    vec![
        json("u-7", CONVERSATIONS, NEW, 200, "conversation_id"),
        json(
            "u-7",
            AT_ONCE,
            r#"{"content":"for u-7"}"#,
            200,
            "You asked: for u-7",
        ),
        // It is u-7's, whoever else an administrator may act for.
        json(
            "u-8",
            AT_ONCE,
            r#"{"content":"x"}"#,
            500,
            "The agent failed",
        ),
        stop(ADMIN, 200, "No active session to stop"),
        json("u-3", SEARCH, CACHE_OF_P_4, 200, "node_id"),
        json("u-4", SEARCH, CACHE_OF_P_4, 404, "not found"),
        // The user's limit counts.
        json("u-free", CONVERSATIONS, NEW, 402, "Usage limit reached"),
        json(
            "u-free",
            MESSAGE,
            r#"{"content":"x"}"#,
            402,
            "Usage limit reached",
        ),
        // Nobody to act for.
        (for_nobody, 401, nobody),
        json("u-404", CONVERSATIONS, NEW, 401, nobody),
        json("", CONVERSATIONS, NEW, 401, nobody),
        stop("another-secret", 401, "Invalid API key"),
        // Who has a key of their own acts for nobody else.
        (own.sent_for("u-3"), 200, "node_id"),
    ]
}

#[tokio::test]
async fn every_state_answers_who_has_a_key_the_same() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let all = [by_own_key(), by_no_good_key(), by_the_administrators_key()];
    let mut exchanges = Vec::new();
    let mut expected = Vec::new();
    for (exchange, status, part) in all.into_iter().flatten() {
        exchanges.push(exchange);
        expected.push((status, part));
    }
    let mut first: Option<String> = None;
    for state in STATES.into_iter().chain(PROVEN_STATES) {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        let options = ["--admin-key", ADMIN];
        let service = Service::start_state_with(state, &database_url, &redis.url, &options);
        let answers = transcript(&service, &exchanges).await;
        let Some(first) = &first else {
            first = Some(answers);
            continue;
        };
        let differences = differences(first, &answers);
        assert!(
            differences.is_empty(),
            "{state} answers otherwise:\n{differences}"
        );
    }
    let first = first.expect("there is a first state");
    let lines: Vec<&str> = first.lines().collect();
    let answers = lines.chunks(3);
    assert_eq!(answers.len(), expected.len());
    for (answer, (status, part)) in answers.zip(expected) {
        let whole = answer.join("\n");
        let status = format!("  {status} ");
        assert!(answer[1].starts_with(&status), "not{status}: {whole}");
        assert!(answer[2].contains(part), "no {part:?}: {whole}");
    }
}

#[tokio::test]
async fn without_an_administrator_nobody_acts_for_others() {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    for state in ["start", "0", "0,1,2a,2b,2c"] {
        let service = Service::start(state, &database_url, &testbed.redis_url());
        let request = Client::new()
            .post(service.url(CONVERSATIONS))
            .header("content-type", "application/json")
            .header("x-api-key", ADMIN)
            .header("x-user-id", "u-7");
        let answer = request.body(NEW).send().await.expect("an answer");
        assert_eq!(answer.status(), 401, "{state}");
    }
}

#[tokio::test]
async fn a_conversation_by_key_is_its_users_and_hidden_unless_told_otherwise() {
    let testbed = shared_testbed();
    for state in ["start", "0", "0,1,2a,2b,2c"] {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(state, &database_url, &testbed.redis_url());
        for query in ["", "?hidden=true", "?hidden=false"] {
            let request = Client::new()
                .post(service.url(&format!("{CONVERSATIONS}{query}")))
                .header("content-type", "application/json")
                .header("x-api-key", KEY_5);
            let answer = request.body(NEW).send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "{state}");
        }
        let mut connection = PgConnection::connect(&database_url)
            .await
            .expect("connects");
        let rows: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT user_id, title, status FROM conversations \
             WHERE user_id = 'u-5' AND id NOT LIKE 'c-%' ORDER BY created_at",
        )
        .fetch_all(&mut connection)
        .await
        .expect("conversations");
        let expected = ["archived", "archived", "active"].map(|status| {
            let [user, title, status] = ["u-5", "Untitled", status].map(str::to_owned);
            (user, title, status)
        });
        assert_eq!(rows, expected, "{state}");
    }
}
