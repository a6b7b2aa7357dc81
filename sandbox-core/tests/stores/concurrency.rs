//! What every store must keep when many come at once, from two workers.

use std::collections::BTreeSet;
use std::future::Future;

use tokio::task::JoinSet;
use unstall_sandbox_core::domain::{ConflictCause, SandboxError, Subject, WorkspaceState};
use unstall_sandbox_core::ports::store::WorkspaceQuota;

use crate::places::Place;
use crate::prepared_trees::claim;
use crate::records::{
    PLENTY, at, cache, conflict, conversation, existing, is_full, kept_cache, kept_workspace, key,
    ready_tree, runtime, task, when, workspace,
};

/// What tasks that run at the same time answer, in any order.
async fn at_once<T, F>(tasks: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    tasks.into_iter().collect::<JoinSet<T>>().join_all().await
}

/// How many succeeded, and the others' errors.
fn parted<T>(results: Vec<Result<T, SandboxError>>) -> (usize, Vec<SandboxError>) {
    let count = results.len();
    let errors: Vec<SandboxError> = results.into_iter().filter_map(Result::err).collect();
    (count - errors.len(), errors)
}

pub(crate) async fn thirty_inserts_of_one_cache_key_make_one_cache(place: Place) {
    let results = at_once((0..30).map(|number| {
        let store = place.of_worker(number);
        async move { store.insert_cache(&cache("octo/hello")).await }
    }));
    let (made, errors) = parted(results.await);
    assert_eq!(made, 1);
    let expected = Subject::CacheKey(Box::new(cache("octo/hello").key));
    for error in errors {
        assert_eq!(existing::<()>(Err(error)), expected);
    }
}

pub(crate) async fn thirty_inserts_of_one_workspace_key_make_one_workspace(place: Place) {
    let cache = kept_cache(&*place.store, "octo/hello").await;
    let shared_key = key("u", conversation("c"));
    let results = at_once((0..30).map(|number| {
        let store = place.of_worker(number);
        let intent = workspace(&cache, shared_key.clone());
        async move { store.insert_workspace(&intent, PLENTY).await }
    }));
    let (made, errors) = parted(results.await);
    assert_eq!(made, 1);
    let expected = Subject::WorkspaceKey(Box::new(shared_key));
    for error in errors {
        assert_eq!(existing::<()>(Err(error)), expected);
    }
}

pub(crate) async fn a_quota_holds_for_those_who_come_at_once(place: Place) {
    let cache = kept_cache(&*place.store, "octo/hello").await;
    let quota = WorkspaceQuota {
        per_user_max: 10,
        total_max: 15,
    };
    // Forty of one user, and forty of another.
    let results = at_once((0..80).map(|number| {
        let store = place.of_worker(number);
        let user = if number < 40 { "a" } else { "b" };
        let intent = workspace(&cache, key(user, conversation(&number.to_string())));
        async move { store.insert_workspace(&intent, quota).await }
    }));
    let (made, errors) = parted(results.await);
    assert_eq!(made, 15);
    for error in errors {
        assert!(is_full::<()>(&Err(error)));
    }
}

pub(crate) async fn of_thirty_writers_of_one_version_one_writes(place: Place) {
    let cache = kept_cache(&*place.store, "octo/hello").await;
    let kept = kept_workspace(&*place.store, &cache, task("t")).await;
    for version in 1..=5 {
        let results = at_once((0..30).map(|number| {
            let store = place.of_worker(number);
            let mut change = kept.clone();
            change.size_bytes = u64::try_from(number).ok();
            async move { store.update_workspace(&change, when(version, 1)).await }
        }));
        let (written, errors) = parted(results.await);
        assert_eq!(written, 1);
        let expected = ConflictCause::Version {
            expected: version,
            found: version + 1,
        };
        for error in errors {
            assert_eq!(conflict::<()>(Err(error)), expected);
        }
    }
}

pub(crate) async fn a_thousand_claims_at_once_get_a_thousand_trees(place: Place) {
    const TREES: usize = 1_000;
    let cache = kept_cache(&*place.store, "octo/hello").await;
    let made = at_once((0..TREES).map(|number| {
        let store = place.of_worker(number);
        let second = i64::try_from(number).expect("a small number");
        let tree = ready_tree(&cache, second);
        async move { store.insert_prepared_tree(&tree, 1_000).await }
    }));
    let (made, errors) = parted(made.await);
    assert_eq!(made, TREES, "{errors:?}");

    let claims = at_once((0..TREES).map(|number| {
        let store = place.of_worker(number);
        let claim = claim(&cache, &format!("worker {number}"), 2_000);
        async move { store.claim_prepared_tree(&claim).await }
    }));
    let mut trees = BTreeSet::new();
    let mut workers = BTreeSet::new();
    for tree in claims.await {
        let tree = tree.expect("it answers").expect("there is one for each");
        assert_eq!((tree.claims, tree.version), (1, 2));
        trees.insert(tree.id);
        workers.extend(tree.claimed_by);
    }
    assert_eq!((trees.len(), workers.len()), (TREES, TREES));
    let more = place
        .store
        .claim_prepared_tree(&claim(&cache, "late", 2_000))
        .await;
    assert_eq!(more.expect("it answers"), None);
}

pub(crate) async fn an_eviction_and_an_insert_never_both_succeed(place: Place) {
    for round in 0..20 {
        let cache = kept_cache(&*place.store, &format!("octo/r{round}")).await;
        let intent = workspace(&cache, key("u", conversation(&round.to_string())));
        let (evictor, maker) = (place.store.clone(), place.second.clone());
        let evicting = tokio::spawn(async move {
            let begun = evictor.begin_cache_eviction(cache.id, when(1, 1), at(1));
            begun.await
        });
        let inserting = tokio::spawn(async move { maker.insert_workspace(&intent, PLENTY).await });
        let evicted = evicting.await.expect("no panic");
        let inserted = inserting.await.expect("no panic");
        match (evicted, inserted) {
            (Ok(_evicting), refused) => {
                let cause = conflict(refused);
                assert!(matches!(cause, ConflictCause::NotReady { .. }), "{cause}");
            }
            (refused, Ok(())) => {
                assert_eq!(conflict(refused), ConflictCause::InUse { uses: 1 });
            }
            (evicted, inserted) => panic!("both refused: {evicted:?}, {inserted:?}"),
        }
    }
}

pub(crate) async fn of_a_destroyed_workspace_and_its_new_runtime_one_wins(place: Place) {
    let cache = kept_cache(&*place.store, "octo/hello").await;
    for round in 0..20 {
        let mut kept = kept_workspace(&*place.store, &cache, task(&round.to_string())).await;
        let runtime = runtime(&kept);
        kept.state = WorkspaceState::Evicting;
        let (evictor, maker) = (place.store.clone(), place.second.clone());
        let workspace = kept.id;
        let evicting =
            tokio::spawn(async move { evictor.update_workspace(&kept, when(1, 1)).await });
        let inserting = tokio::spawn(async move { maker.insert_runtime(&runtime, 100).await });
        evicting
            .await
            .expect("no panic")
            .expect("nobody wrote since");
        // Either it came before, and is found by whoever evicts, or it was refused.
        let inserted = inserting.await.expect("no panic");
        let found = place.store.find_runtime_of_workspace(workspace).await;
        match (inserted, found.expect("it answers")) {
            (Ok(()), Some(_runtime)) => {}
            (refused, None) => {
                let cause = conflict(refused);
                assert!(matches!(cause, ConflictCause::NotReady { .. }), "{cause}");
            }
            (refused, Some(_runtime)) => panic!("refused, and there: {refused:?}"),
        }
    }
}
