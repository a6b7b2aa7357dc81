//! Runtimes through their port: what holds for any of them, and what only isolation can show.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files and processes between their own steps"
)]

mod commands;
mod confinement;
mod fencing;
mod lifecycle;
mod limits;
mod machine;
mod proof;
mod survivors;

/// Each case as a test of either kind of runtime.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod bubblewrap {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::commands::$case(crate::machine::Machine::bubblewrap().await).await;
                }
            )+
        }
        mod subprocess {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::commands::$case(crate::machine::Machine::subprocess()).await;
                }
            )+
        }
    };
}

on_both! {
    a_command_answers_its_code_and_both_of_its_streams,
    a_signal_is_told_as_shells_tell_it,
    a_command_reads_its_input_and_then_its_end,
    input_that_nobody_reads_is_no_error,
    a_command_starts_where_it_is_told_and_has_its_environment,
    a_command_that_cannot_begin_says_why,
    arguments_of_any_bytes_arrive_as_they_were,
    a_command_that_takes_too_long_is_killed_with_its_group,
    a_grandchild_that_holds_the_pipe_does_not_hold_the_answer,
    endless_output_is_drained_and_both_its_ends_are_kept,
    output_comes_while_the_command_runs,
    a_stream_that_is_dropped_kills_its_command,
    many_commands_run_at_a_time,
    a_runtime_is_found_by_its_labels_until_it_is_destroyed,
}
