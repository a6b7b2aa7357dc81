//! Whether the stores agree on what nobody thought of: long random histories, carried out in memory and
//! in a database, have to get the same answers, errors included.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use unstall_sandbox_core::domain::{
    CacheId, CommitId, FencingToken, PreparedTree, PreparedTreeId, PreparedTreeState, Purpose,
    RepoCache, RepoCacheState, Runtime, RuntimeId, RuntimeState, WorkerId, Workspace, WorkspaceId,
    WorkspaceMode, WorkspaceState,
};
use unstall_sandbox_core::ports::store::{
    IdleRuntimeQuery, Precondition, SandboxStore, TreeClaim, WorkspaceEvictionQuery, WorkspaceQuota,
};

use crate::places::{Place, in_memory, in_postgres, in_sqlite};
use crate::records::{
    all, at, base, branch, cache, conversation, key, ready_tree, runtime, task, token, when,
    workspace,
};

/// Calls of one history.
const STEPS: usize = 1_000;

/// One call, with all it is given.
#[derive(Debug)]
enum Call {
    InsertCache(RepoCache),
    UpdateCache(RepoCache, Precondition),
    EvictCache(CacheId, Precondition),
    TouchCache(CacheId, i64),
    InsertWorkspace(Workspace, WorkspaceQuota),
    UpdateWorkspace(Workspace, Precondition),
    TouchWorkspace(WorkspaceId, Option<FencingToken>, i64),
    MarkDirty(WorkspaceId, FencingToken, i64),
    MarkClean(WorkspaceId, u64, FencingToken),
    InsertRuntime(Runtime, u32),
    UpdateRuntime(Runtime, Precondition),
    TouchRuntime(RuntimeId, Option<FencingToken>, i64, Option<i64>),
    InsertTree(PreparedTree, u32),
    Claim(TreeClaim),
    UpdateTree(PreparedTree),
    Adopt(PreparedTree, Workspace, Precondition),
    FindIdle(IdleRuntimeQuery),
    FindEvictable(WorkspaceEvictionQuery),
    FindEvictableCaches(i64),
}

/// What the store answers, as a text to compare.
async fn answer(store: &dyn SandboxStore, call: &Call) -> String {
    match call {
        Call::InsertCache(cache) => format!("{:?}", store.insert_cache(cache).await),
        Call::UpdateCache(cache, when) => format!("{:?}", store.update_cache(cache, *when).await),
        Call::EvictCache(id, when) => {
            format!("{:?}", store.begin_cache_eviction(*id, *when, at(50)).await)
        }
        Call::TouchCache(id, used) => format!("{:?}", store.touch_cache(*id, at(*used)).await),
        Call::InsertWorkspace(workspace, quota) => {
            format!("{:?}", store.insert_workspace(workspace, *quota).await)
        }
        Call::UpdateWorkspace(workspace, when) => {
            format!("{:?}", store.update_workspace(workspace, *when).await)
        }
        Call::TouchWorkspace(id, held, used) => {
            let touched = store.touch_workspace(*id, *held, at(*used)).await;
            format!("{touched:?}")
        }
        Call::MarkDirty(id, held, used) => {
            let marked = store.mark_workspace_dirty(*id, *held, at(*used)).await;
            format!("{marked:?}")
        }
        Call::MarkClean(id, version, held) => {
            let marked = store.mark_workspace_clean(*id, *version, *held, at(60));
            format!("{:?}", marked.await)
        }
        Call::InsertRuntime(runtime, most) => {
            format!("{:?}", store.insert_runtime(runtime, *most).await)
        }
        Call::UpdateRuntime(runtime, when) => {
            format!("{:?}", store.update_runtime(runtime, *when).await)
        }
        Call::TouchRuntime(id, held, used, until) => {
            let touched = store.touch_runtime(*id, *held, at(*used), until.map(at));
            format!("{:?}", touched.await)
        }
        Call::InsertTree(tree, most) => {
            format!("{:?}", store.insert_prepared_tree(tree, *most).await)
        }
        Call::Claim(claim) => format!("{:?}", store.claim_prepared_tree(claim).await),
        Call::UpdateTree(tree) => format!("{:?}", store.update_prepared_tree(tree).await),
        Call::Adopt(tree, workspace, when) => {
            let adopted = store.adopt_prepared_tree(tree, workspace, *when).await;
            format!("{adopted:?}")
        }
        Call::FindIdle(query) => format!("{:?}", store.find_idle_runtimes(*query).await),
        Call::FindEvictable(query) => {
            format!("{:?}", store.find_workspaces_for_eviction(*query).await)
        }
        Call::FindEvictableCaches(before) => {
            format!("{:?}", store.find_caches_for_eviction(at(*before), 5).await)
        }
    }
}

/// All that is live, and what is orphaned.
async fn everything(store: &dyn SandboxStore) -> String {
    format!(
        "{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}",
        store.list_caches(all()).await,
        store.list_workspaces(all()).await,
        store.list_runtimes(all()).await,
        store.list_prepared_trees(all()).await,
        store.find_orphan_runtimes(100).await,
    )
}

/// A small world, in which calls often meet each other.
struct World {
    random: ChaCha8Rng,
    caches: Vec<RepoCache>,
    workspaces: Vec<Workspace>,
    runtimes: Vec<Runtime>,
    trees: Vec<PreparedTree>,
}

impl World {
    fn new(seed: u64) -> Self {
        let caches = vec![cache("octo/a"), cache("Octo/A"), cache("octo/b")];
        let purposes = [
            conversation("c"),
            task("t"),
            Purpose::Branch(branch("c")),
            Purpose::Analysis(base("main")),
        ];
        let mut workspaces = Vec::new();
        for (number, purpose) in purposes.into_iter().cycle().take(10).enumerate() {
            let user = if number < 8 { "u" } else { "v" };
            workspaces.push(workspace(&caches[number % 3], key(user, purpose)));
        }
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            runtimes: workspaces.iter().take(6).map(runtime).collect(),
            trees: (0..6)
                .map(|number| ready_tree(&caches[number % 2], i64::try_from(number).unwrap_or(0)))
                .collect(),
            caches,
            workspaces,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn second(&mut self) -> i64 {
        self.random.random_range(0..40)
    }

    /// Of the lock on a workspace's commands.
    fn commands_token(&mut self) -> FencingToken {
        token(self.random.random_range(0..4))
    }

    fn chance(&mut self) -> bool {
        self.random.random_range(0..2) == 0
    }

    fn precondition(&mut self, version: u64) -> Precondition {
        let version = if self.below(4) == 0 {
            version + 1
        } else {
            version
        };
        let mut when = when(version, self.random.random_range(1..4));
        if self.below(4) == 0 {
            when.unused_since = Some(at(self.second()));
        }
        when
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn next_call(&mut self) -> Call {
        match self.below(19) {
            0..4 => self.cache_call(),
            4..9 => self.workspace_call(),
            9..12 => self.runtime_call(),
            12..17 => self.tree_call(),
            _ => self.query(),
        }
    }

    fn cache_call(&mut self) -> Call {
        let index = self.below(self.caches.len());
        let (id, used) = (self.caches[index].id, self.second());
        let version = self.caches[index].version;
        match self.below(5) {
            0 | 1 => {
                // Once it is history, its id can't come back.
                if self.chance() {
                    self.caches[index].id = CacheId::generate();
                    self.caches[index].version = 1;
                }
                Call::InsertCache(self.caches[index].clone())
            }
            2 => Call::TouchCache(id, used),
            3 if self.below(4) == 0 => Call::EvictCache(id, self.precondition(version)),
            _ => {
                let mut change = self.caches[index].clone();
                // Mostly ready, so that something can stand on it.
                change.state = match self.below(8) {
                    0 => self.pick(RepoCacheState::ALL),
                    _ => RepoCacheState::Ready,
                };
                change.last_used_at = at(used);
                change.size_bytes = self.chance().then_some(7);
                Call::UpdateCache(change, self.precondition(version))
            }
        }
    }

    fn workspace_call(&mut self) -> Call {
        let index = self.below(self.workspaces.len());
        let cache = self.below(self.caches.len());
        let (id, used) = (self.workspaces[index].id, self.second());
        let version = self.workspaces[index].version;
        match self.below(7) {
            0 | 1 => {
                if self.chance() {
                    self.workspaces[index].id = WorkspaceId::generate();
                    self.workspaces[index].version = 1;
                }
                self.workspaces[index].repo_cache_id = self.caches[cache].id;
                let quota = WorkspaceQuota {
                    per_user_max: 3,
                    total_max: 4,
                };
                Call::InsertWorkspace(self.workspaces[index].clone(), quota)
            }
            2 => {
                let held = self.commands_token();
                Call::TouchWorkspace(id, self.chance().then_some(held), used)
            }
            3 => Call::MarkDirty(id, self.commands_token(), used),
            4 => Call::MarkClean(id, version, self.commands_token()),
            _ => {
                let mut change = self.workspaces[index].clone();
                change.state = match self.below(4) {
                    0 => self.pick(WorkspaceState::ALL),
                    _ => WorkspaceState::Ready,
                };
                change.dirty = self.chance();
                change.pinned_until = self.chance().then_some(at(used));
                change.last_used_at = at(used);
                Call::UpdateWorkspace(change, self.precondition(version))
            }
        }
    }

    fn runtime_call(&mut self) -> Call {
        let index = self.below(self.runtimes.len());
        let owner = self.below(self.workspaces.len());
        let (id, used) = (self.runtimes[index].id, self.second());
        let version = self.runtimes[index].version;
        match self.below(4) {
            0 | 1 => {
                if self.chance() {
                    self.runtimes[index].id = RuntimeId::generate();
                    self.runtimes[index].version = 1;
                }
                self.runtimes[index].workspace_id = self.workspaces[owner].id;
                Call::InsertRuntime(self.runtimes[index].clone(), 2)
            }
            2 => {
                let held = self.commands_token();
                let held = self.chance().then_some(held);
                Call::TouchRuntime(id, held, used, self.chance().then_some(used + 5))
            }
            _ => {
                let mut change = self.runtimes[index].clone();
                change.state = self.pick(RuntimeState::ALL);
                change.last_used_at = at(used);
                change.expires_at = self.chance().then_some(at(used + 3));
                Call::UpdateRuntime(change, self.precondition(version))
            }
        }
    }

    fn tree_call(&mut self) -> Call {
        let index = self.below(self.trees.len());
        let cache = self.below(self.caches.len());
        let second = self.second();
        match self.below(6) {
            0 | 1 => {
                if self.chance() {
                    self.trees[index].id = PreparedTreeId::generate();
                    self.trees[index].version = 1;
                }
                self.trees[index].repo_cache_id = self.caches[cache].id;
                self.trees[index].state = PreparedTreeState::Ready;
                Call::InsertTree(self.trees[index].clone(), 3)
            }
            2 | 3 => Call::Claim(TreeClaim {
                repo_cache_id: self.caches[cache].id,
                base_ref: base("main"),
                made_since: at(second / 10),
                worker: WorkerId::parse("w").expect("a worker"),
                now: at(second),
                lease_until: at(second + 5),
            }),
            4 => {
                let mut change = self.trees[index].clone();
                change.state = self.pick(PreparedTreeState::ALL);
                change.commit = CommitId::parse(&"ab".repeat(20)).ok();
                if self.chance() {
                    change.claimed_by = WorkerId::parse("x").ok();
                    change.claimed_until = Some(at(second));
                }
                Call::UpdateTree(change)
            }
            _ => {
                let owner = self.below(self.workspaces.len());
                let adopter = self.workspaces[owner].clone();
                let when = self.precondition(adopter.version);
                Call::Adopt(self.trees[index].clone(), adopter, when)
            }
        }
    }

    fn query(&mut self) -> Call {
        let (used_before, now) = (at(self.second()), at(self.second()));
        match self.below(3) {
            0 => Call::FindIdle(IdleRuntimeQuery {
                state: self.pick(RuntimeState::ALL),
                used_before,
                now,
                rows_max: 2,
            }),
            1 => Call::FindEvictable(WorkspaceEvictionQuery {
                mode: self.pick(WorkspaceMode::ALL),
                dirty: self.chance(),
                used_before,
                now,
                rows_max: 2,
            }),
            _ => Call::FindEvictableCaches(self.second()),
        }
    }

    /// Learns ids and versions of what is live, so that the next calls meet it.
    async fn look(&mut self, store: &dyn SandboxStore) {
        for row in store.list_caches(all()).await.expect("it answers") {
            for known in self.caches.iter_mut().filter(|known| known.key == row.key) {
                (known.id, known.version) = (row.id, row.version);
            }
        }
        for row in store.list_workspaces(all()).await.expect("it answers") {
            for known in self
                .workspaces
                .iter_mut()
                .filter(|known| known.key == row.key)
            {
                (known.id, known.version) = (row.id, row.version);
            }
        }
        for row in store.list_runtimes(all()).await.expect("it answers") {
            let known = self.runtimes.iter_mut();
            for known in known.filter(|known| known.workspace_id == row.workspace_id) {
                (known.id, known.version) = (row.id, row.version);
            }
        }
        let trees = store.list_prepared_trees(all()).await.expect("it answers");
        for (known, row) in self.trees.iter_mut().zip(trees.into_iter().rev()) {
            *known = row;
        }
    }
}

async fn agree(place: Place, seed: u64) {
    let memory = in_memory().await;
    let mut world = World::new(seed);
    for step in 0..STEPS {
        let call = world.next_call();
        let expected = answer(&*memory.store, &call).await;
        let found = answer(&*place.of_worker(step), &call).await;
        assert_eq!(found, expected, "seed {seed}, step {step}: {call:#?}");
        if step % 10 == 9 {
            let expected = everything(&*memory.store).await;
            let found = everything(&*place.store).await;
            assert_eq!(found, expected, "seed {seed}, after step {step}: {call:#?}");
        }
        world.look(&*memory.store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_answers_as_memory_does() {
    for seed in [1, 2] {
        agree(in_sqlite().await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_answers_as_memory_does() {
    for seed in [1, 2] {
        agree(in_postgres().await, seed).await;
    }
}
