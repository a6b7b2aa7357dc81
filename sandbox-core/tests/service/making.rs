//! Getting a workspace: the same one for the same question, made once, and nothing left when it fails.

use std::collections::HashSet;
use std::sync::Arc;

use unstall_sandbox_core::domain::{
    BaseRef, ConflictCause, RepoUrl, SandboxError, UrlSchemes, WorkspaceError, WorkspaceId,
    WorkspaceState,
};
use unstall_sandbox_core::ports::store::{SandboxStore, WorkspaceQuota};
use unstall_sandbox_core::service::ServiceError;

use crate::bench::{Bench, branch, git};

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_this_machine_is_nobodys_repository_unless_that_is_allowed() {
    let bench = Bench::new().await;
    let usual = bench
        .worker_with(|settings| settings.schemes = UrlSchemes::default())
        .await;
    let refused = |done: Result<(), ServiceError>| {
        let Err(ServiceError::Sandbox(SandboxError::Scheme(error))) = done else {
            panic!("a folder isn't to be read: {done:?}");
        };
        let told = error.to_string();
        assert!(told.contains("UNSTALL_SANDBOX_SCHEMES=file"), "{told}");
    };
    let asked = bench.edits("c");
    refused(usual.get_or_create_workspace(&asked).await.map(drop));
    refused(usual.prepare_for(&asked).await.map(drop));
    assert!(usual.all_caches().await.expect("listed").is_empty());
    // Nor is one served or pushed that was made when it was allowed.
    let made = bench
        .worker()
        .await
        .get_or_create_workspace(&asked)
        .await
        .expect("made");
    refused(usual.get_or_create_workspace(&asked).await.map(drop));
    refused(usual.push(made.id, None).await.map(drop));
    // By ssh it would be this process's own keys that decide.
    let mut by_ssh = bench.edits("d");
    let url = "ssh://git@127.0.0.1:1/octo/hello";
    by_ssh.repo_url = Some(RepoUrl::parse(url).expect("a URL"));
    let told = usual.get_or_create_workspace(&by_ssh).await;
    let told = told.expect_err("ssh isn't allowed").to_string();
    assert!(told.contains("--allow-scheme ssh"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_again_gets_the_same_tree_with_its_edits_whichever_worker_is_asked() {
    let bench = Bench::new().await;
    let (one, other) = (bench.worker().await, bench.worker().await);
    let first = one
        .acquire_session(&bench.edits("c"))
        .await
        .expect("made")
        .workspace;
    let tree = one.tree_of(&first).expect("a path");
    std::fs::write(tree.join("edit"), "mine").expect("a file");
    let again = other
        .acquire_session(&bench.edits("c"))
        .await
        .expect("served")
        .workspace;
    assert_eq!(again.id, first.id);
    assert_eq!(again.branch_name, Some(branch("agent/edits-c")));
    let text = std::fs::read_to_string(tree.join("edit")).expect("it is kept");
    assert_eq!(text, "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_thirty_who_ask_at_once_one_makes_it_and_as_many_others_get_their_own() {
    // More by UNSTALL_SANDBOX_SESSIONS: 1000 take minutes.
    let others = std::env::var("UNSTALL_SANDBOX_SESSIONS").ok();
    let others: usize = others.map_or(30, |count| count.parse().expect("a number of sessions"));
    let bench = Arc::new(Bench::new().await);
    let many = |settings: &mut unstall_sandbox_core::service::Settings| {
        settings.quota.per_user_max = 10_000;
        settings.quota.total_max = 10_000;
    };
    let workers = [bench.worker_with(many).await, bench.worker_with(many).await];
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..30 + others {
        let (bench, worker) = (Arc::clone(&bench), Arc::clone(&workers[number % 2]));
        asked.spawn(async move {
            let conversation = if number < 30 {
                "same".to_owned()
            } else {
                format!("c{number}")
            };
            let made = worker
                .get_or_create_workspace(&bench.edits(&conversation))
                .await;
            (conversation, made.expect("made or served").id)
        });
    }
    let got = asked.join_all().await;
    let ids: HashSet<WorkspaceId> = got.iter().map(|(_, id)| *id).collect();
    assert_eq!(ids.len(), 1 + others);
    let caches = workers[0].all_caches().await.expect("listed");
    assert_eq!(caches.len(), 1, "one clone for all");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_another_branch_than_they_asked_for() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let mut asked = bench.edits("c");
    asked.branch_name = Some(branch("other"));
    asked.create_branch = true;
    let refused = worker.get_or_create_workspace(&asked).await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Sandbox(SandboxError::Conflict {
                cause: ConflictCause::OtherBranch { .. },
                ..
            }))
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_to_the_origin_since_is_fetched_when_it_is_asked_for() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    git(&bench.origin(), &["checkout", "-q", "-b", "later"]);
    bench.push("later", "two\n");
    let mut asked = bench.edits("d");
    asked.base_ref = BaseRef::parse("later").expect("a base");
    let made = worker
        .get_or_create_workspace(&asked)
        .await
        .expect("fetched");
    let tree = worker.tree_of(&made).expect("a path");
    assert!(tree.join("later").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_moves_and_is_forced_is_followed_by_new_trees_once_the_cache_is_stale() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.cache_fresh = std::time::Duration::ZERO)
        .await;
    worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    bench.push("two", "two\n");
    git(&bench.origin(), &["reset", "-q", "--hard", "HEAD~1"]);
    bench.push("three", "three\n");
    let made = worker
        .get_or_create_workspace(&bench.edits("d"))
        .await
        .expect("made");
    let tree = worker.tree_of(&made).expect("a path");
    assert!(tree.join("three").exists() && !tree.join("two").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_leaves_neither_row_nor_tree() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let mut asked = bench.edits("c");
    asked.base_ref = BaseRef::parse("nowhere").expect("a base");
    let refused = worker.get_or_create_workspace(&asked).await;
    let text = refused.expect_err("no such base").to_string();
    assert!(text.contains("nowhere"), "{text}");
    assert!(worker.all_workspaces().await.expect("listed").is_empty());
    let trees = worker.adapters().trees.list().await.expect("listed");
    assert!(trees.is_empty(), "{trees:?}");
    // And an origin that isn't there leaves no cache either.
    std::fs::rename(bench.origin(), bench.folder.path().join("away")).expect("moved");
    let mut asked = bench.edits("c");
    asked.repo_name = unstall_sandbox_core::domain::RepoName::parse("octo/gone").expect("a name");
    let refused = worker.get_or_create_workspace(&asked).await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Workspace(
                WorkspaceError::RepoCacheUnavailable { .. }
            ))
        ),
        "{refused:?}"
    );
    assert_eq!(worker.all_caches().await.expect("listed").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_their_quota() {
    let bench = Bench::new().await;
    let quota = WorkspaceQuota {
        per_user_max: 1,
        total_max: 10,
    };
    let worker = bench.worker_with(|settings| settings.quota = quota).await;
    worker
        .get_or_create_workspace(&bench.edits("a"))
        .await
        .expect("made");
    let refused = worker.get_or_create_workspace(&bench.edits("b")).await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Sandbox(SandboxError::TooMany { .. }))
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_tree_is_adopted_by_one() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.prepared_per_base = 1)
        .await;
    assert!(
        worker
            .prepare_for(&bench.edits("a"))
            .await
            .expect("prepared")
    );
    assert!(
        !worker
            .prepare_for(&bench.edits("a"))
            .await
            .expect("there is one already")
    );
    let prepared = worker.all_prepared_trees().await.expect("listed");
    assert_eq!(prepared.len(), 1);
    for conversation in ["a", "b"] {
        let asked = bench.edits(conversation);
        let made = worker.get_or_create_workspace(&asked).await.expect("made");
        assert_eq!(made.state, WorkspaceState::Ready);
        let tree = worker.tree_of(&made).expect("a path");
        assert!(tree.join("read.me").exists());
        let status = worker.status(made.id).await.expect("git answers");
        assert_eq!(status.branch, asked.branch());
        assert!(status.changes.is_empty(), "{status:?}");
    }
    let left = worker.all_prepared_trees().await.expect("listed");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(
        bench
            .store
            .list_workspaces(all())
            .await
            .expect("listed")
            .len(),
        2
    );
}

fn all() -> unstall_sandbox_core::ports::store::Page<WorkspaceId> {
    unstall_sandbox_core::ports::store::Page {
        after: None,
        rows_max: 100,
    }
}
