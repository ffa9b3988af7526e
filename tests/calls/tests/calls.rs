//! Calls into sandboxes, each case with a sandbox of its own.

#[path = "calls/endings.rs"]
mod endings;
#[path = "calls/exec.rs"]
mod exec;
#[path = "calls/files.rs"]
mod files;
#[path = "calls/input.rs"]
mod input;
#[path = "calls/load.rs"]
mod load;
#[path = "calls/output.rs"]
mod output;
#[path = "calls/sessions.rs"]
mod sessions;
#[path = "calls/special.rs"]
mod special;
#[path = "calls/tar_streams.rs"]
mod tar_streams;

use std::process::ExitCode;

use innkeeper_test_calls::cases;

/// Turns async functions into cases.
macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |daemon| {
            Box::pin($module::$name(daemon))
        })),*]
    };
}

fn main() -> ExitCode {
    cases::main(cases![
        exec::words_and_environment_arrive_verbatim,
        exec::defaults_come_from_the_template,
        exec::user_directory_and_mask,
        exec::what_cannot_start_says_why,
        exec::broken_pipes_end_writers,
        exec::a_terminal_has_size_signals_and_an_end_of_input,
        exec::signals_reach_the_command,
        exec::one_id_is_one_run,
        output::all_of_it_arrives,
        output::merged_output_keeps_its_order,
        output::the_last_byte_of_short_commands_is_there,
        output::a_slow_reader_does_not_hold_the_command,
        output::a_reader_continues_where_it_was_cut_off,
        output::too_much_is_cut_and_flagged,
        input::it_is_at_its_end_unless_asked_for,
        input::it_flows_in_both_directions,
        input::a_caller_that_is_cut_off_ends_no_input,
        input::a_command_that_stops_reading_ends_cleanly,
        endings::a_timeout_kills_the_whole_tree,
        endings::a_start_that_the_guest_stops_keeps_its_time,
        endings::a_file_call_that_the_guest_stops_ends_with_its_caller,
        endings::a_background_child_does_not_hold_the_call,
        endings::a_filter_behind_the_command_is_heard_to_its_end,
        endings::a_lost_caller_kills_unless_detached,
        endings::memory_is_told_from_a_kill,
        endings::a_destroyed_sandbox_ends_its_calls,
        load::many_long_commands_leave_room_for_short_ones,
        load::parallel_commands_are_not_mixed_up,
        load::a_fork_bomb_does_not_outlive_its_call,
        sessions::state_stays_between_commands,
        sessions::concurrent_callers_take_turns,
        sessions::a_timeout_keeps_the_session,
        sessions::a_shell_that_the_guest_stops_is_given_up,
        sessions::a_shell_that_ends_ends_its_session,
        files::a_file_comes_back_as_it_was_sent,
        files::a_broken_off_upload_changes_nothing,
        files::gigabytes_take_no_memory,
        files::directories_are_listed_and_removed,
        files::paths_stay_inside_and_errors_have_codes,
        special::files_that_are_none_fail_fast,
        special::a_swapped_directory_does_not_divert_an_upload,
        tar_streams::a_tree_comes_back_as_it_was,
        tar_streams::nothing_is_unpacked_outside,
        tar_streams::a_reader_that_leaves_ends_the_call,
    ])
}
