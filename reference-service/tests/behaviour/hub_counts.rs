//! What each variant asks of the code host and of its cache for one request.

use std::time::Duration;

use unstall_testbed::{Hub, HubStub};

use super::own_redis::OwnRedis;
use super::round_trips::{ask, counted};
use super::service::{Service, fresh_database, seeded_testbed, shared_testbed};
use super::watched_hub::{At, WatchedHub};

const REPOS: &str = "/api/v1/github/user-repos";
const BRANCHES: &str = "/api/v1/github/get-branch-list?repo_name=octo/project-7";
const STRUCTURE: &str = "/api/v1/github/project-structure?project_id=p-1&path=src";
/// Everything before step 4 and all after it.
const BEFORE: [&str; 3] = ["start", "0", "0,1,2a,2b,2c,2d,2e,3"];
const AFTER: &str = "0,1,2a,2b,2c,2d,2e,3,4";
const TOKENS: &str = "POST /app/installations/";

async fn succeeds(service: &Service, path: &str) {
    let answer = reqwest::get(service.url(path)).await.expect(path);
    assert_eq!(answer.status(), 200, "{path}");
    answer.bytes().await.expect(path);
}

#[tokio::test]
async fn a_users_repositories_cost_a_token_per_installation() {
    let testbed = shared_testbed();
    let hub = Hub {
        installations: 20,
        repositories: 3,
    };
    for steps in BEFORE.into_iter().chain([AFTER]) {
        let stub = HubStub::start(Duration::ZERO, hub).expect("a stub");
        let (_, database_url) = fresh_database(testbed);
        let options = ["--hub-url", &stub.url()];
        let service =
            Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
        succeeds(&service, REPOS).await;
        let asked = [
            HubStub::ORGS,
            HubStub::INSTALLATIONS,
            HubStub::TOKEN,
            HubStub::REPOSITORIES,
            HubStub::BRANCHES,
            HubStub::TREE,
        ]
        .map(|route| stub.requests(route));
        assert_eq!(asked, [1, 1, 20, 20, 0, 0], "steps {steps}");
        // Somebody without an account at the hub.
        let unlinked = reqwest::Client::new()
            .get(service.url(REPOS))
            .header("authorization", "Bearer token-u-free")
            .send();
        assert_eq!(unlinked.await.expect("an answer").status(), 200);
        assert_eq!(stub.requests(HubStub::ORGS), 1, "steps {steps}");
    }
}

#[tokio::test]
async fn tokens_come_one_after_the_other_and_after_step_4_eight_at_once() {
    let testbed = shared_testbed();
    let hub = WatchedHub::start(Hub {
        installations: 16,
        repositories: 1,
    });
    for (steps, at, at_once) in [
        (BEFORE[0], At::Right, 1),
        (BEFORE[1], At::Right, 1),
        (BEFORE[2], At::Right, 1),
        (AFTER, At::Together(8), 8),
    ] {
        hub.watch(TOKENS, at);
        let (_, database_url) = fresh_database(testbed);
        let options = ["--hub-url", &hub.url];
        let service =
            Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
        succeeds(&service, REPOS).await;
        assert_eq!(hub.seen(), (16, at_once), "steps {steps}");
    }
}

#[tokio::test]
async fn lists_are_asked_for_to_their_end() {
    let testbed = shared_testbed();
    // A full page, and one more that is empty; a page that isn't full.
    for (installations, orgs) in [(100, 2), (99, 1)] {
        let hub = Hub {
            installations,
            repositories: 1,
        };
        for steps in ["0", AFTER] {
            let stub = HubStub::start(Duration::ZERO, hub).expect("a stub");
            let (_, database_url) = fresh_database(testbed);
            let options = ["--hub-url", &stub.url()];
            let service =
                Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
            let answer = reqwest::get(service.url("/api/v1/github/user-repos?search=org-&limit=1"));
            let body = answer.await.expect("an answer").text().await.expect("text");
            let total = format!(r#""total_count":{installations}"#);
            assert!(body.contains(&total), "steps {steps}: {body}");
            assert_eq!(stub.requests(HubStub::ORGS), orgs, "steps {steps}");
            assert_eq!(stub.requests(HubStub::INSTALLATIONS), orgs, "steps {steps}");
        }
    }
}

#[tokio::test]
async fn what_is_not_cached_is_asked_for_once_and_kept_for_an_hour() {
    let testbed = seeded_testbed();
    let redis = testbed.redis_address();
    let whole = OwnRedis::whole(&testbed);
    let hub = Hub {
        installations: 1,
        repositories: 1,
    };
    for (steps, opening, connections) in [
        ("start", &["ping"][..], 1),
        ("0", &["ping"], 1),
        ("0,1,2a,2b,2c,2d,2e,3", &[], 0),
        (AFTER, &[], 0),
    ] {
        whole.reset();
        let stub = HubStub::start(Duration::ZERO, hub).expect("a stub");
        let (_, database_url) = fresh_database(&testbed);
        let options = ["--hub-url", &stub.url()];
        let service =
            Service::start_state_with(steps, &database_url, &testbed.redis_url(), &options);
        let asked = async |path: &str| {
            ask(redis, "CONFIG RESETSTAT");
            succeeds(&service, path).await;
            let (commands, opened) = counted(redis);
            let of_hub = [HubStub::BRANCHES, HubStub::TREE].map(|route| stub.requests(route));
            (commands.into_iter().collect::<Vec<_>>(), opened, of_hub)
        };
        let commands = |names: &[&str]| {
            let mut all: Vec<(String, u64)> = [names, opening]
                .concat()
                .into_iter()
                .map(|name| (name.to_owned(), 1))
                .collect();
            all.sort();
            all
        };
        let (miss, hit) = (commands(&["get", "set"]), commands(&["get"]));
        let case = format!("steps {steps}");
        assert_eq!(
            asked(BRANCHES).await,
            (miss.clone(), connections, [1, 0]),
            "{case}"
        );
        assert_eq!(
            asked(BRANCHES).await,
            (hit.clone(), connections, [1, 0]),
            "{case}"
        );
        assert_eq!(
            asked(STRUCTURE).await,
            (miss, connections, [1, 1]),
            "{case}"
        );
        assert_eq!(asked(STRUCTURE).await, (hit, connections, [1, 1]), "{case}");
        // It looks nothing up, but the original opens the cache all the same.
        assert_eq!(
            asked(REPOS).await,
            (commands(&[]), connections, [1, 1]),
            "{case}"
        );
        for key in [
            "repo_branches:octo/project-7",
            "project_structure:p-1:exact_path_src:depth_4",
        ] {
            let ttl_s = whole.ask(&["TTL", key]).number();
            assert!((3590..=3600).contains(&ttl_s), "{case} {key}: {ttl_s}");
        }
    }
}
