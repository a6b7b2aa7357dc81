//! What is drawn by the seed: which alternative an iteration sends, pauses, random values. Two
//! versions of a service must be asked for the same things.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_scenarios::render::Variation;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan};

fn plan(text: &str) -> Arc<Plan> {
    Arc::new(Plan::parse(text, Path::new("a.toml"), &Inputs::default()).unwrap())
}

fn weighted() -> Arc<Plan> {
    plan(
        "name = 'a'\n\
         [[request]]\nname = 'first'\nmethod = 'GET'\npath = '/'\n\
         [[request]]\nname = 'often'\nweight = 3\nmethod = 'GET'\npath = '/o'\n\
         [[request]]\nname = 'seldom'\nweight = 1\nmethod = 'GET'\npath = '/s'\n\
         [[request]]\nname = 'between'\nmethod = 'GET'\npath = '/b'\n\
         [[request]]\nname = 'x'\nweight = 0.5\nmethod = 'GET'\npath = '/x'\n\
         [[request]]\nname = 'y'\nweight = 0.5\nmethod = 'GET'\npath = '/y'\n",
    )
}

/// The requests that each iteration of each user sends, by their indices.
fn taken(plan: &Arc<Plan>, seed: u64, users: u32, iterations: u64) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for user in 0..users {
        let mut scope = Scope::new(Arc::clone(plan), user, users, seed);
        for iteration in 0..iterations {
            scope.begin_iteration(iteration);
            let requests = 0..plan.requests.len();
            all.push(requests.filter(|index| scope.takes(*index)).collect());
        }
    }
    all
}

#[test]
fn each_iteration_sends_one_alternative_of_each_group() {
    let plan = weighted();
    assert_eq!(plan.requests_per_iteration(), 4);
    let all = taken(&plan, 1, 10, 400);
    let mut counts = BTreeMap::new();
    for requests in &all {
        assert_eq!(requests.len(), 4, "{requests:?}");
        assert!(
            requests.contains(&0) && requests.contains(&3),
            "{requests:?}"
        );
        assert_ne!(requests.contains(&1), requests.contains(&2), "{requests:?}");
        assert_ne!(requests.contains(&4), requests.contains(&5), "{requests:?}");
        for request in requests {
            *counts.entry(*request).or_insert(0_u32) += 1;
        }
    }
    // 4 000 draws of 3/4: a standard deviation is 27.
    assert!((2_890..=3_110).contains(&counts[&1]), "{counts:?}");
    assert!((1_850..=2_150).contains(&counts[&4]), "{counts:?}");
    // The two groups don't draw alike.
    let together = all
        .iter()
        .filter(|r| r.contains(&1) && r.contains(&4))
        .count();
    assert!((1_370..=1_630).contains(&together), "{together}");
}

#[test]
fn a_seed_means_the_same_draws_and_another_one_others() {
    let plan = weighted();
    assert_eq!(taken(&plan, 7, 5, 20), taken(&plan, 7, 5, 20));
    assert_ne!(taken(&plan, 7, 5, 20), taken(&plan, 8, 5, 20));
}

#[test]
fn an_arrivals_draws_are_its_own_whoever_serves_it() {
    let plan = plan(
        "name = 'a'\n[vars]\nid = { random = 'uuid' }\n\
         [[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${id}'\nthink = { mean = '1s' }\n",
    );
    let drawn = |user, arrival| {
        let mut scope = Scope::new(Arc::clone(&plan), user, 8, 3);
        scope.begin_arrival(arrival);
        let path = plan.requests[0].render(&scope).unwrap().path_and_query;
        (path, scope.think(0))
    };
    assert_eq!(drawn(0, 41), drawn(5, 41));
    assert_ne!(drawn(0, 41), drawn(0, 42));
}

#[test]
fn random_values_last_an_iteration() {
    let plan = plan(
        "name = 'a'\n[vars]\nid = { random = 'uuid' }\nother = { random = 'uuid' }\n\
         n = { random = 'int', min = -1, max = 1 }\nc = { random = 'choice', of = ['a', 2, true] }\n\
         t = { random = 'text', length = 8 }\n\
         [[request]]\nname = 'r'\nmethod = 'POST'\npath = '/${id}'\n\
         json = ['${id}', '${other}', '${n}', '${c}', '${t}']\n\
         [[request]]\nname = 's'\nmethod = 'GET'\npath = '/${id}'\n",
    );
    assert_eq!(plan.requests[0].variation(&plan), Variation::Iteration);
    let mut ids = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for user in 0..3 {
        let mut scope = Scope::new(Arc::clone(&plan), user, 3, 1);
        // The setup's values are none of an iteration's.
        ids.insert(plan.requests[1].render(&scope).unwrap().path_and_query);
        for iteration in 0..50 {
            scope.begin_iteration(iteration);
            let sent = plan.requests[0].render(&scope).unwrap();
            assert_eq!(sent, plan.requests[0].render(&scope).unwrap());
            let path = plan.requests[1].render(&scope).unwrap().path_and_query;
            let values: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
            assert_eq!(path, format!("/{}", values[0].as_str().unwrap()));
            assert_ne!(values[0], values[1], "two variables of one kind differ");
            assert!((-1..=1).contains(&values[2].as_i64().unwrap()));
            assert_eq!(values[4].as_str().unwrap().len(), 8);
            kinds.insert(values[3].to_string());
            assert!(ids.insert(path), "{ids:?}");
        }
    }
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["\"a\"", "2", "true"]
    );
}

#[test]
fn pauses_are_fixed_or_drawn() {
    let plan = plan(
        "name = 'a'\n\
         [[request]]\nname = 'none'\nmethod = 'GET'\npath = '/'\n\
         [[request]]\nname = 'fixed'\nmethod = 'GET'\npath = '/'\nthink = '5ms'\n\
         [[request]]\nname = 'uniform'\nmethod = 'GET'\npath = '/'\nthink = { min = '5ms', max = '15ms' }\n\
         [[request]]\nname = 'exponential'\nmethod = 'GET'\npath = '/'\nthink = { mean = '10ms' }\n",
    );
    let mut scope = Scope::new(Arc::clone(&plan), 0, 1, 1);
    let mut drawn = BTreeSet::new();
    for iteration in 0..200 {
        scope.begin_iteration(iteration);
        assert_eq!(scope.think(0), Duration::ZERO);
        assert_eq!(scope.think(1), Duration::from_millis(5));
        let uniform = scope.think(2);
        assert!((5..=15).contains(&uniform.as_millis()), "{uniform:?}");
        assert!(scope.think(3) < Duration::from_millis(370));
        assert_eq!(scope.think(2), uniform, "a repeated look is the same pause");
        drawn.insert(uniform);
    }
    assert!(drawn.len() > 190);
    assert_eq!(scope.think(4), Duration::ZERO);
}

#[test]
fn a_given_value_takes_a_random_variables_place() {
    let text = "name = 'a'\n[vars]\nid = { random = 'uuid' }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${id}'\n";
    let inputs = Inputs {
        overrides: BTreeMap::from([("id".to_owned(), "u-1".to_owned())]),
        ..Inputs::default()
    };
    let plan = Arc::new(Plan::parse(text, Path::new("a.toml"), &inputs).unwrap());
    let scope = Scope::new(Arc::clone(&plan), 0, 1, 1);
    assert_eq!(
        plan.requests[0].render(&scope).unwrap().path_and_query,
        "/u-1"
    );
}

#[test]
fn clients_and_hosts_are_what_the_file_says() {
    use unstall_scenarios::plan::{ClientBehaviour, HttpVersion, Reuse};
    let request = "[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/'\n";
    let plain = plan(&format!("name = 'a'\n{request}"));
    assert_eq!(plain.client, ClientBehaviour::default());
    assert_eq!(plain.client.redirects_max, 0);
    assert!(plain.hosts.is_empty());
    let text = "name = 'a'\n[vars]\nport = 9001\nregion = { env = 'REGION', default = 'eu' }\n\
                [client]\nhttp = '2'\nreuse = 'never'\nredirects_max = 3\ncookies = true\ncompression = true\n\
                [hosts]\nidentity = 'http://${region}.test:${port}/base/'\nlocal = 'unix:/run/app.sock'\n";
    let full = plan(&format!("{text}{request}host = 'identity'\n"));
    let expected = ClientBehaviour {
        http: HttpVersion::Http2,
        reuse: Reuse::Never,
        redirects_max: 3,
        cookies: true,
        compression: true,
    };
    assert_eq!(full.client, expected);
    assert_eq!(full.hosts["identity"], "http://eu.test:9001/base");
    assert_eq!(full.hosts["local"], "unix:/run/app.sock");
    assert_eq!(full.requests[0].host.as_deref(), Some("identity"));
}

#[test]
fn named_files_are_part_of_a_scenarios_identity() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = 'a'\n[vars]\nv = { file = 'rows.csv', column = 'v' }\n\
                [[request]]\nname = 'r'\nmethod = 'POST'\npath = '/${v}'\n\
                body = { file = 'body.bin' }\ncontent_type = 'application/x-test'\n";
    let path = folder.path().join("a.toml");
    std::fs::write(&path, text).unwrap();
    let identity = |rows: &str, body: &[u8]| {
        std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
        std::fs::write(folder.path().join("body.bin"), body).unwrap();
        let plan = Arc::new(Plan::load(&path, &Inputs::default()).unwrap());
        let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
        let sent = plan.requests[0].render(&scope).unwrap();
        assert_eq!(sent.body, body);
        assert_eq!(
            sent.headers,
            [("content-type".to_owned(), "application/x-test".to_owned())]
        );
        plan.sha256.clone()
    };
    let first = identity("v\na\n", b"\x00\xff1");
    assert_eq!(first, identity("v\na\n", b"\x00\xff1"));
    assert_ne!(first, identity("v\nb\n", b"\x00\xff1"));
    assert_ne!(first, identity("v\na\n", b"\x00\xff2"));
}
