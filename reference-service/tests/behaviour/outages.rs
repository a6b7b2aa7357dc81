//! Servers that go away and come back, at every state.

use std::time::Duration;

use unstall_testbed::DelayProxy;

use super::service::{Service, fresh_database, reset_database, shared_testbed};
use super::{EXAMPLES, services};

const USAGE: &str = "/api/v1/usage/usage?start_date=2000-01-01&end_date=2100-01-01";
const EMAILS: &str = "/api/v1/conversations/c-0-1/shared-emails";
const PROVIDERS: &str = "/api/v1/providers/me";
const TUNNEL: &str = "/api/v1/tunnel/workspace/00000000000000a1";
const BRANCHES: &str = "/api/v1/github/get-branch-list?repo_name=octo/hello";
const REPOS: &str = "/api/v1/github/user-repos";
const STRUCTURE: &str = "/api/v1/github/project-structure?project_id=p-1";

async fn status_and_body(service: &Service, path: &str) -> (u16, String) {
    let response = reqwest::get(service.url(path)).await.expect(path);
    (
        response.status().as_u16(),
        response.text().await.expect(path),
    )
}

#[tokio::test]
async fn a_lost_database_is_503_and_a_new_one_is_found() {
    let testbed = shared_testbed();
    for steps in services() {
        let (name, database_url) = fresh_database(testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        let (status, before) = status_and_body(&service, USAGE).await;
        assert_eq!(status, 200, "{before}");

        testbed.drop_database(&name).expect("it is dropped");
        let gone = status_and_body(&service, USAGE).await;
        let expected = r#"{"detail":"PostgreSQL can't be reached; try again"}"#.to_owned();
        assert_eq!(gone, (503, expected), "steps {steps}");
        for path in [EMAILS, PROVIDERS, REPOS, STRUCTURE] {
            if EXAMPLES.contains(&steps) && [REPOS, STRUCTURE].contains(&path) {
                continue; // which it doesn't have
            }
            assert_eq!(
                status_and_body(&service, path).await,
                gone,
                "steps {steps} {path}"
            );
        }
        // Others don't suffer.
        assert_eq!(status_and_body(&service, TUNNEL).await.0, 200);
        assert_eq!(status_and_body(&service, "/health").await.0, 200);

        reset_database(testbed, &name);
        assert_eq!(
            status_and_body(&service, USAGE).await,
            (200, before),
            "steps {steps}"
        );
    }
}

#[tokio::test]
async fn a_lost_redis_is_503() {
    let testbed = shared_testbed();
    for steps in services() {
        let proxy = DelayProxy::start(testbed.redis_address(), Duration::ZERO).expect("a proxy");
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(
            steps,
            &database_url,
            &testbed.redis_url_through(proxy.addr()),
        );
        assert_eq!(status_and_body(&service, TUNNEL).await.0, 200);
        drop(proxy);
        for path in [TUNNEL, BRANCHES] {
            let gone = status_and_body(&service, path).await;
            let expected = r#"{"detail":"Redis can't be reached; try again"}"#.to_owned();
            assert_eq!(gone, (503, expected), "steps {steps} {path}");
        }
        assert_eq!(status_and_body(&service, USAGE).await.0, 200);
        if !EXAMPLES.contains(&steps) {
            assert_eq!(status_and_body(&service, STRUCTURE).await.0, 503);
            // It looks nothing up.
            assert_eq!(status_and_body(&service, REPOS).await.0, 200, "{steps}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_not_what_its_key_promises_is_500() {
    use fred::interfaces::{ClientLike, KeysInterface};
    let testbed = shared_testbed();
    let config = fred::types::config::Config::from_url(&testbed.redis_url()).expect("a URL");
    let redis = fred::types::Builder::from_config(config)
        .build()
        .expect("a client");
    redis.init().await.expect("connects");
    // Keys that no other test reads.
    let _: () = redis
        .set("workspace_tunnel:00000000000000c1", "{", None, None, false)
        .await
        .expect("is set");
    let _: () = redis
        .set("repo_branches:octo/broken", "{}", None, None, false)
        .await
        .expect("is set");
    for steps in services() {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        for path in [
            "/api/v1/tunnel/workspace/00000000000000c1",
            "/api/v1/github/get-branch-list?repo_name=octo/broken",
        ] {
            let expected = r#"{"detail":"Internal server error"}"#.to_owned();
            assert_eq!(
                status_and_body(&service, path).await,
                (500, expected),
                "steps {steps} {path}"
            );
        }
    }
}
