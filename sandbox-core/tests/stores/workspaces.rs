//! What every store must do with workspaces.

use jiff::{SignedDuration, Timestamp};
use unstall_sandbox_core::domain::{
    ConflictCause, ConversationId, Countable, FencingToken, LocalPath, Purpose, RepoCacheState,
    RuntimeState, SandboxError, Subject, TaskId, Workspace, WorkspaceId, WorkspaceMode,
    WorkspaceState,
};
use unstall_sandbox_core::ports::store::{
    Page, Precondition, WorkspaceEvictionQuery, WorkspaceQuota,
};

use crate::places::Place;
use crate::records::{
    PLENTY, all, at, base, branch, cache, conflict, conversation, existing, kept_cache,
    kept_workspace, key, missing, runtime, task, token, when, workspace,
};

pub(crate) async fn every_purpose_has_a_key_that_finds_it(place: Place) {
    let cache = kept_cache(&*place.store, "octo/hello").await;
    let purposes = [
        Purpose::Analysis(base("main")),
        Purpose::Analysis(base("x")),
        conversation("x"),
        Purpose::Branch(branch("x")),
        task("x"),
    ];
    let mut kept = Vec::new();
    for purpose in purposes {
        kept.push(kept_workspace(&*place.store, &cache, purpose).await);
    }
    for expected in &kept {
        let found = place.second.find_workspace_by_key(&expected.key).await;
        assert_eq!(found.expect("it answers").as_ref(), Some(expected));
        let found = place.second.find_workspace(expected.id).await;
        assert_eq!(found.expect("it answers").as_ref(), Some(expected));
    }
    for other in [key("u", task("y")), key("v", task("x"))] {
        let found = place.store.find_workspace_by_key(&other).await;
        assert_eq!(found.expect("it answers"), None);
    }
}

pub(crate) async fn a_key_is_unique_also_where_its_other_columns_are_empty(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    // None of the first has a conversation and a task, so that their columns are NULL.
    for purpose in [
        Purpose::Branch(branch("b")),
        Purpose::Analysis(base("main")),
        task("t"),
        conversation("c"),
    ] {
        let first = workspace(&cache, key("u", purpose));
        let kept = store.insert_workspace(&first, PLENTY).await;
        kept.expect("it is new");
        let expected = Subject::WorkspaceKey(Box::new(first.key.clone()));
        let again = workspace(&cache, first.key.clone());
        for again in [&again, &first] {
            let result = store.insert_workspace(again, PLENTY).await;
            assert_eq!(existing(result), expected);
        }
    }
    // What isn't part of the key makes no difference: a task in a conversation, on another branch.
    let mut again = workspace(&cache, key("u", task("t")));
    again.conversation_id = ConversationId::parse("c").ok();
    again.branch_name = Some(branch("other"));
    let expected = Subject::WorkspaceKey(Box::new(again.key.clone()));
    let result = store.insert_workspace(&again, PLENTY).await;
    assert_eq!(existing(result), expected);
    // The same branch in a conversation is another workspace.
    let mut in_conversation = workspace(&cache, key("u", conversation("d")));
    in_conversation.branch_name = Some(branch("b"));
    let kept = store.insert_workspace(&in_conversation, PLENTY).await;
    kept.expect("it has another key");
}

pub(crate) async fn a_deleted_workspace_is_history_and_frees_its_key(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    for purpose in [conversation("c"), Purpose::Branch(branch("b")), task("t")] {
        let mut gone = kept_workspace(&**store, &cache, purpose.clone()).await;
        gone.state = WorkspaceState::Deleted;
        let deleted = store.update_workspace(&gone, when(1, 1)).await;
        deleted.expect("it is the last write");

        let subject = Subject::Workspace(gone.id);
        let found = store.find_workspace(gone.id).await.expect("it answers");
        assert_eq!(found, None);
        let found = store.find_workspace_by_key(&gone.key).await;
        assert_eq!(found.expect("it answers"), None);
        let update = store.update_workspace(&gone, when(2, 1)).await;
        assert_eq!(missing(update), subject);
        let touch = store.touch_workspace(gone.id, None, at(1)).await;
        assert_eq!(missing(touch), subject);
        let dirty = store.mark_workspace_dirty(gone.id, token(1), at(1));
        assert_eq!(missing(dirty.await), subject);
        let clean = store.mark_workspace_clean(gone.id, 2, token(1), at(1));
        assert_eq!(missing(clean.await), subject);

        let next = kept_workspace(&**store, &cache, purpose).await;
        let found = store.find_workspace_by_key(&gone.key).await;
        assert_eq!(found.expect("it answers"), Some(next));
    }
    assert_eq!(
        store
            .list_workspaces(all())
            .await
            .expect("it answers")
            .len(),
        3
    );
}

pub(crate) async fn a_workspace_needs_a_live_cache(place: Place) {
    let store = &place.store;
    let mut gone = cache("octo/hello");
    let intent = workspace(&gone, key("u", conversation("c")));
    let refused = store.insert_workspace(&intent, PLENTY).await;
    assert_eq!(missing(refused), Subject::Cache(gone.id));
    store.insert_cache(&gone).await.expect("it is new");
    // Both are intents: whoever makes the workspace makes the cache before.
    let kept = store.insert_workspace(&intent, PLENTY).await;
    kept.expect("its cache is being made");
    gone.state = RepoCacheState::Deleted;
    let deleted = store.update_cache(&gone, when(1, 1)).await;
    deleted.expect("it is the last write");
    let other = workspace(&gone, key("u", conversation("d")));
    let refused = store.insert_workspace(&other, PLENTY).await;
    assert_eq!(missing(refused), Subject::Cache(gone.id));
}

pub(crate) async fn there_are_no_more_workspaces_than_the_quotas_allow(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let quota = WorkspaceQuota {
        per_user_max: 2,
        total_max: 3,
    };
    let insert = async |user: &str, id: &str| {
        let intent = workspace(&cache, key(user, conversation(id)));
        let result = store.insert_workspace(&intent, quota).await;
        result.map(|()| intent)
    };
    let mut first = insert("a", "1").await.expect("there is room");
    insert("a", "2").await.expect("there is room");
    let full = |result: Result<Workspace, SandboxError>| match result {
        Err(SandboxError::TooMany { what, limit }) => (what, limit),
        other => panic!("expected that it is full, not {other:?}"),
    };
    let of_user = (Countable::WorkspacesOfUser, 2);
    assert_eq!(full(insert("a", "3").await), of_user);
    insert("b", "1").await.expect("there is room");
    assert_eq!(full(insert("b", "2").await), (Countable::Workspaces, 3));
    assert_eq!(full(insert("a", "3").await), of_user);
    // One that exists is told to exist, also where nothing more may.
    let expected = Subject::WorkspaceKey(Box::new(first.key.clone()));
    assert_eq!(existing(insert("a", "1").await), expected);
    first.state = WorkspaceState::Deleted;
    let deleted = store.update_workspace(&first, when(1, 1)).await;
    deleted.expect("it is the last write");
    insert("a", "3").await.expect("there is room again");
}

pub(crate) async fn only_what_may_change_is_written(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let kept = kept_workspace(&**store, &cache, task("t")).await;
    store
        .touch_workspace(kept.id, None, at(20))
        .await
        .expect("it is there");
    let mut changed = kept.clone();
    changed.local_path = LocalPath::parse("o/r/worktrees/other").expect("a path");
    changed.state = WorkspaceState::Missing;
    changed.dirty = true;
    changed.pinned_until = Some(at(50));
    changed.last_used_at = at(4);
    changed.size_bytes = Some(0);
    changed.updated_at = at(5);
    let mut asked = changed.clone();
    asked.conversation_id = ConversationId::parse("other").ok();
    asked.branch_name = Some(branch("other"));
    asked.base_ref = base("other");
    asked.created_at = at(99);
    asked.version = 99;
    let written = store.update_workspace(&asked, when(1, 7)).await;
    changed.version = 2;
    changed.token = FencingToken::new(7);
    changed.last_used_at = at(20);
    assert_eq!(written.expect("nobody wrote since"), changed);
    let found = place.second.find_workspace(kept.id).await;
    assert_eq!(found.expect("it answers"), Some(changed));
}

pub(crate) async fn a_stale_writer_is_refused(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let workspace = kept_workspace(&**store, &cache, conversation("c")).await;
    // A holder was paused; its successor has written.
    let written = place.second.update_workspace(&workspace, when(1, 8)).await;
    assert_eq!(written.expect("nobody wrote since").version, 2);
    let refused = store.update_workspace(&workspace, when(1, 7)).await;
    let expected = ConflictCause::StaleToken {
        given: 7,
        newest: 8,
    };
    assert_eq!(conflict(refused), expected);
    store
        .touch_workspace(workspace.id, None, at(9))
        .await
        .expect("it is there");
    let reaper = Precondition {
        unused_since: Some(at(8)),
        ..when(2, 8)
    };
    let refused = store.update_workspace(&workspace, reaper).await;
    assert_eq!(conflict(refused), ConflictCause::UsedSince { at: at(9) });
    let found = store
        .find_workspace(workspace.id)
        .await
        .expect("it answers");
    assert_eq!(found.map(|found| found.version), Some(2));
}

pub(crate) async fn nothing_is_clean_that_was_announced_dirty_since(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let kept = kept_workspace(&**store, &cache, conversation("c")).await;
    let mark_dirty = async |second| {
        let version = store.mark_workspace_dirty(kept.id, token(3), at(second));
        version.await.expect("it is there")
    };
    assert_eq!(mark_dirty(5).await, 2);
    // Git is asked here; meanwhile somebody announces to write.
    assert_eq!(mark_dirty(6).await, 3);
    let late = store.mark_workspace_clean(kept.id, 2, token(3), at(7));
    let expected = ConflictCause::Version {
        expected: 2,
        found: 3,
    };
    assert_eq!(conflict(late.await), expected);
    let clean = store.mark_workspace_clean(kept.id, 3, token(3), at(8));
    assert_eq!(clean.await.expect("nobody announced since"), 4);
    let mut expected = kept.clone();
    expected.version = 4;
    expected.commands_token = token(3);
    expected.last_used_at = at(6);
    expected.updated_at = at(8);
    let found = store.find_workspace(kept.id).await.expect("it answers");
    assert_eq!(found, Some(expected));
    // Announced late, its use doesn't go back.
    assert_eq!(mark_dirty(2).await, 5);
    let found = store.find_workspace(kept.id).await.expect("it answers");
    let found = found.map(|found| (found.dirty, found.last_used_at));
    assert_eq!(found, Some((true, at(6))));
    let other = WorkspaceId::generate();
    let result = store.mark_workspace_dirty(other, token(3), at(1)).await;
    assert_eq!(missing(result), Subject::Workspace(other));
}

pub(crate) async fn whoever_lost_the_lock_on_commands_says_nothing_of_the_tree(place: Place) {
    let (store, second) = (&place.store, &place.second);
    let cache = kept_cache(&**store, "octo/hello").await;
    let kept = kept_workspace(&**store, &cache, conversation("c")).await;
    let id = kept.id;
    let announced = store.mark_workspace_dirty(id, token(5), at(5)).await;
    assert_eq!(announced.expect("nobody came before"), 2);
    let announced = second.mark_workspace_dirty(id, token(7), at(7)).await;
    assert_eq!(announced.expect("it came later"), 3);

    let stale = ConflictCause::StaleToken {
        given: 5,
        newest: 7,
    };
    let dirty = store.mark_workspace_dirty(id, token(5), at(8)).await;
    assert_eq!(conflict(dirty), stale);
    let clean = store.mark_workspace_clean(id, 3, token(5), at(8)).await;
    assert_eq!(conflict(clean), stale);
    // Also where its version is stale, too: whoever has it must stop.
    let clean = store.mark_workspace_clean(id, 2, token(5), at(8)).await;
    assert_eq!(conflict(clean), stale);
    let touch = store.touch_workspace(id, Some(token(5)), at(8)).await;
    assert_eq!(conflict(touch), stale);
    let mut expected = kept.clone();
    (expected.dirty, expected.version) = (true, 3);
    expected.commands_token = token(7);
    (expected.last_used_at, expected.updated_at) = (at(7), at(7));
    let found = second.find_workspace(id).await.expect("it answers");
    assert_eq!(found.as_ref(), Some(&expected));

    // The holder, those who read after it, and somebody who holds nothing. No reader leaves a token.
    for (held, second) in [(Some(token(7)), 8), (Some(token(9)), 9), (None, 10)] {
        let touched = store.touch_workspace(id, held, at(second)).await;
        touched.expect("nobody came since");
    }
    let clean = store.mark_workspace_clean(id, 3, token(9), at(11)).await;
    assert_eq!(clean.expect("nobody announced since"), 4);
    let announced = store.mark_workspace_dirty(id, token(7), at(12)).await;
    assert_eq!(announced.expect("only readers came since"), 5);
    // The workspace's own lock has tokens of its own, and its holder leaves those of commands alone.
    expected.dirty = false;
    expected.commands_token = token(99);
    let written = store.update_workspace(&expected, when(5, 2)).await;
    let written = written.expect("nobody wrote since");
    assert_eq!(
        (written.token, written.commands_token),
        (token(2), token(7))
    );
    let too_large = store
        .mark_workspace_dirty(id, token(u64::MAX), at(13))
        .await;
    assert!(
        matches!(too_large, Err(SandboxError::Invalid(_))),
        "{too_large:?}"
    );
}

fn tier(mode: WorkspaceMode, dirty: bool) -> WorkspaceEvictionQuery {
    WorkspaceEvictionQuery {
        mode,
        dirty,
        used_before: at(100),
        now: at(200),
        rows_max: 10,
    }
}

/// Ids of what is found.
async fn found_in(place: &Place, query: WorkspaceEvictionQuery) -> Vec<WorkspaceId> {
    let found = place.store.find_workspaces_for_eviction(query).await;
    let found = found.expect("it answers");
    found.iter().map(|workspace| workspace.id).collect()
}

pub(crate) async fn workspaces_of_one_tier_are_found_for_eviction(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let make = async |purpose: Purpose, second, state, dirty| {
        let mut made = workspace(&cache, key("u", purpose));
        made.last_used_at = at(second);
        made.state = state;
        made.dirty = dirty;
        let kept = store.insert_workspace(&made, PLENTY).await;
        kept.expect("it is new");
        made.id
    };
    let ready = WorkspaceState::Ready;
    let late = make(task("1"), 30, ready, false).await;
    let early = make(task("2"), 10, ready, false).await;
    let blocked = make(task("3"), 20, WorkspaceState::EvictionBlocked, false).await;
    let dirty = make(task("4"), 10, ready, true).await;
    let edit = make(conversation("c"), 10, ready, false).await;
    make(task("5"), 100, ready, false).await;
    make(task("6"), 10, WorkspaceState::Creating, false).await;
    make(task("7"), 10, WorkspaceState::Evicting, false).await;
    make(task("8"), 10, WorkspaceState::Missing, false).await;

    let clean_tasks = tier(WorkspaceMode::Task, false);
    let first_two = WorkspaceEvictionQuery {
        rows_max: 2,
        ..clean_tasks
    };
    assert_eq!(found_in(&place, clean_tasks).await, [early, blocked, late]);
    assert_eq!(found_in(&place, first_two).await, [early, blocked]);
    let dirty_tasks = tier(WorkspaceMode::Task, true);
    assert_eq!(found_in(&place, dirty_tasks).await, [dirty]);
    let clean_edits = tier(WorkspaceMode::Edit, false);
    assert_eq!(found_in(&place, clean_edits).await, [edit]);
    let analyses = tier(WorkspaceMode::Analysis, false);
    assert_eq!(found_in(&place, analyses).await, []);
}

pub(crate) async fn pinned_and_running_ones_are_not_found_for_eviction(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let mut workspace = kept_workspace(&**store, &cache, task("t")).await;
    let query = tier(WorkspaceMode::Task, false);
    workspace.pinned_until = Some(at(201));
    let written = store.update_workspace(&workspace, when(1, 1)).await;
    written.expect("nobody wrote since");
    assert_eq!(found_in(&place, query).await, []);
    workspace.pinned_until = Some(at(200));
    let written = store.update_workspace(&workspace, when(2, 1)).await;
    written.expect("nobody wrote since");
    assert_eq!(found_in(&place, query).await, [workspace.id]);

    let mut runtime = runtime(&workspace);
    store
        .insert_runtime(&runtime, 5)
        .await
        .expect("there is room");
    assert_eq!(found_in(&place, query).await, []);
    runtime.state = RuntimeState::Stopped;
    let stopped = store.update_runtime(&runtime, when(1, 1)).await;
    stopped.expect("nobody wrote since");
    assert_eq!(found_in(&place, query).await, [workspace.id]);
}

pub(crate) async fn the_workspaces_of_a_cache_are_listed(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let other = kept_cache(&**store, "octo/other").await;
    let mut expected = Vec::new();
    for id in ["1", "2", "3"] {
        expected.push(kept_workspace(&**store, &cache, task(id)).await);
    }
    let of_other = kept_workspace(&**store, &other, task("4")).await;
    expected.sort_by_key(|workspace| workspace.id);
    let listed = store.list_workspaces_by_repo(cache.id, all()).await;
    assert_eq!(listed.expect("it answers"), expected);
    let page = Page {
        after: Some(expected[0].id),
        rows_max: 1,
    };
    let listed = store.list_workspaces_by_repo(cache.id, page).await;
    assert_eq!(listed.expect("it answers"), expected[1..2]);
    expected.push(of_other);
    expected.sort_by_key(|workspace| workspace.id);
    let listed = store.list_workspaces(all()).await;
    assert_eq!(listed.expect("it answers"), expected);
}

pub(crate) async fn what_cannot_be_kept_is_refused(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let is_invalid = |result: Result<(), SandboxError>| {
        assert!(
            matches!(result, Err(SandboxError::Invalid(_))),
            "{result:?}"
        );
    };
    let mut large = workspace(&cache, key("u", task("t")));
    large.size_bytes = Some(u64::MAX);
    is_invalid(store.insert_workspace(&large, PLENTY).await);
    let mut torn = workspace(&cache, key("u", task("t")));
    torn.task_id = TaskId::parse("other").ok();
    is_invalid(store.insert_workspace(&torn, PLENTY).await);
    let kept = kept_workspace(&**store, &cache, task("t")).await;
    let written = store.update_workspace(&kept, when(1, u64::MAX)).await;
    is_invalid(written.map(|_workspace| ()));
    let clean = store.mark_workspace_clean(kept.id, u64::MAX, token(1), at(1));
    is_invalid(clean.await.map(|_version| ()));

    // What is finer than a microsecond isn't kept, anywhere.
    let fine: Timestamp = at(7) + SignedDuration::from_nanos(1_999);
    store
        .touch_workspace(kept.id, None, fine)
        .await
        .expect("it is there");
    let found = store.find_workspace(kept.id).await.expect("it answers");
    let expected = at(7) + SignedDuration::from_micros(1);
    assert_eq!(found.map(|found| found.last_used_at), Some(expected));
}
