//! Names that come from outside: stores keep them as they are, whatever they hold.

use unstall_sandbox_core::domain::{
    BackendKind, BackendRuntimeId, ConversationId, ImageName, LocalPath, ProjectId, Purpose,
    RepoCache, TaskId, UserId, WorkerId, Workspace, WorkspaceKey, WorkspaceState,
};

use crate::places::Place;
use crate::prepared_trees::claim;
use crate::records::{
    PLENTY, base, branch, conversation, kept_cache, key, ready_tree, runtime, workspace,
};

/// Ids that something on the way could take for something else.
fn texts() -> Vec<String> {
    let texts = [
        "o'brien\"; DROP TABLE sandbox_workspaces; --",
        "%_\\%",
        "\\'; --",
        "$1 ?1 :a @b {0} ${HOME} $(id)",
        "NULL",
        "null",
        "0",
        "''",
        "Ærøskøbing 🙂 \u{202e}abc",
        "e\u{301}",
        "\u{e9}",
        "a\u{feff}b",
        "\u{10ffff}",
        "<script>alert(1)</script>",
    ];
    let mut texts: Vec<String> = texts.map(str::to_owned).into();
    texts.push("ü".repeat(100));
    texts.push("x".repeat(200));
    texts
}

/// A workspace, whose every text is that one.
fn hostile(text: &str, cache: &RepoCache) -> Workspace {
    let hostile_key = WorkspaceKey {
        user_id: UserId::parse(text).expect(text),
        project_id: ProjectId::parse(text).expect(text),
        purpose: Purpose::Conversation(ConversationId::parse(text).expect(text)),
    };
    let mut made = workspace(cache, hostile_key);
    made.task_id = TaskId::parse(text).ok();
    let path = text.replace(['\\', '/'], "-");
    made.local_path = LocalPath::parse(&format!("o/r/{path}")).expect(text);
    made.state = WorkspaceState::Ready;
    made
}

pub(crate) async fn every_text_is_read_back_as_it_was_written(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    for text in texts() {
        let made = hostile(&text, &cache);
        let kept = store.insert_workspace(&made, PLENTY).await;
        kept.expect(&text);
        let found = place.second.find_workspace_by_key(&made.key).await;
        assert_eq!(found.expect(&text).as_ref(), Some(&made));

        let mut of_it = runtime(&made);
        of_it.backend_kind = BackendKind::parse(&text).expect(&text);
        of_it.backend_runtime_id = BackendRuntimeId::parse(&text).ok();
        of_it.image = ImageName::parse(&text).expect(&text);
        store.insert_runtime(&of_it, 100).await.expect(&text);
        let found = place.second.find_runtime(of_it.id).await;
        assert_eq!(found.expect(&text), Some(of_it));

        let tree = ready_tree(&cache, 0);
        store.insert_prepared_tree(&tree, 100).await.expect(&text);
        let mut hostile_claim = claim(&cache, "w", 10);
        hostile_claim.worker = WorkerId::parse(&text).expect(&text);
        let claimed = store.claim_prepared_tree(&hostile_claim).await;
        let claimed = claimed.expect(&text).expect("there is one");
        assert_eq!(claimed.claimed_by, Some(hostile_claim.worker));
    }
    for name in ["a'b\"c", "größe", "a/b/c", "{a}$1", "x;--", "e\u{301}"] {
        let purposes = [Purpose::Branch(branch(name)), Purpose::Analysis(base(name))];
        for purpose in purposes {
            let made = workspace(&cache, key("u", purpose));
            let kept = store.insert_workspace(&made, PLENTY).await;
            kept.expect(name);
            let found = place.second.find_workspace_by_key(&made.key).await;
            assert_eq!(found.expect(name), Some(made));
        }
    }
}

pub(crate) async fn texts_that_look_alike_are_different_keys(place: Place) {
    let store = &place.store;
    let cache = kept_cache(&**store, "octo/hello").await;
    let alike = ["a", "A", "a.", "á", "a\u{301}", "ａ", "\u{430}", "ß", "ss"];
    for id in alike {
        let made = workspace(&cache, key("u", conversation(id)));
        let kept = store.insert_workspace(&made, PLENTY).await;
        kept.expect(id);
    }
    for id in alike {
        let found = store
            .find_workspace_by_key(&key("u", conversation(id)))
            .await;
        let found = found.expect("it answers").expect(id);
        assert_eq!(
            found.conversation_id.as_ref().map(ConversationId::as_str),
            Some(id)
        );
    }
}
