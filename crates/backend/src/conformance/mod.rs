//! The tests that every backend must pass: one function a rule, and its name states the rule.
//!
//! A backend's test file is one line: [`conformance_suite!`](crate::conformance_suite) with what makes a fresh store.

pub mod admission;
pub mod approvals;
pub(crate) mod clocks;
pub mod dead_letters;
pub mod deferred_results;
pub mod deliveries;
pub mod documents;
pub mod fences;
pub mod held_approvals;
pub mod inspection;
pub mod job_leases;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod lock_queues;
mod lock_requests;
pub mod locks;
pub mod memory;
mod on_manual_clock;
pub mod policy_holds;
pub mod queues;
pub mod reconcile;
pub mod registry;
pub mod reservations;
pub mod runs;
mod scene;
pub mod second_results;
pub mod suspects;
pub mod turns;
pub mod values;
pub mod versus_memory;
pub mod workers;
pub mod workflows;

use std::time::Duration;

use async_trait::async_trait;

pub use self::on_manual_clock::OnManualClock;
use crate::Store;

/// What a backend brings to the suite: a fresh store, and a way to let time pass on the clock that it trusts.
#[async_trait]
pub trait Subject: Send + Sync {
    fn store(&self) -> Store;
    async fn elapse(&self, time: Duration);
    /// Closes the store and opens what it kept. A store that keeps nothing comes back as it is.
    async fn reopen(&mut self);
}

/// Every rule as a test of the backend that `$subject` makes.
#[macro_export]
macro_rules! conformance_suite {
    ($subject:expr) => {
        $crate::conformance_rules! { $subject;
            admission::{
                a_start_within_the_cap_is_admitted,
                a_tenant_at_its_cap_is_refused_and_nothing_is_left_behind,
                a_tenant_at_its_cap_does_not_stop_another_tenant,
                starts_at_once_never_exceed_the_cap,
                a_replayed_start_returns_the_first_run_even_at_capacity,
                starts_at_once_with_one_key_make_one_run,
                a_key_with_another_payload_is_refused_and_names_the_first_run,
                a_refused_start_does_not_consume_its_key,
                keys_are_scoped_by_tenant_and_workflow,
                a_key_is_kept_for_its_retention_and_not_longer,
                a_replay_of_a_deleted_run_has_no_status,
                a_start_with_an_old_definition_is_rejected,
                asking_again_with_the_same_run_id_starts_once,
                another_start_with_the_id_of_a_run_is_a_conflict,
                a_start_with_its_first_turn_is_one_write,
                a_run_that_ends_with_its_first_turn_leaves_no_slot_taken,
                a_repeat_is_answered_before_the_definition_and_the_cap,
                a_repeat_does_not_bring_a_deleted_run_back,
                a_refusal_says_how_fast_slots_come_free,
            }
            reservations::{
                the_admission_lock_is_its_tenants_own_and_in_no_list_and_no_quota,
                a_key_is_reserved_only_under_the_live_lock,
                a_reservation_starts_nothing_and_the_create_commits_it,
                a_start_under_the_lock_needs_its_fence_to_be_live,
                a_start_under_the_lock_needs_its_own_reservation,
                a_start_under_the_lock_is_held_to_the_cap_and_the_definition,
                a_later_holder_takes_over_a_reservation,
                a_start_without_the_lock_ignores_a_reservation,
                a_repeat_is_answered_though_the_lock_is_lost,
                reserving_a_key_that_started_a_run_returns_the_run,
                only_a_reservation_of_the_same_run_is_released,
                a_reservation_expires,
                a_count_has_usage_and_how_fast_slots_come_free,
                what_is_reserved_survives_a_reopening,
            }
            limits::{
                a_limit_is_in_force_with_its_answer,
                a_limit_below_the_usage_admits_no_run_and_ends_none,
                the_systems_limit_applies_to_tenants_without_their_own,
                every_tenant_that_was_used_is_listed,
            }
            runs::{
                an_acquired_run_has_one_holder_until_its_lease_ends,
                the_holder_of_a_run_is_shown_while_its_lease_lasts,
                the_span_that_a_run_was_started_in_stays_with_it_and_its_jobs,
                a_commit_under_a_stale_fence_is_rejected,
                a_commit_is_accepted_once,
                a_commit_at_a_stale_version_is_rejected,
                a_run_that_ends_releases_its_slot_once,
                what_comes_during_a_turn_is_left_for_the_next,
                a_released_run_can_be_acquired_by_others,
                a_run_lease_can_be_extended_and_a_lost_one_cannot,
                a_timer_fires_when_it_is_due_and_not_before,
                a_run_that_ends_raises_the_fence_of_its_open_jobs,
                deleting_a_live_run_frees_its_slot_and_its_jobs,
                deleting_a_run_names_its_jobs,
                cancelling_is_posted_once_and_refused_for_nothing,
                another_tenants_run_is_not_there,
                runs_are_listed_newest_first_page_by_page,
                the_timeline_has_no_gaps,
                what_was_acknowledged_survives_a_reopening,
            }
            suspects::{
                a_run_whose_lease_expired_is_acquired_only_as_a_suspect,
                a_commit_and_a_release_end_the_suspicion,
                a_run_is_quarantined_after_too_many_abandoned_turns,
                nothing_that_comes_for_a_quarantined_run_makes_it_ready,
                a_retried_quarantined_run_is_tried_from_the_first_try,
                a_quarantined_run_is_acquired_once_to_be_cancelled_and_for_nothing_else,
                a_deleted_run_takes_its_quarantine_with_it,
            }
            turns::{
                a_turn_that_continues_leaves_the_run_ready_without_anything_in_its_inbox,
            }
            job_leases::{
                a_heartbeat_extends_the_lease,
                an_expired_lease_cannot_be_revived,
                a_lost_job_is_posted_to_its_run,
                the_late_worker_is_refused_on_every_call,
                an_offline_nats_worker_loses_its_jobs,
                a_lease_until_the_deadline_ends_with_the_step,
                a_lease_may_be_extended_to_another_term,
            }
            jobs::{
                jobs_are_claimed_oldest_first_and_once,
                jobs_are_listed_newest_first_page_by_page,
                claims_at_once_never_share_a_job,
                fences_only_grow,
                a_result_is_recorded_once,
                a_guessed_fence_is_rejected,
                a_heartbeat_of_a_cancelled_job_asks_its_worker_to_stop,
                a_waiting_job_that_is_cancelled_cannot_be_claimed,
                another_tenants_job_is_not_there,
                progress_is_in_the_timeline,
                progress_is_one_event_a_second_and_the_last_one,
                a_worker_that_claims_is_seen,
            }
            queues::{
                a_job_goes_only_to_a_worker_that_is_capable_of_all_it_requires,
                the_oldest_comes_first_over_all_kinds_that_fit,
                jobs_that_others_must_do_are_not_looked_past,
                an_urgent_job_goes_before_those_that_wait,
                a_job_that_waits_ages_until_nothing_overtakes_it,
                a_job_of_any_kind_and_priority_leaves_its_queue_with_its_end,
                kinds_and_places_survive_a_reopening,
                a_waiting_job_knows_how_many_go_before_it,
            }
            second_results::{
                a_result_counts_only_over_the_edge_of_its_lease,
                a_second_result_with_another_output_is_refused,
                another_output_than_the_deferred_one_is_refused,
            }
            deferred_results::{
                a_deferred_result_is_due_once_and_not_before_its_time,
                due_results_are_acquired_oldest_first_up_to_the_limit,
                deferring_again_counts_from_the_first_time_and_repeating_changes_nothing,
                the_first_outcome_counts_while_a_result_is_deferred,
                only_the_holder_of_a_job_may_defer_its_result,
                a_job_whose_result_is_deferred_keeps_its_lease_beyond_the_delay,
                a_heartbeat_does_not_shorten_the_lease_of_a_deferred_result,
                a_deferred_result_is_not_lost_with_its_lease,
                a_deferred_result_is_deleted_with_its_job,
                a_deferred_result_survives_a_reopening,
            }
            deliveries::{
                a_result_of_a_free_run_is_recorded_and_brings_the_run,
                a_result_comes_behind_what_waits_already,
                a_result_of_a_held_run_changes_nothing,
                an_expired_run_lease_keeps_no_result_waiting,
                a_stale_result_is_rejected_and_a_repeated_one_confirmed_whether_the_run_is_held_or_not,
                results_at_once_get_the_run_one_at_a_time,
            }
            policy_holds::{
                a_held_job_is_open_in_no_queue_and_shown_with_its_reason,
                a_held_job_of_a_first_turn_is_one_write_with_the_start,
                held_jobs_are_acquired_when_due_by_one_instance,
                jobs_that_are_due_soon_are_acquired_by_looking_ahead,
                a_released_job_is_claimed_once_in_the_place_of_its_age,
                only_the_first_settlement_counts,
                settlements_at_once_are_decided_for_one_of_them,
                a_denied_job_ends_and_posts_to_its_run,
                a_waiting_job_is_in_the_timeline_once_per_reason_and_due_again,
                a_throttled_rule_releases_at_most_its_dispatches_per_period,
                a_throttle_counts_for_each_tenant_and_rule,
                a_held_job_that_is_cancelled_is_not_held_any_more,
                deleting_a_run_deletes_its_held_jobs,
                another_tenants_held_job_is_not_there,
                held_jobs_survive_a_reopening,
            }
            held_approvals::{
                an_approved_job_goes_to_its_queue_with_the_verdict,
                a_rejected_job_ends_with_the_verdict,
                a_job_that_waits_for_an_approval_is_not_settled_by_the_policy,
                a_held_job_that_ends_withdraws_its_approval,
            }
            fences::{
                fences_above_two_to_the_fifty_are_not_rounded,
                the_fences_of_an_ended_job_are_not_rounded,
                the_fences_of_a_run_are_not_rounded,
                fences_are_the_same_after_a_reopening,
            }
            values::{
                values_come_back_byte_for_byte,
                a_jobs_values_come_back_byte_for_byte,
                a_documents_values_come_back_byte_for_byte,
                odd_texts_come_back_byte_for_byte,
            }
            approvals::{
                the_first_verdict_counts,
                an_approval_whose_run_has_ended_is_withdrawn,
                open_approvals_are_listed,
            }
            dead_letters::{
                a_buried_job_is_found_with_every_field,
                one_job_has_one_dead_letter_the_last,
                a_turn_that_buries_a_job_is_one_write,
                dead_letters_are_listed_newest_run_first_page_by_page,
                a_dead_letter_is_deleted_once_and_only_by_its_tenant,
                deleting_a_run_deletes_the_dead_letters_of_its_jobs,
                a_retried_dead_letter_is_posted_to_its_run_once,
                retries_at_once_reach_the_run_once,
                a_dead_letter_whose_run_has_ended_or_was_deleted_is_not_retried_and_stays,
                the_dead_letters_of_the_oldest_runs_make_room_and_are_counted,
                dead_letters_are_counted_whatever_removes_them,
            }
            documents::{
                a_document_is_saved_only_over_the_version_that_was_read,
                a_save_that_is_repeated_is_answered_the_same,
                a_document_is_one_for_all_and_survives_a_reopening,
                a_document_beyond_its_bound_is_refused,
                saves_at_once_are_decided_for_one_of_them,
                figures_are_kept_by_rollout_and_instance,
                figures_have_a_bound,
            }
            inspection::{
                in_a_healthy_store_nothing_is_found_and_nothing_is_repaired,
                a_slot_without_a_run_is_released,
                a_run_without_a_slot_is_given_one,
                a_wrong_count_of_slots_is_corrected,
                a_key_of_a_run_that_never_existed_is_deleted,
                an_abandoned_reservation_is_released,
                a_lease_on_a_job_that_has_ended_is_removed,
                a_lease_that_is_in_no_index_is_indexed,
                an_open_job_in_no_queue_is_queued_again,
                a_queue_entry_of_a_job_that_has_ended_is_removed,
                a_job_that_is_not_listed_is_listed_again,
                an_open_job_of_a_run_that_has_ended_is_ended,
                a_step_that_waits_for_a_missing_job_gets_a_loss,
                a_run_that_was_due_long_ago_is_made_ready,
                a_timer_that_is_missing_is_set,
                a_timer_of_a_missing_run_is_removed,
                a_run_with_events_in_its_inbox_is_made_ready,
                a_ready_mark_of_a_missing_run_is_removed,
                an_expired_run_lease_is_removed,
                a_quarantined_run_is_tried_again,
                an_open_approval_of_a_run_that_has_ended_is_withdrawn,
                an_open_approval_that_is_not_listed_is_listed_again,
                a_deferred_result_without_a_due_time_is_made_due,
                a_lock_lease_that_expired_long_ago_is_ended,
                a_wrong_count_of_locks_is_corrected,
                a_held_lock_that_is_not_listed_is_listed_again,
                a_damaged_row_is_reported_and_does_not_stop_other_checks,
                many_dead_letters_are_reported_and_not_repaired,
            }
            reconcile::{
                expired_leases_are_listed_until_their_jobs_are_ended,
                requeuing_lists_waiting_jobs_and_changes_no_others,
                slots_that_agree_with_their_runs_are_left_alone,
                workers_and_marks_of_deleted_runs_are_retired_after_their_time,
                a_key_is_retired_only_when_its_time_is_over,
            }
            workers::{
                a_draining_worker_is_given_nothing_and_keeps_what_it_has,
                draining_is_its_tenants_own_and_stays_through_claims_and_reopenings,
                a_worker_that_was_not_seen_since_is_forgotten_with_its_draining,
                a_claim_for_a_nats_worker_is_not_recorded,
            }
            registry::{
                a_registered_worker_is_listed_with_its_topics_and_the_stores_time,
                a_heartbeat_keeps_the_handshake_and_records_its_time,
                a_heartbeat_alone_does_not_register_a_worker,
                registering_again_keeps_the_last_heartbeat,
                a_worker_is_forgotten_unless_it_was_heard_since,
                nats_workers_survive_a_reopening,
                a_nats_worker_drains_until_it_is_forgotten,
            }
            locks::{
                a_free_lock_is_granted_to_one_owner,
                the_same_request_gives_the_same_grant_and_the_owners_name_does_not,
                the_token_re_enters_under_the_same_fence_and_a_stale_one_does_not,
                fences_of_a_lock_only_grow,
                a_renewal_extends_from_now_and_cannot_revive,
                a_release_may_be_repeated,
                sharers_hold_together_and_exclude_the_others,
                an_operator_ends_the_lease_of_the_expected_token_and_no_other,
                the_history_has_every_lease_and_its_end,
                held_locks_are_listed_newest_first_page_by_page,
                a_lock_is_shown_with_its_queue,
                requests_at_once_are_granted_one_at_a_time,
                a_stages_lock_is_one_for_all_and_survives_a_reopening,
                only_the_live_snapshot_writer_writes_the_snapshot,
            }
            lock_queues::{
                the_queue_is_served_first_come_first_served,
                sharers_do_not_overtake_an_exclusive_waiter,
                an_offline_waiter_does_not_block_the_queue,
                an_expired_lease_makes_room_for_the_first_waiter,
                withdrawing_leaves_the_queue_and_ends_an_unanswered_grant,
                a_late_withdrawal_does_not_end_a_grant_that_a_retry_received,
                a_withdrawn_call_leaves_the_place_to_another_of_the_same_request,
                a_withdrawn_repeat_does_not_end_the_lease_of_its_request,
                a_new_first_waiter_is_woken_if_the_lease_expires_before_its_next_call,
                quotas_bound_the_locks_of_a_tenant,
            }
            workflows::{
                saving_again_makes_the_next_version_and_keeps_the_old,
                a_deleted_workflow_admits_nothing_and_comes_back_with_the_next_version,
                workflows_are_listed_newest_first_page_by_page,
            }
            keys::{
                a_key_is_kept_until_it_is_revoked,
                a_tenant_can_have_only_its_share_of_the_keys,
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_rules {
    ($subject:expr; $($module:ident::{ $($rule:ident,)* })*) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the expression that makes the subject may need what is beside it")]
            use super::*;

            $(#[tokio::test]
            async fn $rule() {
                $crate::conformance::$module::$rule(&mut $subject).await;
            })*
        })*
    };
}
