//! What every store must do with caches.

use unstall_sandbox_core::domain::{
    CacheId, ConflictCause, FencingToken, LocalPath, PreparedTreeState, RepoCacheState, RepoUrl,
    Subject, WorkspaceState,
};
use unstall_sandbox_core::ports::store::{Page, Precondition};

use crate::places::Place;
use crate::records::{
    PLENTY, all, at, cache, conflict, conversation, existing, kept_cache, kept_workspace, key,
    missing, ready_tree, when, workspace,
};

pub(crate) async fn an_intent_is_found_by_its_id_and_its_key(place: Place) {
    let intent = cache("Octo/Hello");
    place.store.insert_cache(&intent).await.expect("it is new");
    // The second worker sees it at once.
    let by_id = place
        .second
        .find_cache(intent.id)
        .await
        .expect("it answers");
    assert_eq!(by_id.as_ref(), Some(&intent));
    let by_key = place.second.find_cache_by_key(&intent.key).await;
    assert_eq!(by_key.expect("it answers").as_ref(), Some(&intent));
    let other = place.store.find_cache(CacheId::generate()).await;
    assert_eq!(other.expect("it answers"), None);
    let other = place
        .store
        .find_cache_by_key(&cache("octo/other").key)
        .await;
    assert_eq!(other.expect("it answers"), None);
}

pub(crate) async fn a_key_has_one_live_cache(place: Place) {
    let first = cache("octo/hello");
    place.store.insert_cache(&first).await.expect("it is new");
    let expected = Subject::CacheKey(Box::new(first.key.clone()));
    for again in [cache("Octo/Hello"), first.clone()] {
        let result = place.second.insert_cache(&again).await;
        assert_eq!(existing(result), expected);
    }
    // The same id with another key is told as that.
    let mut other = cache("octo/other");
    other.id = first.id;
    let result = place.store.insert_cache(&other).await;
    assert_eq!(existing(result), Subject::Cache(first.id));
}

pub(crate) async fn a_write_needs_the_newest_version_and_no_older_token(place: Place) {
    let store = &place.store;
    let mut cache = kept_cache(&**store, "octo/hello").await;
    cache.size_bytes = Some(5);
    let written = store.update_cache(&cache, when(1, 4)).await;
    let written = written.expect("nobody wrote since");
    assert_eq!((written.version, written.token), (2, FencingToken::new(4)));

    let stale = store.update_cache(&cache, when(2, 3)).await;
    let expected = ConflictCause::StaleToken {
        given: 3,
        newest: 4,
    };
    assert_eq!(conflict(stale), expected);
    // A stale token is told before a stale version: whoever has it must stop.
    let stale = store.update_cache(&cache, when(1, 3)).await;
    assert_eq!(conflict(stale), expected);
    for version in [1, 3] {
        let late = store.update_cache(&cache, when(version, 4)).await;
        let expected = ConflictCause::Version {
            expected: version,
            found: 2,
        };
        assert_eq!(conflict(late), expected);
    }
    let found = store.find_cache(cache.id).await.expect("it answers");
    assert_eq!(found, Some(written));
    cache.id = CacheId::generate();
    let gone = store.update_cache(&cache, when(1, 9)).await;
    assert_eq!(missing(gone), Subject::Cache(cache.id));
}

pub(crate) async fn what_was_used_since_is_not_written(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    store
        .touch_cache(cache.id, at(10))
        .await
        .expect("it is there");
    let idle_since = |second| Precondition {
        unused_since: Some(at(second)),
        ..when(1, 1)
    };
    let used = store.update_cache(&cache, idle_since(9)).await;
    assert_eq!(conflict(used), ConflictCause::UsedSince { at: at(10) });
    let written = store.update_cache(&cache, idle_since(10)).await;
    assert_eq!(written.expect("it is idle").version, 2);
}

pub(crate) async fn only_what_may_change_is_written(place: Place) {
    let store = &place.store;
    let kept = kept_cache(&**store, "octo/hello").await;
    store
        .touch_cache(kept.id, at(20))
        .await
        .expect("it is there");
    let mut changed = kept.clone();
    changed.repo_url = RepoUrl::parse("ssh://git@github.com/octo/hello").expect("a URL");
    changed.local_path = LocalPath::parse("elsewhere/.bare").expect("a path");
    changed.last_fetched_at = Some(at(3));
    changed.last_used_at = at(4);
    changed.size_bytes = Some(7);
    changed.state = RepoCacheState::Creating;
    changed.updated_at = at(5);
    let mut asked = changed.clone();
    asked.created_at = at(99);
    asked.version = 99;
    asked.token = FencingToken::new(99);
    let written = store.update_cache(&asked, when(1, 2)).await;
    changed.version = 2;
    changed.token = FencingToken::new(2);
    // The later of both stays.
    changed.last_used_at = at(20);
    assert_eq!(written.expect("nobody wrote since"), changed);
    // Touching never goes back, and isn't a write.
    store
        .touch_cache(kept.id, at(1))
        .await
        .expect("it is there");
    let found = store.find_cache(kept.id).await.expect("it answers");
    assert_eq!(found, Some(changed));
}

pub(crate) async fn a_deleted_cache_is_history_and_frees_its_key(place: Place) {
    let store = &place.store;
    let mut cache = kept_cache(&**store, "octo/hello").await;
    cache.state = RepoCacheState::Deleted;
    let deleted = store.update_cache(&cache, when(1, 1)).await;
    assert_eq!(deleted.expect("it is the last write").version, 2);

    assert_eq!(store.find_cache(cache.id).await.expect("it answers"), None);
    let by_key = store.find_cache_by_key(&cache.key).await;
    assert_eq!(by_key.expect("it answers"), None);
    assert_eq!(store.list_caches(all()).await.expect("it answers"), []);
    let gone = Subject::Cache(cache.id);
    assert_eq!(missing(store.update_cache(&cache, when(2, 1)).await), gone);
    assert_eq!(missing(store.touch_cache(cache.id, at(1)).await), gone);
    let evicted = store.begin_cache_eviction(cache.id, when(2, 1), at(1));
    assert_eq!(missing(evicted.await), gone);

    let next = kept_cache(&**store, "octo/hello").await;
    let found = store.find_cache_by_key(&cache.key).await;
    assert_eq!(found.expect("it answers"), Some(next));
}

pub(crate) async fn a_cache_is_evicted_only_when_ready_and_unused(place: Place) {
    let store = &place.store;
    let intent = cache("octo/intent");
    store.insert_cache(&intent).await.expect("it is new");
    let refused = store.begin_cache_eviction(intent.id, when(1, 1), at(1));
    let expected = ConflictCause::State {
        is: "creating",
        wanted: "evicting",
    };
    assert_eq!(conflict(refused.await), expected);

    let cache = kept_cache(&**store, "octo/hello").await;
    let mut workspace = kept_workspace(&**store, &cache, conversation("c")).await;
    let tree = ready_tree(&cache, 0);
    store
        .insert_prepared_tree(&tree, 5)
        .await
        .expect("there is room");
    let evict = || store.begin_cache_eviction(cache.id, when(1, 2), at(30));
    assert_eq!(conflict(evict().await), ConflictCause::InUse { uses: 2 });
    workspace.state = WorkspaceState::Deleted;
    let deleted = store.update_workspace(&workspace, when(1, 1)).await;
    deleted.expect("it is the last write");
    assert_eq!(conflict(evict().await), ConflictCause::InUse { uses: 1 });
    let mut tree = tree;
    tree.state = PreparedTreeState::Terminated;
    let ended = store.update_prepared_tree(&tree).await;
    ended.expect("it is the last write");

    let evicting = evict().await.expect("nothing stands on it");
    let mut expected = cache.clone();
    expected.state = RepoCacheState::Evicting;
    expected.version = 2;
    expected.token = FencingToken::new(2);
    expected.updated_at = at(30);
    assert_eq!(evicting, expected);
    let stale = store.begin_cache_eviction(cache.id, when(2, 1), at(30));
    let expected = ConflictCause::StaleToken {
        given: 1,
        newest: 2,
    };
    assert_eq!(conflict(stale.await), expected);
}

pub(crate) async fn nothing_is_made_of_a_cache_that_is_evicted(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let evicting = store
        .begin_cache_eviction(cache.id, when(1, 1), at(1))
        .await;
    evicting.expect("nothing stands on it");
    let expected = ConflictCause::NotReady {
        what: Box::new(Subject::Cache(cache.id)),
        is: "evicting",
    };
    let intent = workspace(&cache, key("u", conversation("c")));
    let refused = store.insert_workspace(&intent, PLENTY).await;
    assert_eq!(conflict(refused), expected);
    let refused = store.insert_prepared_tree(&ready_tree(&cache, 0), 5).await;
    assert_eq!(conflict(refused), expected);
}

pub(crate) async fn idle_caches_are_found_the_longest_unused_first(place: Place) {
    let store = &place.store;
    let mut expected = Vec::new();
    for (repo, second) in [
        ("octo/c", 30),
        ("octo/a", 10),
        ("octo/b", 20),
        ("octo/d", 40),
    ] {
        let cache = kept_cache(&**store, repo).await;
        store
            .touch_cache(cache.id, at(second))
            .await
            .expect("it is there");
        expected.push((second, cache.id));
    }
    expected.sort_unstable();
    let used = kept_cache(&**store, "octo/used").await;
    kept_workspace(&**store, &used, conversation("c")).await;
    let prepared = kept_cache(&**store, "octo/prepared").await;
    let tree = ready_tree(&prepared, 0);
    store
        .insert_prepared_tree(&tree, 5)
        .await
        .expect("there is room");
    let intent = cache("octo/intent");
    store.insert_cache(&intent).await.expect("it is new");

    let found = store.find_caches_for_eviction(at(40), 10).await;
    let found: Vec<CacheId> = found
        .expect("it answers")
        .iter()
        .map(|row| row.id)
        .collect();
    let expected: Vec<CacheId> = expected[..3].iter().map(|(_, id)| *id).collect();
    assert_eq!(found, expected);
    let found = store.find_caches_for_eviction(at(40), 2).await;
    assert_eq!(found.expect("it answers").len(), 2);
}

pub(crate) async fn lists_are_read_in_pages(place: Place) {
    let store = &place.store;
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.push(kept_cache(&**store, &format!("octo/r{number}")).await.id);
    }
    expected.sort_unstable();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = Page { after, rows_max: 3 };
        let rows = store.list_caches(page).await.expect("it answers");
        found.extend(rows.iter().map(|row| row.id));
        after = found.last().copied();
        if rows.len() < 3 {
            break;
        }
    }
    assert_eq!(found, expected);
    let none = Page {
        after: None,
        rows_max: 0,
    };
    assert_eq!(store.list_caches(none).await.expect("it answers"), []);
}
