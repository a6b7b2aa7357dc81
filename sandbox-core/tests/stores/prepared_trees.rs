//! What every store must do with prepared trees.

use unstall_sandbox_core::domain::{
    CacheId, CommitId, ConflictCause, FencingToken, PreparedTree, PreparedTreeState, RepoCache,
    SandboxError, Subject, WorkerId, Workspace, WorkspaceState,
};
use unstall_sandbox_core::ports::store::{Precondition, SandboxStore, TreeClaim};

use crate::places::Place;
use crate::records::{
    PLENTY, all, at, base, cache, conflict, is_full, kept_cache, kept_workspace, key, missing,
    ready_tree, task, when, workspace,
};

/// A claim of `main` at that second, for ten seconds.
pub(crate) fn claim(cache: &RepoCache, worker: &str, second: i64) -> TreeClaim {
    TreeClaim {
        repo_cache_id: cache.id,
        base_ref: base("main"),
        made_since: at(-1_000),
        worker: WorkerId::parse(worker).expect(worker),
        now: at(second),
        lease_until: at(second + 10),
    }
}

/// A ready tree, kept by the store.
async fn kept_tree(store: &dyn SandboxStore, cache: &RepoCache, second: i64) -> PreparedTree {
    let tree = ready_tree(cache, second);
    let kept = store.insert_prepared_tree(&tree, 1_000).await;
    kept.expect("there is room");
    tree
}

pub(crate) async fn a_base_has_no_more_unclaimed_trees_than_allowed(place: Place) {
    let store = &place.store;
    let stray = cache("octo/stray");
    let refused = store.insert_prepared_tree(&ready_tree(&stray, 0), 2).await;
    assert_eq!(missing(refused), Subject::Cache(stray.id));
    let cache = kept_cache(&**store, "octo/hello").await;
    let insert = async |state, name: &str| {
        let mut tree = ready_tree(&cache, 0);
        tree.state = state;
        tree.base_ref = base(name);
        store.insert_prepared_tree(&tree, 2).await
    };
    for state in [PreparedTreeState::Warming, PreparedTreeState::Ready] {
        insert(state, "main").await.expect("there is room");
    }
    assert!(is_full(&insert(PreparedTreeState::Warming, "main").await));
    let other = insert(PreparedTreeState::Warming, "other").await;
    other.expect("another base has room of its own");
    // What is claimed no longer counts.
    let claimed = store.claim_prepared_tree(&claim(&cache, "w", 0)).await;
    assert!(claimed.expect("it answers").is_some());
    let room = insert(PreparedTreeState::Warming, "main").await;
    room.expect("there is room again");
    assert_eq!(
        store
            .list_prepared_trees(all())
            .await
            .expect("it answers")
            .len(),
        4
    );
}

pub(crate) async fn the_newest_ready_tree_is_claimed_and_ended_claims_after_it(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let old = kept_tree(&**store, &cache, 10).await;
    let newest = kept_tree(&**store, &cache, 30).await;
    let middle = kept_tree(&**store, &cache, 20).await;
    let mut expected = newest.clone();
    expected.state = PreparedTreeState::Claimed;
    expected.claimed_by = WorkerId::parse("w1").ok();
    expected.claimed_until = Some(at(50));
    expected.claims = 1;
    expected.version = 2;
    expected.updated_at = at(40);
    let first = store.claim_prepared_tree(&claim(&cache, "w1", 40)).await;
    assert_eq!(first.expect("it answers"), Some(expected));

    let claimed = async |worker: &str, second| {
        let tree = store
            .claim_prepared_tree(&claim(&cache, worker, second))
            .await;
        tree.expect("it answers").map(|tree| (tree.id, tree.claims))
    };
    assert_eq!(claimed("w2", 50).await, Some((middle.id, 1)));
    // The first claim has ended, but a ready one comes before it.
    assert_eq!(claimed("w3", 55).await, Some((old.id, 1)));
    assert_eq!(claimed("w4", 55).await, Some((newest.id, 2)));
    assert_eq!(claimed("w5", 55).await, None);
    // A lease that ends now holds nobody off.
    assert_eq!(claimed("w5", 60).await, Some((middle.id, 2)));
    assert_eq!(claimed("w6", 60).await, None);
}

pub(crate) async fn a_claim_looks_at_cache_base_and_age(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let other = kept_cache(&**store, "octo/other").await;
    let tree = kept_tree(&**store, &cache, 10).await;
    let claimed = async |claim: TreeClaim| {
        let tree = store.claim_prepared_tree(&claim).await;
        tree.expect("it answers").map(|tree| tree.id)
    };
    let fitting = claim(&cache, "w", 20);
    let of_other_base = TreeClaim {
        base_ref: base("other"),
        ..fitting.clone()
    };
    let of_newer = TreeClaim {
        made_since: at(11),
        ..fitting.clone()
    };
    assert_eq!(claimed(claim(&other, "w", 20)).await, None);
    assert_eq!(claimed(of_other_base).await, None);
    assert_eq!(claimed(of_newer).await, None);
    let just_fitting = TreeClaim {
        made_since: at(10),
        ..fitting
    };
    assert_eq!(claimed(just_fitting).await, Some(tree.id));
}

pub(crate) async fn a_later_claim_refuses_the_earlier_one(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    kept_tree(&**store, &cache, 0).await;
    let workspace = kept_workspace(&**store, &cache, task("t")).await;
    let take = async |worker: &str, second| {
        let tree = store
            .claim_prepared_tree(&claim(&cache, worker, second))
            .await;
        tree.expect("it answers").expect("there is one")
    };
    // The first holder is paused beyond its lease.
    let first = take("w1", 10).await;
    let second = take("w2", 20).await;
    assert_eq!((first.version, second.version, second.claims), (2, 3, 2));
    let late = ConflictCause::Version {
        expected: 2,
        found: 3,
    };
    let refused = store
        .adopt_prepared_tree(&first, &workspace, when(1, 1))
        .await;
    assert_eq!(conflict(refused), late);
    assert_eq!(conflict(store.update_prepared_tree(&first).await), late);
    let adopted = store
        .adopt_prepared_tree(&second, &workspace, when(1, 1))
        .await;
    assert_eq!(adopted.expect("its claim is the newest").version, 2);
}

pub(crate) async fn adoption_changes_both_or_neither(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let ready = kept_tree(&**store, &cache, 0).await;
    let mut intent = workspace(&cache, key("u", task("t")));
    let adopt = async |tree: &PreparedTree, adopter: &Workspace, when: Precondition| {
        store.adopt_prepared_tree(tree, adopter, when).await
    };
    let refused = adopt(&ready, &intent, when(1, 1)).await;
    assert_eq!(missing(refused), Subject::Workspace(intent.id));
    store
        .insert_workspace(&intent, PLENTY)
        .await
        .expect("it is new");
    let stray = ready_tree(&cache, 0);
    let refused = adopt(&stray, &intent, when(1, 1)).await;
    assert_eq!(missing(refused), Subject::PreparedTree(stray.id));
    let refused = adopt(&ready, &intent, when(1, 1)).await;
    let expected = ConflictCause::State {
        is: "ready",
        wanted: "adopted",
    };
    assert_eq!(conflict(refused), expected);

    let claimed = store.claim_prepared_tree(&claim(&cache, "w", 10)).await;
    let claimed = claimed.expect("it answers").expect("there is one");
    // The workspace's lock was lost: its next holder has written.
    let written = store.update_workspace(&intent, when(1, 5)).await;
    written.expect("nobody wrote since");
    intent.state = WorkspaceState::Ready;
    intent.local_path = claimed.local_path.clone();
    intent.updated_at = at(11);
    let refused = adopt(&claimed, &intent, when(2, 4)).await;
    let expected = ConflictCause::StaleToken {
        given: 4,
        newest: 5,
    };
    assert_eq!(conflict(refused), expected);
    let trees = store.list_prepared_trees(all()).await.expect("it answers");
    assert_eq!(trees, std::slice::from_ref(&claimed));
    let found = store.find_workspace(intent.id).await.expect("it answers");
    assert_eq!(found.map(|found| found.version), Some(2));

    let adopted = adopt(&claimed, &intent, when(2, 5)).await;
    let adopted = adopted.expect("nobody wrote since");
    intent.version = 3;
    intent.token = FencingToken::new(5);
    assert_eq!(adopted, intent);
    let found = place.second.find_workspace(intent.id).await;
    assert_eq!(found.expect("it answers"), Some(intent));
    assert_eq!(
        store.list_prepared_trees(all()).await.expect("it answers"),
        []
    );
}

pub(crate) async fn a_write_needs_the_version(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let kept = kept_tree(&**store, &cache, 0).await;
    let mut changed = kept.clone();
    changed.commit = CommitId::parse(&"ab".repeat(20)).ok();
    changed.state = PreparedTreeState::Draining;
    changed.updated_at = at(5);
    let mut asked = changed.clone();
    asked.repo_cache_id = CacheId::generate();
    asked.base_ref = base("other");
    asked.created_at = at(99);
    changed.version = 2;
    let written = store.update_prepared_tree(&asked).await;
    assert_eq!(written.expect("nobody wrote since"), changed);
    let late = store.update_prepared_tree(&asked).await;
    let expected = ConflictCause::Version {
        expected: 1,
        found: 2,
    };
    assert_eq!(conflict(late), expected);
    // A claim says who and until when.
    changed.state = PreparedTreeState::Claimed;
    let torn = store.update_prepared_tree(&changed).await;
    assert!(matches!(torn, Err(SandboxError::Invalid(_))), "{torn:?}");
}

pub(crate) async fn what_is_adopted_or_terminated_is_history(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    for state in [PreparedTreeState::Adopted, PreparedTreeState::Terminated] {
        let mut tree = kept_tree(&**store, &cache, 0).await;
        tree.state = state;
        let written = store.update_prepared_tree(&tree).await;
        tree = written.expect("it is the last write");
        let again = store.update_prepared_tree(&tree).await;
        assert_eq!(missing(again), Subject::PreparedTree(tree.id));
    }
    assert_eq!(
        store.list_prepared_trees(all()).await.expect("it answers"),
        []
    );
    let claimed = store.claim_prepared_tree(&claim(&cache, "w", 10)).await;
    assert_eq!(claimed.expect("it answers"), None);
    // Nothing stands on the cache any more.
    let evicting = store
        .begin_cache_eviction(cache.id, when(1, 1), at(1))
        .await;
    evicting.expect("it is unused");
}
