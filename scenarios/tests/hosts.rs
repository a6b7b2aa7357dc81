//! What goes to a service beside the target: nothing of the target's credentials, unless a request
//! says so itself.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use unstall_scenarios::import::{self, Options};
use unstall_scenarios::render::RenderedRequest;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan};

/// In every credential of the target.
const MARK: &str = "hush";

/// Headers of `[defaults]`, and whether they hold a credential.
const DEFAULTS: [(&str, &str, bool); 9] = [
    ("authorization", "Bearer ${token}", true),
    ("Authorization", "Basic hush", true),
    ("COOKIE", "sid=hush", true),
    ("cookie", "sid=${session}", true),
    ("x-api-key", "${token}", true),
    ("x-signed", "v1 ${plain}/${token}", true),
    ("x-extracted", "${session}", true),
    ("accept", "application/json", false),
    ("x-plain", "${plain}", false),
];

fn plan(text: &str) -> Arc<Plan> {
    match Plan::parse(text, Path::new("a.toml"), &Inputs::default()) {
        Ok(plan) => Arc::new(plan),
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// A setup that brings a session, and requests to the target and to another service.
fn scenario(defaults: &[(&str, &str, bool)], own: Option<&str>) -> Arc<Plan> {
    let headers: Vec<String> = defaults
        .iter()
        .map(|(name, value, _)| format!("{name} = '{value}'"))
        .collect();
    let own = own.map_or_else(String::new, |own| format!("headers = {{ {own} }}\n"));
    plan(&format!(
        "name = 'a'\n[vars]\ntoken = {{ env = 'T', default = '{MARK}-t', secret = true }}\nplain = 'p'\n\
         session = {{ default = '{MARK}-s' }}\n[hosts]\nother = 'http://127.0.0.1:9'\n\
         [defaults]\nheaders = {{ {} }}\n\
         [[setup]]\nname = 'in'\nmethod = 'GET'\npath = '/'\nhost = 'other'\n\
         extract = {{ session = {{ json = '/s', secret = true }} }}\n\
         [[request]]\nname = 'target'\nmethod = 'GET'\npath = '/'\n\
         [[request]]\nname = 'other'\nmethod = 'GET'\npath = '/'\nhost = 'other'\n{own}",
        headers.join(", ")
    ))
}

fn rendered(plan: &Arc<Plan>) -> Vec<RenderedRequest> {
    let scope = Scope::new(Arc::clone(plan), 0, 1, 0);
    let setup = plan.setup.iter().map(|setup| &setup.request);
    let requests = setup.chain(&plan.requests);
    requests
        .map(|request| request.render(&scope).unwrap())
        .collect()
}

proptest! {
    #[test]
    fn another_service_is_sent_no_credential_of_the_targets(
        chosen in prop::sample::subsequence(&DEFAULTS[..], 0..=DEFAULTS.len()),
    ) {
        let mut seen = Vec::new();
        let mut defaults = chosen;
        defaults.retain(|(name, ..)| {
            let name = name.to_ascii_lowercase();
            let is_new = !seen.contains(&name);
            seen.push(name);
            is_new
        });
        let sent = rendered(&scenario(&defaults, None));
        let [setup, target, other] = sent.as_slice() else {
            panic!("{} requests", sent.len());
        };
        prop_assert_eq!(target.headers.len(), defaults.len());
        let plain = defaults.iter().filter(|(.., is_credential)| !is_credential).count();
        for beside in [setup, other] {
            prop_assert_eq!(beside.headers.len(), plain, "{:?}", beside);
            let leaks = beside.headers.iter().any(|(_, value)| value.contains(MARK));
            prop_assert!(!leaks, "{beside:?}");
        }
    }
}

#[test]
fn what_a_request_says_itself_is_sent_wherever_it_goes() {
    let sent = rendered(&scenario(
        &DEFAULTS[..1],
        Some("authorization = 'Bearer ${token}'"),
    ));
    assert_eq!(sent[2].headers, sent[1].headers);
    assert_eq!(sent[2].headers[0].1, "Bearer hush-t");
}

#[test]
fn an_import_keeps_shared_credentials_where_they_were_sent() {
    for header in [
        "authorization: Bearer abcdefgh",
        "x-api-key: abcdefgh",
        "cookie: a=b",
    ] {
        let commands = format!(
            "curl https://a.example/1 -H '{header}' -H 'x-kind: k'\n\
             curl https://b.example/2 -H '{header}' -H 'x-kind: k'"
        );
        let imported = import::curl(&commands, &Options::default()).unwrap();
        let mut inputs = Inputs::default();
        for name in ["TOKEN", "X_API_KEY", "COOKIE"] {
            inputs.environment.insert(name.into(), "filled".into());
        }
        let plan = Plan::parse(&imported.text, Path::new("a.toml"), &inputs).unwrap();
        for request in rendered(&Arc::new(plan)) {
            let has = |value: &str| request.headers.iter().any(|(_, own)| own.contains(value));
            assert!(has("filled") && has("k"), "{}", imported.text);
        }
        assert!(imported.text.contains("[defaults]"), "{}", imported.text);
    }
}
