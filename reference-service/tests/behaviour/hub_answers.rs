//! The routes of the code host at every state: one transcript, with a hub and without one.
//!
//! The FastAPI example has the branch list only, and no hub.

use std::time::Duration;

use unstall_testbed::{Hub, HubStub};

use super::exchanges::{Exchange, transcript};
use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed};
use super::{PROVEN_STATES, STATES};

const REPOS: &str = "/api/v1/github/user-repos";
const STRUCTURE: &str = "/api/v1/github/project-structure";
const FREE: &str = "Bearer token-u-free";
const HUB: Hub = Hub {
    installations: 3,
    repositories: 2,
};

fn repositories() -> Vec<Exchange> {
    vec![
        Exchange::get(REPOS),
        Exchange::get("/api/v1/github/user-repos/?limit=2"),
        Exchange::get("/api/v1/github/user-repos?limit=2&offset=6"),
        Exchange::get("/api/v1/github/user-repos?limit=2&offset=7"),
        Exchange::get("/api/v1/github/user-repos?offset=99"),
        Exchange::get("/api/v1/github/user-repos?search=ORG-2/"),
        Exchange::get("/api/v1/github/user-repos?search=octo"),
        Exchange::get("/api/v1/github/user-repos?search=nothing&limit=1"),
        // No project of theirs, and an account that isn't linked to the hub.
        Exchange::get("/api/v1/github/user-repos?limit=1").sent_by("Bearer token-u-100"),
        Exchange::get(REPOS).sent_by(FREE),
        // What is wrong with the request.
        Exchange::get("/api/v1/github/user-repos?limit=0&offset=-1"),
        Exchange::get("/api/v1/github/user-repos?limit=many&search=%00"),
        Exchange::get(REPOS).sent_by("Bearer wrong"),
        Exchange::post(REPOS),
    ]
}

fn structures() -> Vec<Exchange> {
    vec![
        // Cached by the seeds.
        Exchange::get("/api/v1/github/project-structure?project_id=p-1"),
        Exchange::get("/api/v1/github/project-structure/?project_id=p-1&path=/"),
        // Asked for, then cached.
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=src/module-2"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=/src/module-2/"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-2")
            .sent_by("Bearer token-u-1"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=docs"),
        // Not there, and not the caller's.
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=README.md"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=../secret"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-2"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-404"),
        // What is wrong with the request.
        Exchange::get(STRUCTURE),
        Exchange::get("/api/v1/github/project-structure?project_id=%00&path=%00"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1").sent_by("Bearer wrong"),
    ]
}

fn branches() -> Vec<Exchange> {
    vec![
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/project-7&limit=2"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/project-7&search=MAIN"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=org-3/repository-2&limit=1"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=org-3/repository-3"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/nothing"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/.."),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/hello/branches%3F"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name="),
    ]
}

#[tokio::test]
async fn every_state_answers_for_the_code_host_alike() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let stub = HubStub::start(Duration::ZERO, HUB).expect("a stub");
    let exchanges: Vec<Exchange> = [repositories(), structures(), branches()]
        .into_iter()
        .flatten()
        .collect();
    let mut first: Option<String> = None;
    for state in STATES.into_iter().chain(PROVEN_STATES) {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let options = ["--hub-url", &stub.url()];
        let service = Service::start_state_with(state, &database_url, &redis.url, &options);
        let answers = transcript(&service, &exchanges).await;
        match &first {
            Some(first) => assert_eq!(first, &answers, "{state}"),
            None => first = Some(answers),
        }
    }
    insta::assert_snapshot!(first.expect("there is a first state"));
}

#[tokio::test]
async fn without_a_hub_what_is_cached_and_stored_is_known() {
    let testbed = shared_testbed();
    let exchanges = [
        Exchange::get(REPOS),
        Exchange::get(REPOS).sent_by(FREE),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1"),
        Exchange::get("/api/v1/github/project-structure?project_id=p-1&path=src"),
        Exchange::get("/api/v1/github/get-branch-list?repo_name=octo/project-7"),
    ];
    let mut first: Option<String> = None;
    for state in STATES {
        let (_, database_url) = fresh_database(testbed);
        let service = Service::start(state, &database_url, &testbed.redis_url());
        let answers = transcript(&service, &exchanges).await;
        match &first {
            Some(first) => assert_eq!(first, &answers, "{state}"),
            None => first = Some(answers),
        }
    }
    insta::assert_snapshot!(first.expect("there is a first state"));
}
