//! What every store must do with runtimes.

use unstall_sandbox_core::domain::{
    BackendRuntimeId, ConflictCause, FencingToken, ImageName, RuntimeId, RuntimeState,
    SandboxError, Subject, WorkspaceState,
};
use unstall_sandbox_core::ports::store::IdleRuntimeQuery;

use crate::places::Place;
use crate::records::{
    PLENTY, all, at, conflict, conversation, existing, is_full, kept_cache, kept_workspace, key,
    missing, runtime, task, token, when, workspace,
};

pub(crate) async fn a_workspace_has_one_live_runtime(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let workspace = kept_workspace(&**store, &cache, task("t")).await;
    let none = store.find_runtime_of_workspace(workspace.id).await;
    assert_eq!(none.expect("it answers"), None);
    let mut first = runtime(&workspace);
    store
        .insert_runtime(&first, 5)
        .await
        .expect("there is room");
    let found = place.second.find_runtime_of_workspace(workspace.id).await;
    assert_eq!(found.expect("it answers").as_ref(), Some(&first));
    let found = place.second.find_runtime(first.id).await;
    assert_eq!(found.expect("it answers").as_ref(), Some(&first));
    for again in [&runtime(&workspace), &first] {
        let result = store.insert_runtime(again, 5).await;
        assert_eq!(existing(result), Subject::RuntimeOf(workspace.id));
    }

    first.state = RuntimeState::Destroyed;
    let destroyed = store.update_runtime(&first, when(1, 1)).await;
    destroyed.expect("it is the last write");
    let gone = Subject::Runtime(first.id);
    assert_eq!(
        store.find_runtime(first.id).await.expect("it answers"),
        None
    );
    assert_eq!(
        missing(store.update_runtime(&first, when(2, 1)).await),
        gone
    );
    assert_eq!(
        missing(store.touch_runtime(first.id, None, at(1), None).await),
        gone
    );
    let next = runtime(&workspace);
    store
        .insert_runtime(&next, 5)
        .await
        .expect("the first is history");
    assert_eq!(
        store.list_runtimes(all()).await.expect("it answers"),
        [next]
    );
}

pub(crate) async fn a_runtime_needs_a_ready_workspace(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let mut intent = workspace(&cache, key("u", conversation("c")));
    let runtime = runtime(&intent);
    let refused = store.insert_runtime(&runtime, 5).await;
    assert_eq!(missing(refused), Subject::Workspace(intent.id));
    store
        .insert_workspace(&intent, PLENTY)
        .await
        .expect("it is new");
    let steps = [
        WorkspaceState::Creating,
        WorkspaceState::Missing,
        WorkspaceState::Evicting,
        WorkspaceState::EvictionBlocked,
    ];
    for (version, state) in (1..).zip(steps) {
        intent.state = state;
        let written = store.update_workspace(&intent, when(version, 1)).await;
        written.expect("nobody wrote since");
        let refused = store.insert_runtime(&runtime, 5).await;
        let expected = ConflictCause::NotReady {
            what: Box::new(Subject::Workspace(intent.id)),
            is: state.as_str(),
        };
        assert_eq!(conflict(refused), expected);
    }
    intent.state = WorkspaceState::Ready;
    let written = store.update_workspace(&intent, when(5, 1)).await;
    written.expect("nobody wrote since");
    store
        .insert_runtime(&runtime, 5)
        .await
        .expect("it is ready");
}

pub(crate) async fn there_are_no_more_runtimes_than_allowed(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let mut runtimes = Vec::new();
    for id in ["1", "2", "3"] {
        let workspace = kept_workspace(&**store, &cache, task(id)).await;
        runtimes.push(runtime(&workspace));
    }
    for runtime in &runtimes[..2] {
        store
            .insert_runtime(runtime, 2)
            .await
            .expect("there is room");
    }
    assert!(is_full(&store.insert_runtime(&runtimes[2], 2).await));
    let mut ended = runtimes[0].clone();
    ended.state = RuntimeState::Destroyed;
    let destroyed = store.update_runtime(&ended, when(1, 1)).await;
    destroyed.expect("it is the last write");
    let inserted = store.insert_runtime(&runtimes[2], 2).await;
    inserted.expect("there is room again");
}

pub(crate) async fn a_write_needs_the_newest_version_and_no_older_token(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let workspace = kept_workspace(&**store, &cache, task("t")).await;
    let kept = runtime(&workspace);
    store.insert_runtime(&kept, 5).await.expect("there is room");
    let mut changed = kept.clone();
    changed.backend_runtime_id = BackendRuntimeId::parse("unstall-sb-u-c").ok();
    changed.state = RuntimeState::Running;
    changed.last_started_at = Some(at(3));
    changed.last_used_at = at(4);
    changed.expires_at = Some(at(9));
    changed.updated_at = at(5);
    let mut asked = changed.clone();
    asked.image = ImageName::parse("other").expect("an image");
    asked.created_at = at(99);
    changed.version = 2;
    changed.token = FencingToken::new(6);
    let written = store.update_runtime(&asked, when(1, 6)).await;
    assert_eq!(written.expect("nobody wrote since"), changed);

    let stale = store.update_runtime(&asked, when(2, 5)).await;
    let expected = ConflictCause::StaleToken {
        given: 5,
        newest: 6,
    };
    assert_eq!(conflict(stale), expected);
    let late = store.update_runtime(&asked, when(1, 6)).await;
    let expected = ConflictCause::Version {
        expected: 1,
        found: 2,
    };
    assert_eq!(conflict(late), expected);
    let found = store.find_runtime(kept.id).await.expect("it answers");
    assert_eq!(found, Some(changed));
}

pub(crate) async fn a_lease_only_grows(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let workspace = kept_workspace(&**store, &cache, task("t")).await;
    let mut kept = runtime(&workspace);
    store.insert_runtime(&kept, 5).await.expect("there is room");
    // Each touch, and what use and lease are then.
    let touches = [
        ((5, None), (5, None)),
        ((6, Some(20)), (6, Some(20))),
        ((7, None), (7, Some(20))),
        ((3, Some(10)), (7, Some(20))),
        ((8, Some(30)), (8, Some(30))),
    ];
    for ((used, until), (last_used, expires)) in touches {
        let touched = store.touch_runtime(kept.id, None, at(used), until.map(at));
        touched.await.expect("it is there");
        kept.last_used_at = at(last_used);
        kept.expires_at = expires.map(at);
        let found = store.find_runtime(kept.id).await.expect("it answers");
        assert_eq!(found.as_ref(), Some(&kept));
    }
    let mut earlier = kept.clone();
    earlier.expires_at = None;
    let written = store.update_runtime(&earlier, when(1, 1)).await;
    assert_eq!(
        written.expect("touches are no writes").expires_at,
        Some(at(30))
    );
    let other = RuntimeId::generate();
    for held in [None, Some(token(1))] {
        let touched = store.touch_runtime(other, held, at(1), None).await;
        assert_eq!(missing(touched), Subject::Runtime(other));
    }
}

pub(crate) async fn whoever_lost_the_lock_on_commands_keeps_no_runtime(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let workspace = kept_workspace(&**store, &cache, task("t")).await;
    let kept = runtime(&workspace);
    store.insert_runtime(&kept, 5).await.expect("there is room");
    let touch = async |held: Option<FencingToken>, second: i64| {
        let until = Some(at(second + 10));
        store.touch_runtime(kept.id, held, at(second), until).await
    };
    touch(Some(token(3)), 5).await.expect("nobody came before");
    let announced = place
        .second
        .mark_workspace_dirty(workspace.id, token(4), at(6));
    announced.await.expect("it is there");
    let expected = ConflictCause::StaleToken {
        given: 3,
        newest: 4,
    };
    let refused = touch(Some(token(3)), 7).await;
    assert!(
        matches!(&refused, Err(SandboxError::Conflict { subject, .. }) if *subject == Subject::Runtime(kept.id)),
        "{refused:?}"
    );
    assert_eq!(conflict(refused), expected);
    let found = store.find_runtime(kept.id).await.expect("it answers");
    let used = |second: i64| Some((at(second), Some(at(second + 10))));
    assert_eq!(
        found.map(|found| (found.last_used_at, found.expires_at)),
        used(5)
    );
    // The holder, a reader that came after it, and somebody who holds nothing.
    for (held, second) in [(Some(token(4)), 8), (Some(token(9)), 9), (None, 10)] {
        touch(held, second).await.expect("nobody came since");
        let found = store.find_runtime(kept.id).await.expect("it answers");
        let found = found.map(|found| (found.last_used_at, found.expires_at));
        assert_eq!(found, used(second));
    }
    let too_large = touch(Some(token(u64::MAX)), 11).await;
    assert!(
        matches!(too_large, Err(SandboxError::Invalid(_))),
        "{too_large:?}"
    );
}

pub(crate) async fn idle_runtimes_are_those_without_a_lease(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let make = async |id: &str, state, used, until: Option<i64>| {
        let workspace = kept_workspace(&**store, &cache, task(id)).await;
        let mut made = runtime(&workspace);
        made.state = state;
        made.last_used_at = at(used);
        made.expires_at = until.map(at);
        store
            .insert_runtime(&made, 20)
            .await
            .expect("there is room");
        made.id
    };
    let running = RuntimeState::Running;
    let late = make("1", running, 30, None).await;
    let early = make("2", running, 10, Some(50)).await;
    make("3", running, 10, Some(201)).await;
    let leased_until_now = make("4", running, 20, Some(200)).await;
    make("5", running, 100, None).await;
    let stopped = make("6", RuntimeState::Stopped, 10, None).await;
    make("7", RuntimeState::Destroyed, 10, None).await;

    let idle = async |state, rows_max| {
        let query = IdleRuntimeQuery {
            state,
            used_before: at(100),
            now: at(200),
            rows_max,
        };
        let found = place.second.find_idle_runtimes(query).await;
        let found = found.expect("it answers");
        found.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(idle(running, 10).await, [early, leased_until_now, late]);
    assert_eq!(idle(running, 1).await, [early]);
    assert_eq!(idle(RuntimeState::Stopped, 10).await, [stopped]);
    assert_eq!(idle(RuntimeState::Destroyed, 10).await, []);
}

pub(crate) async fn a_runtime_whose_workspace_is_gone_is_an_orphan(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let mut gone = kept_workspace(&**store, &cache, task("1")).await;
    let mut orphan = runtime(&gone);
    store
        .insert_runtime(&orphan, 5)
        .await
        .expect("there is room");
    let there = kept_workspace(&**store, &cache, task("2")).await;
    let other = runtime(&there);
    store
        .insert_runtime(&other, 5)
        .await
        .expect("there is room");
    let orphans = async || store.find_orphan_runtimes(10).await.expect("it answers");
    assert_eq!(orphans().await, []);
    gone.state = WorkspaceState::Deleted;
    let deleted = store.update_workspace(&gone, when(1, 1)).await;
    deleted.expect("it is the last write");
    assert_eq!(orphans().await, [orphan.clone()]);
    orphan.state = RuntimeState::Destroyed;
    let destroyed = store.update_runtime(&orphan, when(1, 1)).await;
    destroyed.expect("it is the last write");
    assert_eq!(orphans().await, []);
}
