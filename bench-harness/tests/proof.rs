//! `unstall prove` on the reference service, with private servers: what is async is proven, what
//! blocks is named with its line and its server, and what nobody asked for is unproven.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use unstall_testbed::{
    GuardedCommand, Hub, HubStub, IdentityStub, ListenerStub, Options, StopSignal, Testbed,
    TrackerStub,
};

const TEMPLATE: &str = "proof_template";
/// Every step that has stores.
const ALL: &str = "0,1,2a,2b,2c,2d,2e,3,4,5,6";
/// What the code host has.
const HUB: Hub = Hub {
    installations: 2,
    repositories: 5,
};
/// Where the blocking stores are.
const VARIANTS: &str = "reference-service/src/variants/blocking/";

/// The servers behind the service, shared by all tests; the testbed's guard ends them.
struct Stand {
    testbed: Testbed,
    identity: IdentityStub,
    hub: HubStub,
    tracker: TrackerStub,
    listener: ListenerStub,
    _worker: Child,
    database_url: String,
    reference: PathBuf,
}

/// One proof of the reference service.
struct Proved {
    code: i32,
    document: Value,
    said: String,
}

/// `unstall-reference` is another package's program: `cargo build --workspace --bins` makes it.
fn stand() -> Option<&'static Stand> {
    static STAND: OnceLock<Option<Stand>> = OnceLock::new();
    let stand = STAND.get_or_init(|| {
        let reference =
            Path::new(env!("CARGO_BIN_EXE_unstall")).with_file_name("unstall-reference");
        reference.exists().then(|| start(reference))
    });
    if stand.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "unstall-reference is missing"
        );
        eprintln!("skipped: unstall-reference is not built (cargo build --workspace --bins)");
    }
    stand.as_ref()
}

fn start(reference: PathBuf) -> Stand {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    let succeed = |arguments: &[&str]| {
        let status = Command::new(&reference).args(arguments).status();
        assert!(status.expect("it starts").success(), "{arguments:?}");
    };
    testbed
        .create_template(TEMPLATE, |url| {
            succeed(&["migrate", "--database-url", url]);
            succeed(&["seed", "--database-url", url]);
            Ok(())
        })
        .expect("the template is made");
    succeed(&["seed", "--redis-url", &testbed.redis_url()]);
    let database_url = testbed
        .reset_database(TEMPLATE, "proof")
        .expect("the database is cloned");
    let mut worker = GuardedCommand::new(&reference);
    worker
        .command()
        .args(["worker", "--rate", "50", "--chunks", "10"])
        .args(["--database-url", &database_url])
        .args(["--redis-url", &testbed.redis_url()])
        .stdout(Stdio::null());
    let worker = testbed.guard().spawn(worker, StopSignal::Term);
    Stand {
        _worker: worker.expect("the worker starts"),
        identity: IdentityStub::start(Duration::ZERO).expect("an identity service"),
        hub: HubStub::start(Duration::ZERO, HUB).expect("a code host"),
        tracker: TrackerStub::start(Duration::ZERO, 10).expect("an issue tracker"),
        listener: ListenerStub::start(Duration::ZERO).expect("mail and analytics"),
        testbed,
        database_url,
        reference,
    }
}

impl Stand {
    /// Proves the service with these steps, by one scenario, anew where a lock was met by chance.
    fn prove(&self, name: &str, scenario: &str, steps: &str) -> Proved {
        let proofs = (1..=3).map(|attempt| self.prove_once(name, attempt, scenario, steps));
        let mut met_locks = None;
        for proved in proofs {
            if !proved.met_a_lock_by_chance() {
                return proved;
            }
            eprintln!("once more: {}", proved.said);
            met_locks = Some(proved);
        }
        met_locks.expect("three proofs")
    }

    /// Each proof has new accounts of its own, under its name.
    fn prove_once(&self, name: &str, attempt: u32, scenario: &str, steps: &str) -> Proved {
        let target = format!(
            "'{}' --steps {steps} --port {{port}}",
            self.reference.display()
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
        command
            .args(["prove", scenario, "--target", &target, "--json"])
            .env("DATABASE_URL", &self.database_url)
            .env("REDIS_URL", self.testbed.redis_url())
            .env("NOTIFY_URL", self.identity.hook_url())
            .env("IDENTITY_URL", self.identity.url())
            .env("HUB_URL", self.hub.url())
            .env("TRACKER_URL", self.tracker.url())
            .env("MAIL_URL", self.listener.mail_url())
            .env("ANALYTICS_URL", self.listener.analytics_url())
            .env("UNSTALL_COMMIT", name);
        if scenario == "every-route" {
            let accounts = format!("new_accounts={name}-{attempt}");
            // One round for each of the two users.
            command.args(["--requests", "2", "--var", &accounts]);
        }
        let output = command.output().expect("unstall starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("one JSON document ({error}): {said}"));
        Proved {
            code: output.status.code().expect("no signal"),
            document,
            said,
        }
    }
}

impl Proved {
    fn routes(&self) -> &Vec<Value> {
        let routes = self.document["proof"]["routes"].as_array();
        routes.unwrap_or_else(|| panic!("a proof: {}", self.said))
    }

    fn with_verdict(&self, verdict: &str) -> Vec<&str> {
        let routes = self.routes().iter();
        routes
            .filter(|route| route["verdict"] == verdict)
            .map(|route| route["route"].as_str().expect("a route"))
            .collect()
    }

    /// A lock of a library that another thread holds for an instant, so of the runtime's timers, is
    /// waited for now and then, in any state. The proof says so, rightly; but it isn't a step's.
    fn met_a_lock_by_chance(&self) -> bool {
        let blocking = self
            .routes()
            .iter()
            .filter(|of| of["verdict"] == "blocking");
        let mut findings = blocking.map(|route| route["findings"].as_array().expect("findings"));
        findings.any(|of| {
            let mut all = of.iter();
            !of.is_empty()
                && all.all(|finding| {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let is_lock = text(&finding["sentence"]).starts_with("lock in futex");
                    is_lock && !text(&finding["blamed"]["file"]).contains(VARIANTS)
                })
        })
    }

    /// Whether this kernel can't catch calls: then there is nothing to prove, and it must say so.
    fn is_blind(&self) -> bool {
        let reason = &self.document["proof"]["unsupported"];
        if let Some(reason) = reason.as_str() {
            assert_eq!(self.code, 1, "{}", self.said);
            eprintln!("skipped: no proof here: {reason}");
            return true;
        }
        false
    }
}

#[test]
fn with_all_steps_async_every_route_is_proven() {
    let Some(stand) = stand() else { return };
    let proved = stand.prove("all", "every-route", ALL);
    if proved.is_blind() {
        return;
    }
    assert_eq!(proved.code, 0, "{}", proved.said);
    assert_eq!(proved.document["verdict"], "proven");
    assert_eq!(proved.document["proof"]["commit"], "all");
    assert_eq!(proved.with_verdict("proven").len(), proved.routes().len());
    assert!(proved.routes().len() >= 39, "{}", proved.said);
    for route in proved.routes() {
        assert!(route["requests"].as_u64() > Some(0), "{route}");
        assert_eq!(route["failures"], serde_json::json!([]), "{route}");
    }
}

#[test]
fn a_route_that_no_scenario_asks_for_is_unproven() {
    let Some(stand) = stand() else { return };
    let proved = stand.prove("usage", "usage-check", ALL);
    if proved.is_blind() {
        return;
    }
    assert_eq!(proved.code, 1, "{}", proved.said);
    assert_eq!(proved.document["verdict"], "unproven");
    assert_eq!(
        proved.with_verdict("proven"),
        [
            "GET /api/v1/usage/usage",
            "GET /health",
            "POST /api/v1/conversations"
        ]
    );
    assert!(
        proved
            .with_verdict("unproven")
            .contains(&"POST /api/v1/signup"),
        "{}",
        proved.said
    );
}

/// A step that has not landed: the files of its blocking stores, the server they wait for, and
/// the routes that use them.
struct Blocking {
    step: &'static str,
    files: &'static [&'static str],
    server: &'static str,
    routes: &'static [&'static str],
}

const BLOCKING: [Blocking; 9] = [
    Blocking {
        step: "1",
        files: &["streams.rs"],
        server: "redis",
        routes: &[
            "GET /api/v1/conversations/{id}/active-session",
            "GET /api/v1/conversations/{id}/task-status",
            "POST /api/v1/conversations/{id}/message",
            "POST /api/v1/conversations/{id}/regenerate",
            "POST /api/v1/conversations/{id}/resume/{session_id}",
            "POST /api/v1/conversations/{id}/stop",
            "POST /api/v2/conversations/{id}/message",
            "POST /api/v2/conversations/{id}/message/",
            "POST /api/v2/conversations/{id}/stop",
            "POST /api/v2/conversations/{id}/stop/",
        ],
    },
    Blocking {
        step: "2a",
        files: &["postgres.rs"],
        server: "postgres",
        routes: &[
            "GET /api/v1/usage/usage",
            "POST /api/v1/conversations",
            "POST /api/v1/conversations/{id}/message",
            "POST /api/v1/conversations/{id}/regenerate",
            "POST /api/v2/conversations",
            "POST /api/v2/conversations/",
            "POST /api/v2/conversations/{id}/message",
            "POST /api/v2/conversations/{id}/message/",
        ],
    },
    Blocking {
        step: "2b",
        files: &["history.rs"],
        server: "postgres",
        routes: &[
            "POST /api/v1/conversations/{id}/stop",
            "POST /api/v2/conversations/{id}/stop",
            "POST /api/v2/conversations/{id}/stop/",
        ],
    },
    Blocking {
        step: "2c",
        // Whose a key is stands beside the search that it was made for.
        files: &["search.rs", "sharing.rs"],
        server: "postgres",
        routes: &[
            "DELETE /api/v1/conversations/{id}/access",
            "GET /api/v1/conversations/{id}/shared-emails",
            "POST /api/v1/conversations/share",
            "POST /api/v2/conversations",
            "POST /api/v2/conversations/",
            "POST /api/v2/conversations/{id}/message",
            "POST /api/v2/conversations/{id}/message/",
            "POST /api/v2/conversations/{id}/stop",
            "POST /api/v2/conversations/{id}/stop/",
            "POST /api/v2/search",
            "POST /api/v2/search/",
        ],
    },
    Blocking {
        step: "2d",
        files: &["auth.rs"],
        server: "postgres",
        routes: &[
            "GET /api/v1/providers/me",
            "GET /api/v1/providers/me/",
            "POST /api/v1/signup",
            "POST /api/v1/signup/",
            "POST /api/v1/sso/login",
            "POST /api/v1/sso/login/",
        ],
    },
    Blocking {
        step: "2e",
        files: &["repositories.rs"],
        server: "postgres",
        routes: &[
            "GET /api/v1/github/project-structure",
            "GET /api/v1/github/project-structure/",
            "GET /api/v1/github/user-repos",
            "GET /api/v1/github/user-repos/",
        ],
    },
    Blocking {
        step: "3",
        files: &["code_cache.rs", "redis.rs"],
        server: "redis",
        routes: &[
            "GET /api/v1/github/get-branch-list",
            "GET /api/v1/github/get-branch-list/",
            "GET /api/v1/github/project-structure",
            "GET /api/v1/github/project-structure/",
            "GET /api/v1/github/user-repos",
            "GET /api/v1/github/user-repos/",
            "GET /api/v1/tunnel/workspace/{id}",
            "GET /api/v1/tunnel/workspace/{id}/socket-status",
        ],
    },
    Blocking {
        step: "4",
        files: &["hub.rs", "notifier.rs", "service_client.rs"],
        server: "127.0.0.1:",
        routes: &[
            "GET /api/v1/github/user-repos",
            "GET /api/v1/github/user-repos/",
            "GET /api/v1/integrations/issues/{id}",
            "POST /api/v1/conversations",
            "POST /api/v1/conversations/share",
            "POST /api/v1/conversations/{id}/message",
            "POST /api/v1/login",
            "POST /api/v1/login/",
            "POST /api/v1/signup/",
            "POST /api/v2/conversations",
            "POST /api/v2/conversations/",
            "POST /api/v2/conversations/{id}/message",
            "POST /api/v2/conversations/{id}/message/",
        ],
    },
    Blocking {
        step: "5",
        files: &["search.rs"],
        server: "postgres",
        routes: &[
            "POST /api/v1/search",
            "POST /api/v1/search/",
            "POST /api/v2/search",
            "POST /api/v2/search/",
        ],
    },
];

#[test]
fn each_step_that_has_not_landed_is_named_with_its_lines_and_its_server() {
    let Some(stand) = stand() else { return };
    for blocking in BLOCKING {
        let steps: Vec<&str> = ALL.split(',').filter(|id| *id != blocking.step).collect();
        let name = format!("without-{}", blocking.step);
        let proved = stand.prove(&name, "every-route", &steps.join(","));
        if proved.is_blind() {
            return;
        }
        assert_eq!(proved.code, 1, "{name}: {}", proved.said);
        assert_eq!(proved.document["verdict"], "blocking", "{name}");
        assert_eq!(
            proved.with_verdict("blocking"),
            blocking.routes,
            "{name}: {}",
            proved.said
        );
        assert_eq!(proved.with_verdict("unproven"), [""; 0], "{name}");
        for route in proved.routes() {
            if route["verdict"] == "blocking" {
                assert_names_its_lines(&blocking, route);
            }
        }
    }
}

/// Every finding is blamed on a line of the blocking stores, and one at least comes through the
/// step's own file and is about its server.
#[track_caller]
fn assert_names_its_lines(blocking: &Blocking, route: &Value) {
    let findings = route["findings"].as_array().expect("findings");
    let mut names_its_own = false;
    for finding in findings {
        let file = finding["blamed"]["file"].as_str().unwrap_or_default();
        assert!(file.contains(VARIANTS), "{finding:#}");
        assert!(finding["blamed"]["line"].as_u64() > Some(0), "{finding:#}");
        let target = finding["target"].as_str().unwrap_or_default();
        let stack = finding["stack"].as_array().expect("a stack");
        let comes_through = |frame: &Value| {
            let file = frame["file"].as_str().unwrap_or_default();
            file.contains(VARIANTS) && blocking.files.iter().any(|own| file.ends_with(own))
        };
        names_its_own |= stack.iter().any(comes_through) && target.contains(blocking.server);
    }
    assert!(names_its_own, "{}: {route:#}", blocking.step);
}
