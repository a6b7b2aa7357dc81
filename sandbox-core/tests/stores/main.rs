//! One suite for every store: a case is a function of the port, and runs in memory, in SQLite and in
//! PostgreSQL. What only one of them can show (a restart, a killed server, a damaged file) stands apart.

mod agreement;
mod caches;
mod concurrency;
mod hostile_texts;
mod outages;
mod places;
mod prepared_trees;
mod records;
mod runtimes;
mod schema;
mod workspaces;

/// Makes a test of each case, in each place.
macro_rules! on_every_store {
    (@in $place:ident $($file:ident: $($case:ident),+;)+) => {
        mod $place {
            $(
                mod $file {
                    $(
                        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                        async fn $case() {
                            crate::$file::$case(crate::places::$place().await).await;
                        }
                    )+
                }
            )+
        }
    };
    ($($cases:tt)+) => {
        on_every_store!(@in in_memory $($cases)+);
        on_every_store!(@in in_sqlite $($cases)+);
        on_every_store!(@in in_postgres $($cases)+);
    };
}

on_every_store! {
    caches:
        an_intent_is_found_by_its_id_and_its_key,
        a_key_has_one_live_cache,
        a_write_needs_the_newest_version_and_no_older_token,
        what_was_used_since_is_not_written,
        only_what_may_change_is_written,
        a_deleted_cache_is_history_and_frees_its_key,
        a_cache_is_evicted_only_when_ready_and_unused,
        nothing_is_made_of_a_cache_that_is_evicted,
        idle_caches_are_found_the_longest_unused_first,
        lists_are_read_in_pages;
    workspaces:
        every_purpose_has_a_key_that_finds_it,
        a_key_is_unique_also_where_its_other_columns_are_empty,
        a_deleted_workspace_is_history_and_frees_its_key,
        a_workspace_needs_a_live_cache,
        there_are_no_more_workspaces_than_the_quotas_allow,
        only_what_may_change_is_written,
        a_stale_writer_is_refused,
        nothing_is_clean_that_was_announced_dirty_since,
        whoever_lost_the_lock_on_commands_says_nothing_of_the_tree,
        workspaces_of_one_tier_are_found_for_eviction,
        pinned_and_running_ones_are_not_found_for_eviction,
        the_workspaces_of_a_cache_are_listed,
        what_cannot_be_kept_is_refused;
    runtimes:
        a_workspace_has_one_live_runtime,
        a_runtime_needs_a_ready_workspace,
        there_are_no_more_runtimes_than_allowed,
        a_write_needs_the_newest_version_and_no_older_token,
        a_lease_only_grows,
        whoever_lost_the_lock_on_commands_keeps_no_runtime,
        idle_runtimes_are_those_without_a_lease,
        a_runtime_whose_workspace_is_gone_is_an_orphan;
    prepared_trees:
        a_base_has_no_more_unclaimed_trees_than_allowed,
        the_newest_ready_tree_is_claimed_and_ended_claims_after_it,
        a_claim_looks_at_cache_base_and_age,
        a_later_claim_refuses_the_earlier_one,
        adoption_changes_both_or_neither,
        a_write_needs_the_version,
        what_is_adopted_or_terminated_is_history;
    hostile_texts:
        every_text_is_read_back_as_it_was_written,
        texts_that_look_alike_are_different_keys;
    concurrency:
        thirty_inserts_of_one_cache_key_make_one_cache,
        thirty_inserts_of_one_workspace_key_make_one_workspace,
        a_quota_holds_for_those_who_come_at_once,
        of_thirty_writers_of_one_version_one_writes,
        a_thousand_claims_at_once_get_a_thousand_trees,
        an_eviction_and_an_insert_never_both_succeed,
        of_a_destroyed_workspace_and_its_new_runtime_one_wins;
}
