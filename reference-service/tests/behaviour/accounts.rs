//! What sharing, signing up and signing in leave behind: rows, and notifications of new accounts.

use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use unstall_testbed::{Behaviour, FaultyServer, IdentityStub};

use super::service::{Service, fresh_database, shared_testbed};
use super::services;

/// Only step 4 moves the hook's call.
const HOOK_BLOCKS: &str = "0,1,2a,2b,2c,2d,2e,3";
const HOOK_AWAITED: &str = "0,1,2a,2b,2c,2d,2e,3,4";
const HOUR: Duration = Duration::from_secs(3600);

/// All that the routes write, without ids and times.
const TRACES: [&str; 5] = [
    "SELECT uid, email, display_name, email_verified, plan, last_login_at IS NOT NULL AS signed_in
     FROM users WHERE uid NOT LIKE 'u-%' OR last_login_at IS NOT NULL ORDER BY uid",
    "SELECT user_id, provider_type, provider_uid, provider_data, is_primary,
            last_used_at IS NOT NULL AS used, linked_by_ip, linked_by_user_agent
     FROM user_auth_providers
     WHERE user_id NOT LIKE 'u-%' OR linked_by_ip IS NOT NULL OR last_used_at IS NOT NULL
     ORDER BY user_id, provider_type",
    "SELECT user_id, provider_type, provider_uid, provider_data, ip_address, user_agent,
            expires_at - created_at AS valid_for
     FROM pending_provider_links ORDER BY user_id",
    "SELECT user_id, event_type, provider_type, status, ip_address, user_agent
     FROM auth_audit_log ORDER BY created_at, id",
    "SELECT id, visibility, shared_with_emails, updated_at > created_at AS changed
     FROM conversations WHERE id LIKE 'c-0-1_' AND updated_at > created_at ORDER BY id",
];

async fn post(service: &Service, path: &str, body: Value) -> StatusCode {
    let answer = Client::builder()
        .user_agent("a test")
        .build()
        .expect("a client")
        .post(service.url(path))
        .json(&body)
        .send()
        .await
        .expect(path);
    answer.status()
}

async fn sign_in(service: &Service, email: &str, provider: &str) -> StatusCode {
    let body = json!({ "email": email, "sso_provider": provider, "id_token": format!("id-token-{email}") });
    post(service, "/api/v1/sso/login", body).await
}

async fn sign_up(service: &Service, uid: &str) -> StatusCode {
    let body = json!({ "uid": uid, "email": format!("{uid}@example.test") });
    post(service, "/api/v1/signup", body).await
}

async fn traces(database_url: &str) -> String {
    let mut connection = PgConnection::connect(database_url).await.expect("connects");
    let mut text = String::new();
    for query in TRACES {
        let sql = format!("SELECT row_to_json(trace)::text FROM ({query}) trace");
        let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_all(&mut connection)
            .await
            .expect(query);
        for row in rows {
            writeln!(text, "{row}").expect("a string takes it");
        }
        text.push('\n');
    }
    text
}

#[tokio::test]
async fn every_state_writes_the_same_rows() {
    let testbed = shared_testbed();
    let mut first = None;
    for steps in services() {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        assert_eq!(sign_up(&service, "new").await, 201);
        assert_eq!(sign_up(&service, "new").await, 200);
        let link = json!({
            "uid": "gh", "email": "gh@example.test", "accessToken": "secret",
            "providerUsername": "octo", "linkToUserId": "u-free", "providerData": { "a": 1 },
        });
        assert_eq!(post(&service, "/api/v1/signup", link).await, 200);
        for (email, provider, status) in [
            ("u-3@example.test", "google", 200),
            ("new@example.test", "google", 202),
            ("Newer@Example.test", "azure", 202),
            ("newer@example.test", "azure", 200),
            ("a@gmail.com", "google", 403),
        ] {
            let answered = sign_in(&service, email, provider).await;
            assert_eq!(answered, status, "steps {steps} {email}");
        }
        let share = "/api/v1/conversations/share";
        let emails = json!({ "conversation_id": "c-0-11", "recipientEmails": ["b@x.test", "a@x.test", "b@x.test"] });
        assert_eq!(post(&service, share, emails).await, 201);
        let publish = json!({ "conversation_id": "c-0-12", "visibility": "public" });
        assert_eq!(post(&service, share, publish).await, 201);
        let withdrawn = Client::new()
            .delete(service.url("/api/v1/conversations/c-0-11/access"))
            .json(&json!({ "emails": ["b@x.test"] }))
            .send()
            .await
            .expect("an answer");
        assert_eq!(withdrawn.status(), 200);

        let written = traces(&database_url).await;
        match &first {
            None => first = Some(written),
            Some(first) => assert_eq!(first, &written, "step 0 and steps {steps} differ"),
        }
    }
    let first = first.expect("there is a first state");
    assert!(!first.contains("secret"), "a provider's token was kept");
    insta::assert_snapshot!(first);
}

/// The service with a hook.
fn with_hook(steps: &str, hook: &str) -> Service {
    let testbed = shared_testbed();
    let (_, database_url) = fresh_database(testbed);
    Service::start_with(&[
        "--steps",
        steps,
        "--database-url",
        &database_url,
        "--redis-url",
        &testbed.redis_url(),
        "--notify-url",
        hook,
    ])
}

#[tokio::test]
async fn new_accounts_are_announced_and_no_others() {
    for steps in [HOOK_BLOCKS, HOOK_AWAITED] {
        let stub = IdentityStub::start(Duration::from_millis(5)).expect("a stub");
        let service = with_hook(steps, &stub.hook_url());
        assert_eq!(sign_up(&service, "u-3").await, 200);
        assert_eq!(sign_in(&service, "u-3@example.test", "google").await, 200);
        assert_eq!(sign_in(&service, "u-3@example.test", "okta").await, 202);
        assert_eq!(sign_in(&service, "a@gmail.com", "google").await, 403);
        assert_eq!(stub.requests(IdentityStub::HOOK), 0, "steps {steps}");

        assert_eq!(sign_up(&service, "new").await, 201);
        assert_eq!(stub.requests(IdentityStub::HOOK), 1, "steps {steps}");
        assert_eq!(sign_in(&service, "newer@example.test", "okta").await, 202);
        assert_eq!(stub.requests(IdentityStub::HOOK), 2, "steps {steps}");
        assert_eq!(
            stub.latest_notification().as_deref(),
            Some(r#"{"text":"New signup: newer@example.test"}"#),
            "steps {steps}"
        );
    }
}

#[tokio::test]
async fn an_account_is_made_whatever_the_hook_answers() {
    for steps in ["start", HOOK_BLOCKS, HOOK_AWAITED] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let service = with_hook(steps, &format!("{}/500", server.url()));
        assert_eq!(sign_up(&service, "new").await, 201, "steps {steps}");
        assert_eq!(server.counts("/500").requests, 1, "steps {steps}");

        let refusing = FaultyServer::start(Behaviour::Refuse).expect("a port");
        let service = with_hook(steps, &format!("{}/hook", refusing.url()));
        assert_eq!(sign_up(&service, "new").await, 201, "steps {steps}");
    }
}

/// What step 4 is for: before it, and since step 0, one hook that hangs stops everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_hangs_stops_everybody_before_step_4_only() {
    for (steps, others_wait) in [("start", false), (HOOK_BLOCKS, true), (HOOK_AWAITED, false)] {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        let service = std::sync::Arc::new(with_hook(steps, &format!("{}/hang", server.url())));
        let for_task = std::sync::Arc::clone(&service);
        let signing_up = tokio::spawn(async move { sign_up(&for_task, "new").await });
        while server.counts("/hang").requests == 0 {
            tokio::task::yield_now().await;
        }
        let health = reqwest::get(service.url("/health"));
        let patience = if others_wait {
            Duration::from_millis(300)
        } else {
            HOUR
        };
        let answered = tokio::time::timeout(patience, health).await;
        assert_eq!(answered.is_err(), others_wait, "steps {steps}");
        assert!(!signing_up.is_finished(), "steps {steps}");
        drop(server);
        let status = signing_up.await.expect("no panic");
        assert_eq!(
            status, 201,
            "steps {steps}: the account was made all the same"
        );
    }
}

#[tokio::test]
async fn many_at_once_make_one_account() {
    let testbed = shared_testbed();
    for steps in ["start", "0", HOOK_AWAITED] {
        let (_, database_url) = fresh_database(testbed);
        let service =
            std::sync::Arc::new(Service::start(steps, &database_url, &testbed.redis_url()));
        let all: Vec<_> = (0..20)
            .map(|turn| {
                let service = std::sync::Arc::clone(&service);
                tokio::spawn(async move {
                    if turn % 2 == 0 {
                        sign_up(&service, "new").await
                    } else {
                        sign_in(&service, "newer@example.test", "okta").await
                    }
                })
            })
            .collect();
        let mut created = 0;
        for (turn, one) in all.into_iter().enumerate() {
            let status = one.await.expect("no panic").as_u16();
            created += u32::from(status == 201);
            // Who comes second finds the account, or finds the address taken meanwhile.
            let fits: &[u16] = if turn % 2 == 0 {
                &[200, 201, 409]
            } else {
                &[200, 202]
            };
            assert!(fits.contains(&status), "steps {steps}: {status}");
        }
        assert_eq!(created, 1, "steps {steps}");
        let written = traces(&database_url).await;
        let accounts = written.lines().filter(|line| line.contains(r#""plan""#));
        assert_eq!(accounts.count(), 2, "steps {steps}:\n{written}");
    }
}
