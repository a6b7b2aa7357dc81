//! Locks through their port: one suite on both managers, and what only a Redis can do to its holders.

mod cases;
mod gate;
mod managers;
mod outages;
mod paused;

/// Each case as a test of either manager.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod local {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::cases::$case(crate::managers::local()).await;
                }
            )+
        }
        mod redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::cases::$case(crate::managers::redis().await).await;
                }
            )+
        }
    };
}

on_both! {
    readers_share_a_lock_and_a_writer_has_it_alone,
    a_waiting_writer_stops_new_readers,
    writers_are_served_in_the_order_of_their_arrival,
    a_dropped_lease_is_free_for_others,
    a_waiter_that_is_cancelled_hinders_nobody,
    a_waiter_whose_time_is_over_hinders_nobody,
    tokens_strictly_grow,
    other_names_are_other_locks,
    work_is_done_while_the_lock_is_held,
    a_thousand_tasks_on_fifty_names_exclude_each_other,
}
