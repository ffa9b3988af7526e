//! What happens to leases, slots and templates over time, and when something dies.

pub(crate) mod death;
mod leases;
mod storm;
mod supply;
mod templates;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("leases_survive_a_killed_manager", death::manager),
    (
        "a_killed_daemon_ends_its_leases_with_a_typed_error",
        death::daemon,
    ),
    (
        "a_killed_spawner_ends_its_leases_with_a_typed_error",
        death::spawner,
    ),
    ("a_daemon_that_nobody_manages_ends_itself", death::orphans),
    ("nothing_leaks_whatever_is_killed_and_when", storm::storm),
    ("one_request_id_is_one_lease", leases::request_id),
    ("a_lease_that_expires_is_reset", leases::expiry),
    ("a_deadline_does_not_move", leases::deadline),
    ("services_come_back_and_are_compared", templates::services),
    (
        "a_service_that_differs_taints",
        templates::differing_service,
    ),
    ("prepare_runs_once_for_eight_slots", templates::prepare),
    (
        "a_prepare_that_leaves_a_process_is_single_use",
        templates::leftover,
    ),
    ("the_hosts_network_is_single_use", templates::host_network),
    ("on_demand_makes_a_slot_for_each_lease", supply::on_demand),
    ("warm_hands_out_slots_never_used", supply::warm),
    ("reuse_replaces_by_its_setting", supply::reuse),
    ("slots_carry_their_own_image_or_any", supply::carry),
];
