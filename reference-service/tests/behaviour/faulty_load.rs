//! What the scenarios of the steps ask, for as long as a test likes, while something breaks; and
//! what came of it, counted by request and kind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde_json::json;
use tokio::task::JoinSet;

use super::runs::messages;
use super::service::Service;

/// Users of each scenario.
const USERS: usize = 2;
/// Objects of a stream that comes to its end: queued, and a piece per word of the answer.
const OBJECTS: usize = 6;
/// Pause between two passes: a fault that answers at once must not fill the counts.
const PAUSE: Duration = Duration::from_millis(5);
/// A time that only a fault needs, on a busy machine, too. At step 0 each stop holds the loop for
/// most of a second, and whoever awaits something several times waits for several stops.
const PATIENCE: Duration = Duration::from_secs(300);

/// What came of a request.
pub(crate) const GOOD: &str = "good";
/// A stream that ended too soon, plainly.
pub(crate) const CUT_SHORT: &str = "cut short";

/// How often each request had which end.
pub(crate) type Tally = BTreeMap<(&'static str, String), u64>;

/// Every request of the load.
pub(crate) const REQUESTS: [&str; 15] = [
    "POST message",
    "GET active-session",
    "GET task-status",
    "POST conversations",
    "GET usage",
    "POST message to stop",
    "POST stop",
    "POST share",
    "GET shared-emails",
    "DELETE access",
    "POST sso-login",
    "GET providers-me",
    "GET workspace",
    "GET socket-status",
    "GET branch-list",
];

/// Users at work.
pub(crate) struct Load {
    tally: Arc<Mutex<Tally>>,
    enough: Arc<AtomicBool>,
    users: JoinSet<()>,
}

impl Load {
    pub(crate) fn start(service: &Service) -> Self {
        let tally = Arc::<Mutex<Tally>>::default();
        let enough = Arc::<AtomicBool>::default();
        let mut users = JoinSet::new();
        for number in 0..USERS {
            for scenario in Scenario::ALL {
                let user = User {
                    client: Client::new(),
                    service: service.url(""),
                    number,
                    tally: Arc::clone(&tally),
                };
                let enough = Arc::clone(&enough);
                users.spawn(async move {
                    let mut pass = 0;
                    while !enough.load(Ordering::Relaxed) {
                        scenario.pass(&user, pass).await;
                        pass += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                });
            }
        }
        Self {
            tally,
            enough,
            users,
        }
    }

    pub(crate) fn so_far(&self) -> Tally {
        lock(&self.tally).clone()
    }

    /// Waits until every request of these had this end, since the tally that is given.
    pub(crate) async fn until_each(&self, requests: &[&'static str], end: &str, since: &Tally) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.so_far();
            let is_missing = |request: &&&'static str| {
                let key = (**request, end.to_owned());
                now.get(&key) <= since.get(&key)
            };
            let missing: Vec<_> = requests.iter().filter(is_missing).collect();
            if missing.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "in {PATIENCE:?} {missing:?} had never this end: {end}\n{now:#?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Lets every pass come to its end.
    pub(crate) async fn end(mut self) -> Tally {
        self.enough.store(true, Ordering::Relaxed);
        while let Some(ended) = self.users.join_next().await {
            ended.expect("a user's pass");
        }
        self.so_far()
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone, Copy)]
enum Scenario {
    Streams,
    UsageCheck,
    ChatFlow,
    ShareAccess,
    Auth,
    TunnelGithub,
}

impl Scenario {
    const ALL: [Self; 6] = [
        Self::Streams,
        Self::UsageCheck,
        Self::ChatFlow,
        Self::ShareAccess,
        Self::Auth,
        Self::TunnelGithub,
    ];

    async fn pass(self, user: &User, pass: u64) {
        match self {
            Self::Streams => user.streams(pass).await,
            Self::UsageCheck => user.usage_check().await,
            Self::ChatFlow => user.chat_flow(pass).await,
            Self::ShareAccess => user.share_access().await,
            Self::Auth => user.auth().await,
            Self::TunnelGithub => user.tunnel_github().await,
        }
    }
}

struct User {
    client: Client,
    service: String,
    number: usize,
    tally: Arc<Mutex<Tally>>,
}

/// The status of a session that Redis has lost, and of a list of branches.
const NOT_THERE: u16 = 404;

impl User {
    fn count(&self, request: &'static str, end: impl Into<String>) {
        *lock(&self.tally).entry((request, end.into())).or_default() += 1;
    }

    /// One of the user's conversations. Each scenario has its own: a run that is stopped isn't to
    /// be another's latest session.
    fn conversation(&self, which: u32, rest: &str) -> String {
        format!("/api/v1/conversations/c-{}-{which}/{rest}", self.number)
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.service))
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.post(format!("{}{path}", self.service))
    }

    fn question(&self, path: &str) -> reqwest::RequestBuilder {
        let form = "application/x-www-form-urlencoded";
        let post = self.post(path).header("content-type", form);
        post.body("content=three+short+words")
    }

    /// Sends it, and counts what comes unless it is good: that the caller has to see to.
    async fn send(&self, name: &'static str, request: reqwest::RequestBuilder) -> Option<Response> {
        let token = format!("Bearer token-u-{}", self.number);
        match request.header("authorization", token).send().await {
            Ok(answer) if answer.status().is_success() => Some(answer),
            Ok(answer) => {
                let status = answer.status().as_u16();
                match answer.text().await {
                    Ok(body) => self.count(name, format!("{status} {body}")),
                    Err(error) => self.count(name, format!("{status}, no body: {error:?}")),
                }
                None
            }
            Err(error) => {
                self.count(name, format!("no answer: {error:?}"));
                None
            }
        }
    }

    /// Sends it and counts what comes. True if it is good.
    async fn ask(&self, name: &'static str, request: reqwest::RequestBuilder) -> bool {
        let Some(answer) = self.send(name, request).await else {
            return false;
        };
        let end = match answer.text().await {
            Ok(_) => GOOD.to_owned(),
            Err(error) => format!("no body: {error:?}"),
        };
        let is_good = end == GOOD;
        self.count(name, end);
        is_good
    }

    async fn streams(&self, pass: u64) {
        let query = format!("prev_human_message_id=m-{}-{pass}", self.number);
        let path = self.conversation(1, &format!("message?{query}"));
        let question = self.question(&path);
        if let Some(answer) = self.send("POST message", question).await {
            let end = match answer.text().await {
                Ok(body) if messages(&body).len() == OBJECTS => GOOD.to_owned(),
                Ok(_) => CUT_SHORT.to_owned(),
                Err(error) => format!("no whole body: {error:?}"),
            };
            self.count("POST message", end);
        }
        for name in ["GET active-session", "GET task-status"] {
            let path = self.conversation(1, &name["GET ".len()..]);
            self.ask(name, self.get(&path)).await;
        }
    }

    async fn usage_check(&self) {
        let new = json!({ "user_id": "x", "title": "t", "status": "active",
                          "project_ids": ["p-1"], "agent_ids": ["a-1"] });
        let create = self.post("/api/v1/conversations").json(&new);
        self.ask("POST conversations", create).await;
        let span = "start_date=2000-01-01&end_date=2100-01-01";
        let usage = self.get(&format!("/api/v1/usage/usage?{span}"));
        self.ask("GET usage", usage).await;
    }

    /// Stops the answer after its first object.
    async fn chat_flow(&self, pass: u64) {
        let session = format!("session_id=stop-{}-{pass}", self.number);
        let path = self.conversation(3, &format!("message?{session}"));
        let question = self.question(&path);
        let Some(mut stream) = self.send("POST message to stop", question).await else {
            return;
        };
        let begun = matches!(stream.chunk().await, Ok(Some(_)));
        let stop = self.post(&self.conversation(3, &format!("stop?{session}")));
        self.ask("POST stop", stop).await;
        let end = match (begun, stream.text().await) {
            (true, Ok(_)) => GOOD.to_owned(),
            (false, Ok(_)) => CUT_SHORT.to_owned(),
            (_, Err(error)) => format!("no whole body: {error:?}"),
        };
        self.count("POST message to stop", end);
    }

    async fn share_access(&self) {
        let email = "a@b.test";
        let conversation = format!("c-{}-2", self.number);
        let share = json!({ "conversation_id": conversation, "recipientEmails": [email] });
        let share = self.post("/api/v1/conversations/share").json(&share);
        let is_shared = self.ask("POST share", share).await;
        let path = format!("/api/v1/conversations/{conversation}");
        let emails = self.get(&format!("{path}/shared-emails"));
        self.ask("GET shared-emails", emails).await;
        // With nobody it is a mistake.
        if is_shared {
            let access = format!("{}{path}/access", self.service);
            let access = self
                .client
                .delete(access)
                .json(&json!({ "emails": [email] }));
            self.ask("DELETE access", access).await;
        }
    }

    async fn auth(&self) {
        let email = format!("u-{}@example.test", self.number);
        let token = json!({ "email": email, "sso_provider": "google",
                            "id_token": format!("id-token-{email}") });
        let login = self.post("/api/v1/sso/login").json(&token);
        self.ask("POST sso-login", login).await;
        self.ask("GET providers-me", self.get("/api/v1/providers/me"))
            .await;
    }

    async fn tunnel_github(&self) {
        let workspace = "/api/v1/tunnel/workspace/00000000000000ff";
        self.ask("GET workspace", self.get(workspace)).await;
        let status = self.get(&format!("{workspace}/socket-status"));
        self.ask("GET socket-status", status).await;
        let branches = "/api/v1/github/get-branch-list?repo_name=octo/hello";
        self.ask("GET branch-list", self.get(branches)).await;
    }
}

/// What was killed under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    Nothing,
    Worker,
    Server(&'static str),
}

/// Fails if a request had an end that the fault doesn't explain: it answers 503 and names the
/// server, a stream ends plainly, and what Redis lost is not there.
pub(crate) fn assert_explained(tally: &Tally, killed: Killed, steps: &str) {
    let lost = match killed {
        Killed::Server(server) => Some(server),
        Killed::Nothing | Killed::Worker => None,
    };
    let refusal = lost.map(|server| {
        let detail = format!("{server} can't be reached; try again");
        format!("503 {}", json!({ "detail": detail }))
    });
    for ((request, end), count) in tally {
        let is_explained = match end.as_str() {
            GOOD => true,
            CUT_SHORT => killed != Killed::Nothing,
            end if end.starts_with(&format!("{NOT_THERE} ")) => lost == Some("Redis"),
            end => Some(end) == refusal.as_deref(),
        };
        assert!(
            is_explained,
            "steps {steps}: {count} × {request}: {end}\n{tally:#?}"
        );
    }
}
