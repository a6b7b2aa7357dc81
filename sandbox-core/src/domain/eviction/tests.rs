//! The rules of eviction, case by case and over made-up populations.

use proptest::prelude::*;

use super::*;

const GB: u64 = 1_000_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(2_000_000_000).expect("a moment")
}

fn ago(ms: u64) -> Timestamp {
    let before = i64::try_from(ms).expect("a length of time");
    Timestamp::from_millisecond(now().as_millisecond() - before).expect("a moment")
}

fn ahead(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(now().as_millisecond() + ms).expect("a moment")
}

fn workspace(mode: WorkspaceMode, dirty: bool, unused_ms: u64) -> WorkspaceFacts {
    WorkspaceFacts {
        id: WorkspaceId::generate(),
        mode,
        state: WorkspaceState::Ready,
        dirty,
        pinned_until: None,
        last_used_at: ago(unused_ms),
        size_bytes: Some(GB),
        has_running_runtime: false,
    }
}

fn runtime(state: RuntimeState, unused_ms: u64) -> RuntimeFacts {
    RuntimeFacts {
        id: RuntimeId::generate(),
        state,
        last_used_at: ago(unused_ms),
        expires_at: None,
    }
}

fn cache(uses: u64, unused_ms: u64) -> CacheFacts {
    CacheFacts {
        id: CacheId::generate(),
        state: RepoCacheState::Ready,
        last_used_at: ago(unused_ms),
        size_bytes: Some(GB),
        uses,
    }
}

fn decided(candidates: &[Candidate], used_percent: u64) -> Vec<Decision> {
    let limits = Limits::default();
    let disk = Disk {
        used_bytes: limits.volume_bytes / 100 * used_percent,
    };
    decide(candidates, &limits, now(), disk)
}

fn action(candidate: Candidate, used_percent: u64) -> Action {
    decided(&[candidate], used_percent)[0].action
}

#[test]
fn an_idle_runtime_is_stopped_and_later_destroyed() {
    let of = |state, unused_ms| action(Candidate::Runtime(runtime(state, unused_ms)), 0);
    assert_eq!(of(RuntimeState::Running, 30 * MINUTE_MS), Action::Keep);
    assert_eq!(
        of(RuntimeState::Running, 30 * MINUTE_MS + 1),
        Action::StopRuntime
    );
    assert_eq!(of(RuntimeState::Stopped, 6 * HOUR_MS), Action::Keep);
    assert_eq!(
        of(RuntimeState::Stopped, 7 * HOUR_MS),
        Action::DestroyRuntime
    );
    assert_eq!(of(RuntimeState::Failed, 0), Action::DestroyRuntime);
    assert_eq!(of(RuntimeState::Creating, DAY_MS), Action::Keep);
}

#[test]
fn a_command_that_runs_keeps_its_runtime() {
    let mut facts = runtime(RuntimeState::Running, DAY_MS);
    facts.expires_at = Some(ahead(1));
    assert_eq!(action(Candidate::Runtime(facts), 99), Action::Keep);
    facts.expires_at = Some(now());
    assert_eq!(action(Candidate::Runtime(facts), 0), Action::StopRuntime);
}

#[test]
fn a_time_of_zero_switches_the_sweep_off() {
    let limits = Limits {
        runtime_idle_ms: 0,
        runtime_stopped_ms: 0,
        workspace_ttl_ms: 0,
        cache_stale_ms: 0,
        ..Limits::default()
    };
    let candidates = [
        Candidate::Runtime(runtime(RuntimeState::Running, 1000 * DAY_MS)),
        Candidate::Runtime(runtime(RuntimeState::Stopped, 1000 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Analysis, false, 1000 * DAY_MS)),
        Candidate::Cache(cache(0, 1000 * DAY_MS)),
    ];
    let decisions = decide(&candidates, &limits, now(), Disk { used_bytes: 0 });
    assert!(
        decisions
            .iter()
            .all(|decision| decision.action == Action::Keep)
    );
}

#[test]
fn clean_trees_go_after_their_time_in_the_order_of_their_tiers() {
    let unused_ms = 15 * DAY_MS;
    let candidates = [
        Candidate::Workspace(workspace(WorkspaceMode::Edit, false, 99 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Task, false, unused_ms)),
        Candidate::Workspace(workspace(WorkspaceMode::Analysis, false, unused_ms)),
        Candidate::Workspace(workspace(WorkspaceMode::Analysis, false, unused_ms + 1)),
        Candidate::Workspace(workspace(WorkspaceMode::Analysis, false, 14 * DAY_MS)),
    ];
    let order: Vec<Target> = decided(&candidates, 0)
        .iter()
        .filter(|decision| decision.action == Action::EvictWorkspace { save_first: false })
        .map(|decision| decision.target)
        .collect();
    assert_eq!(order, [3, 2, 1, 0].map(|index| candidates[index].target()));
}

#[test]
fn dirty_trees_go_under_pressure_only_and_are_saved_first() {
    let of = |mode, percent| {
        let facts = workspace(mode, true, 300 * DAY_MS);
        action(Candidate::Workspace(facts), percent)
    };
    let saved = Action::EvictWorkspace { save_first: true };
    assert_eq!(of(WorkspaceMode::Task, 79), Action::Keep);
    assert_eq!(of(WorkspaceMode::Task, 80), saved);
    assert_eq!(of(WorkspaceMode::Edit, 89), Action::Keep);
    assert_eq!(of(WorkspaceMode::Edit, 90), saved);
    assert_eq!(of(WorkspaceMode::Analysis, 100), Action::Keep);
}

#[test]
fn pressure_takes_no_more_than_it_needs() {
    let candidates: Vec<Candidate> = (1..=10)
        .map(|day| Candidate::Workspace(workspace(WorkspaceMode::Task, true, day * DAY_MS)))
        .collect();
    // Of 82 GB, three of 1 GB have to go to be below 80: the longest unused ones.
    let decisions = decided(&candidates, 82);
    let gone: Vec<Target> = decisions
        .iter()
        .filter(|decision| decision.action != Action::Keep)
        .map(|decision| decision.target)
        .collect();
    assert_eq!(gone, [9, 8, 7].map(|index| candidates[index].target()));
}

#[test]
fn under_pressure_clean_trees_go_before_dirty_ones_and_the_longest_unused_first() {
    let candidates = [
        Candidate::Workspace(workspace(WorkspaceMode::Task, true, 9 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Edit, false, 2 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Edit, false, 3 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Analysis, false, DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Edit, false, MINUTE_MS)),
    ];
    let gone = |percent| -> Vec<Target> {
        decided(&candidates, percent)
            .iter()
            .filter(|decision| decision.action != Action::Keep)
            .map(|decision| decision.target)
            .collect()
    };
    let of = |indices: &[usize]| -> Vec<Target> {
        let targets = indices.iter().map(|index| candidates[*index].target());
        targets.collect()
    };
    assert_eq!(gone(79), of(&[]));
    // Each is 1 GB of 100, so that two clean ones are enough for 81, and all for 82.
    assert_eq!(gone(81), of(&[3, 2]));
    assert_eq!(gone(82), of(&[3, 2, 1]));
    assert_eq!(gone(83), of(&[3, 2, 1, 0]));
    let clean = decided(&candidates, 81)[0].clone();
    assert_eq!(clean.action, Action::EvictWorkspace { save_first: false });
    assert_eq!(
        clean.reason,
        "clean and unused for 24 h, and 81 % of the volume are pressure (80 %)"
    );
}

#[test]
fn caches_go_last_and_never_under_a_tree() {
    let of = |uses, unused_ms, percent| action(Candidate::Cache(cache(uses, unused_ms)), percent);
    assert_eq!(of(0, 31 * DAY_MS, 0), Action::EvictCache);
    assert_eq!(of(1, 31 * DAY_MS, 100), Action::Keep);
    assert_eq!(of(0, DAY_MS, 89), Action::Keep);
    assert_eq!(of(0, DAY_MS, 90), Action::EvictCache);
    assert_eq!(of(0, MINUTE_MS, 100), Action::Keep);
    let both = [
        Candidate::Cache(cache(0, 400 * DAY_MS)),
        Candidate::Workspace(workspace(WorkspaceMode::Edit, false, 40 * DAY_MS)),
    ];
    assert_eq!(decided(&both, 0)[1].tier, Tier::Cache);
}

#[test]
fn each_decision_says_why() {
    let candidate = Candidate::Workspace(workspace(WorkspaceMode::Task, true, 5 * HOUR_MS));
    assert_eq!(
        decided(&[candidate], 85)[0].reason,
        "unused for 5 h, and 85 % of the volume are pressure (80 %): its changes are saved first, \
         ignored files aren't"
    );
    let candidate = Candidate::Workspace(workspace(WorkspaceMode::Edit, false, 90 * SECOND_MS));
    assert_eq!(
        decided(&[candidate], 85)[0].reason,
        "it is clean and unused for 90 s; 14 d are allowed"
    );
    for (uses, words) in [(1, "1 tree stands on it"), (2, "2 trees stand on it")] {
        let candidate = Candidate::Cache(cache(uses, DAY_MS));
        assert_eq!(decided(&[candidate], 0)[0].reason, words);
    }
}

fn any_workspace() -> impl Strategy<Value = WorkspaceFacts> {
    (
        prop::sample::select(WorkspaceMode::ALL),
        prop::sample::select(WorkspaceState::ALL),
        any::<bool>(),
        prop::option::of(-1000_i64..1000),
        0..60 * DAY_MS,
        prop::option::of(0..20 * GB),
        any::<bool>(),
    )
        .prop_map(
            |(mode, state, dirty, pin_ms, unused_ms, size_bytes, has_running_runtime)| {
                WorkspaceFacts {
                    state,
                    pinned_until: pin_ms.map(ahead),
                    size_bytes,
                    has_running_runtime,
                    ..workspace(mode, dirty, unused_ms)
                }
            },
        )
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    prop_oneof![
        4 => any_workspace().prop_map(Candidate::Workspace),
        1 => (prop::sample::select(RuntimeState::ALL), 0..DAY_MS)
            .prop_map(|(state, unused_ms)| Candidate::Runtime(runtime(state, unused_ms))),
        1 => (0..3_u64, 0..60 * DAY_MS)
            .prop_map(|(uses, unused_ms)| Candidate::Cache(cache(uses, unused_ms))),
    ]
}

proptest! {
    #[test]
    fn each_candidate_is_decided_on_once_whatever_the_order_of_the_input(
        candidates in prop::collection::vec(any_candidate(), 0..40),
        percent in 0..120_u64,
    ) {
        let decisions = decided(&candidates, percent);
        prop_assert_eq!(decisions.len(), candidates.len());
        for candidate in &candidates {
            let target = candidate.target();
            let count = decisions.iter().filter(|decision| decision.target == target).count();
            prop_assert_eq!(count, 1);
        }
        let mut reversed = candidates;
        reversed.reverse();
        prop_assert_eq!(decided(&reversed, percent), decisions);
    }

    #[test]
    fn what_goes_goes_by_tiers_and_nothing_goes_that_may_not(
        candidates in prop::collection::vec(any_candidate(), 0..40),
        percent in 0..120_u64,
    ) {
        let decisions = decided(&candidates, percent);
        let going: Vec<&Decision> = decisions
            .iter()
            .take_while(|decision| decision.action != Action::Keep)
            .collect();
        prop_assert!(going.is_sorted_by_key(|decision| decision.tier));
        prop_assert!(decisions[going.len()..].iter().all(|left| left.action == Action::Keep));
        for decision in going {
            let facts = candidates.iter().find_map(|candidate| match candidate {
                Candidate::Workspace(facts) if candidate.target() == decision.target => Some(facts),
                _ => None,
            });
            let Some(facts) = facts else { continue };
            prop_assert!(facts.pinned_until.is_none_or(|until| until <= now()));
            prop_assert!(!facts.has_running_runtime);
            prop_assert!(matches!(
                facts.state,
                WorkspaceState::Ready | WorkspaceState::EvictionBlocked
            ));
            prop_assert_eq!(decision.action, Action::EvictWorkspace { save_first: facts.dirty });
            prop_assert!(!facts.dirty || percent >= 80);
        }
    }
}
