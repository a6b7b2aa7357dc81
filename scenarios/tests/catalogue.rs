//! The shipped scenarios: they resolve without any input, and take what a real
//! service needs from the environment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use unstall_scenarios::plan::Request;
use unstall_scenarios::render::Variation;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan, ScenarioError, catalogue};

fn environment(pairs: &[(&str, &str)]) -> Inputs {
    Inputs {
        overrides: BTreeMap::new(),
        environment: pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// All that a user would send, as text.
fn sent(plan: Plan, user: u32) -> String {
    let plan = Arc::new(plan);
    let mut scope = Scope::new(Arc::clone(&plan), user, 50, 1);
    let setup: Vec<&Request> = plan
        .setup
        .iter()
        .filter(|setup| !scope.skips(setup))
        .map(|setup| &setup.request)
        .collect();
    if !setup.is_empty() {
        // What the setup's answer would bring.
        scope.prepare(BTreeMap::from([(
            "conversation_id".to_owned(),
            serde_json::json!("c-new"),
        )]));
    }
    let mut out = String::new();
    for request in setup.into_iter().chain(&plan.requests) {
        let rendered = request.render(&scope).unwrap();
        writeln!(out, "{} {}", rendered.method, rendered.path_and_query).unwrap();
        for (name, value) in &rendered.headers {
            writeln!(out, "{name}: {value}").unwrap();
        }
        writeln!(out, "{}", String::from_utf8(rendered.body).unwrap()).unwrap();
    }
    out
}

#[test]
fn every_shipped_scenario_has_the_name_it_is_listed_by() {
    let listed: Vec<String> = catalogue::list()
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(listed, catalogue::names().collect::<Vec<_>>());
    assert!(listed.is_sorted());
}

#[test]
fn without_inputs_who_writes_is_a_seeded_user_and_who_reads_sends_no_token() {
    let inputs = Inputs::default();
    insta::assert_snapshot!(sent(catalogue::open("usage-check", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("tunnel-github", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("share-access", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("auth", &inputs).unwrap(), 7));
}

#[test]
fn a_real_service_takes_its_values_from_the_environment() {
    let inputs = environment(&[
        ("AUTH_TOKEN", "t0k"),
        ("USER_ID", "someone"),
        ("PROJECT_ID", "p/9"),
        ("WORKSPACE_ID", "00000000000000ff"),
        ("REPO_NAME", "a/b c"),
        ("RECIPIENT_EMAIL", "guest@example.com"),
        ("USER_EMAIL", "someone@example.com"),
        ("SSO_PROVIDER", "azure"),
        ("ID_TOKEN", "eyJ"),
    ]);
    insta::assert_snapshot!(sent(catalogue::open("usage-check", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("tunnel-github", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("share-access", &inputs).unwrap(), 7));
    insta::assert_snapshot!(sent(catalogue::open("auth", &inputs).unwrap(), 7));
}

#[test]
fn the_tunnel_requests_can_be_built_once_and_those_of_a_user_once_per_user() {
    let inputs = Inputs::default();
    let tunnel = catalogue::open("tunnel-github", &inputs).unwrap();
    assert!(
        tunnel
            .requests
            .iter()
            .all(|request| request.variation(&tunnel) == Variation::Never)
    );
    let usage = catalogue::open("usage-check", &inputs).unwrap();
    let variations: Vec<Variation> = usage
        .requests
        .iter()
        .map(|request| request.variation(&usage))
        .collect();
    assert_eq!(variations, [Variation::User, Variation::User]);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let error = catalogue::open("usage-chek", &Inputs::default()).unwrap_err();
    insta::assert_snapshot!(error);
}

#[test]
fn an_override_must_be_a_variable_of_some_scenario() {
    let overrides = |name: &str| Inputs {
        overrides: BTreeMap::from([(name.to_owned(), "x".to_owned())]),
        environment: BTreeMap::new(),
    };
    let error = catalogue::open("tunnel-github", &overrides("user_id")).unwrap_err();
    assert!(matches!(error, ScenarioError::Override { .. }), "{error}");
    let error = catalogue::open("tunnel-github", &overrides("workspaceid")).unwrap_err();
    insta::assert_snapshot!(error);
    let both =
        catalogue::open_all(&["tunnel-github", "usage-check"], &overrides("user_id")).unwrap();
    assert_eq!(both.len(), 2);
}

/// The plan of the original names three levels; each scenario also has arrivals of its own times.
#[test]
fn every_scenario_that_measures_has_three_levels_and_an_open_load() {
    for name in catalogue::names() {
        let plan = catalogue::open(name, &Inputs::default()).unwrap();
        if name == "every-route" {
            continue;
        }
        assert_eq!(plan.load.concurrency, [10, 20, 50], "{name}");
        assert!(plan.load.open.is_some() && !plan.load.is_open(), "{name}");
        assert!(plan.probe.is_some(), "{name}");
    }
}

/// A weight is a percentage, and each endpoint is sent often enough to be seen.
#[test]
fn the_weights_of_a_day_add_up_to_a_hundred() {
    let plan = catalogue::open("mixed", &Inputs::default()).unwrap();
    assert_eq!(plan.requests_per_iteration(), 1);
    let weights = plan.requests.iter().map(|request| request.weight.unwrap());
    assert!((weights.clone().sum::<f64>() - 100.0).abs() < 1e-9);
    let iterations = plan.load.requests.unwrap();
    assert!(weights.fold(f64::INFINITY, f64::min) * iterations as f64 / 100.0 >= 10.0);
    // What is judged has the 40 requests of a p50 in every block; of the rest nothing would ever pass.
    for request in plan.requests.iter() {
        assert_eq!(
            request.judged,
            request.weight >= Some(2.0),
            "{}",
            request.name
        );
    }
}

#[test]
fn idle_streams_are_as_many_as_asked_for_and_send_what_a_stream_takes() {
    let with = |streams: &str| {
        let inputs = Inputs {
            overrides: BTreeMap::from([("idle_streams".to_owned(), streams.to_owned())]),
            environment: BTreeMap::new(),
        };
        catalogue::open("idle-streams", &inputs).unwrap()
    };
    assert!(with("0").background.is_none());
    assert_eq!(with("44").background.unwrap().users, 44);
    let plan = catalogue::open("idle-streams", &Inputs::default()).unwrap();
    // Each endpoint has its part of the few requests that a service which answers nobody gets.
    assert_eq!(plan.requests_per_iteration(), 1);
    assert!(
        plan.load.requests >= Some(3 * 450),
        "a p95 takes 400 of each"
    );
    let background = plan.background.clone().unwrap();
    assert_eq!(background.users, 1_000);
    let beside = Arc::clone(&background.plan);
    assert!(beside.background.is_none() && beside.setup.is_empty() && beside.probe.is_none());
    let mut scope = Scope::new(Arc::clone(&beside), 3, background.users, 1);
    scope.begin_iteration(0);
    scope.answer(BTreeMap::from([(
        "idle_conversation_id".to_owned(),
        serde_json::json!("c-3"),
    )]));
    let held = beside.requests[1].render(&scope).unwrap();
    assert_eq!(
        held.path_and_query,
        "/api/v1/conversations/c-3/message?stream=true&session_id=idle-3-0"
    );
    // They are another user's, whose messages nobody else's usage check counts.
    let token = ("authorization".to_owned(), "Bearer token-u-199".to_owned());
    assert!(held.headers.contains(&token), "{:?}", held.headers);
    // None of them is an endpoint of the record.
    assert!(plan.endpoints().all(|name| name != "hold a stream"));
}
