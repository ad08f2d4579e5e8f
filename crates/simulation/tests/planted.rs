//! Bugs that the simulation must catch, each by the invariant that it breaks.

use interlock_simulation::{Bug, Failure, Invariant, simulate};

const SEEDS: u64 = 2_000;

fn first_failure(bug: Bug) -> Failure {
    let caught = (0..SEEDS).find_map(|seed| simulate(seed, Some(bug)).err());
    caught.unwrap_or_else(|| panic!("{} was not caught in {SEEDS} seeds", bug.name()))
}

#[test]
fn a_cap_that_is_checked_before_the_write_is_caught() {
    assert_eq!(first_failure(Bug::CapBeforeWrite).invariant, Invariant::Cap);
}

#[test]
fn a_key_that_is_written_before_its_run_is_caught() {
    assert_eq!(first_failure(Bug::KeyBeforeRun).invariant, Invariant::NoKeyWithoutRun);
}

#[test]
fn a_fence_that_is_not_compared_is_caught() {
    assert_eq!(first_failure(Bug::FenceNotCompared).invariant, Invariant::NoStaleWrite);
}

#[test]
fn a_timeout_that_counts_from_the_dispatch_is_caught() {
    assert_eq!(first_failure(Bug::TimeoutFromDispatch).invariant, Invariant::AttemptHasItsTime);
}

#[test]
fn a_slot_that_is_freed_twice_is_caught() {
    assert_eq!(first_failure(Bug::SlotFreedTwice).invariant, Invariant::SlotsAreLiveRuns);
}

#[test]
fn a_lost_wake_up_that_no_scan_replaces_is_caught() {
    assert_eq!(first_failure(Bug::WakeupLostForEver).invariant, Invariant::EveryRunEnds);
}

#[test]
fn a_replay_that_is_checked_after_the_cap_is_caught() {
    assert_eq!(first_failure(Bug::ReplayAfterCap).invariant, Invariant::OneRunPerKey);
}

#[test]
fn a_lock_that_is_granted_twice_is_caught() {
    assert_eq!(first_failure(Bug::LockGrantedTwice).invariant, Invariant::HolderIsLeftAlone);
}

#[test]
fn a_line_that_is_overtaken_is_caught() {
    assert_eq!(first_failure(Bug::LineOvertaken).invariant, Invariant::LineIsKept);
}

#[test]
fn a_create_under_a_lost_admission_lock_is_caught() {
    assert_eq!(first_failure(Bug::HoldOutlivesItsLease).invariant, Invariant::NoStaleWrite);
}

#[test]
fn a_busy_run_that_is_taken_with_a_result_is_caught() {
    assert_eq!(first_failure(Bug::BusyRunTaken).invariant, Invariant::HolderIsLeftAlone);
}

#[test]
fn a_release_that_forgets_to_grant_is_caught() {
    assert_eq!(first_failure(Bug::ReleaseForgetsToGrant).invariant, Invariant::NoStartableWaits);
}

#[test]
fn a_raised_limit_that_forgets_its_queue_is_caught() {
    assert_eq!(first_failure(Bug::RaisedLimitForgetsItsQueue).invariant, Invariant::NoStartableWaits);
}

#[test]
fn a_limit_of_the_system_that_is_not_copied_is_caught() {
    assert_eq!(first_failure(Bug::SystemLimitNotCopied).invariant, Invariant::SystemLimitsApply);
}

#[test]
fn a_limit_of_the_system_that_forgets_its_queues_is_caught() {
    assert_eq!(first_failure(Bug::SystemLimitForgetsItsQueues).invariant, Invariant::NoStartableWaits);
}

#[test]
fn a_slot_that_is_counted_twice_is_caught() {
    assert_eq!(first_failure(Bug::SlotCountedTwice).invariant, Invariant::SlotsAreLiveRuns);
}

#[test]
fn a_limit_that_is_ignored_is_caught() {
    assert_eq!(first_failure(Bug::LimitIgnored).invariant, Invariant::LimitHolds);
}

#[test]
fn a_paused_limit_that_is_granted_is_caught() {
    assert_eq!(first_failure(Bug::PausedLimitGrants).invariant, Invariant::LimitHolds);
}

#[test]
fn a_slot_that_is_forgotten_is_caught() {
    let broken = first_failure(Bug::OneSlotForgotten).invariant;
    assert!(matches!(broken, Invariant::AllSlotsOrNone | Invariant::SlotsAreLiveRuns), "{broken:?}");
}

#[test]
fn a_slot_of_a_limit_that_leaks_is_caught() {
    assert_eq!(first_failure(Bug::LimitSlotLeaked).invariant, Invariant::SlotsAreLiveRuns);
}

#[test]
fn a_queue_entry_that_is_left_behind_is_caught() {
    let broken = first_failure(Bug::QueueEntryLeftBehind).invariant;
    assert!(matches!(broken, Invariant::SlotsAreLiveRuns | Invariant::AllSlotsOrNone), "{broken:?}");
}

#[test]
fn a_paused_limit_that_starts_runs_is_caught() {
    assert_eq!(first_failure(Bug::PausedLimitStarts).invariant, Invariant::LimitHolds);
}

#[test]
fn a_rate_that_is_forgotten_is_caught() {
    assert_eq!(first_failure(Bug::RateForgotten).invariant, Invariant::LimitHolds);
}

#[test]
fn a_timer_of_a_limit_that_is_forgotten_is_caught() {
    assert_eq!(first_failure(Bug::LimitTimerForgotten).invariant, Invariant::NoStartableWaits);
}

#[test]
fn a_queue_whose_last_comes_first_is_caught() {
    assert_eq!(first_failure(Bug::LastComesFirst).invariant, Invariant::LineIsKept);
}

#[test]
fn a_fair_queue_whose_heaviest_group_goes_first_is_caught() {
    assert_eq!(first_failure(Bug::HeaviestGroupFirst).invariant, Invariant::SharesAreFair);
}

#[test]
fn a_charge_that_is_not_corrected_is_caught() {
    assert_eq!(first_failure(Bug::ChargeNotCorrected).invariant, Invariant::SharesAreFair);
}

#[test]
fn an_idle_group_that_keeps_its_credit_is_caught() {
    assert_eq!(first_failure(Bug::IdleGroupKeepsItsCredit).invariant, Invariant::SharesAreFair);
}

#[test]
fn a_replay_that_extends_a_quiet_period_is_caught() {
    assert_eq!(first_failure(Bug::ReplayExtendsQuiet).invariant, Invariant::QuietIsKept);
}

#[test]
fn a_debounced_run_with_the_input_of_its_first_start_is_caught() {
    assert_eq!(first_failure(Bug::OldestInputWins).invariant, Invariant::QuietIsKept);
}

#[test]
fn a_quiet_period_that_ends_without_a_look_at_limits_is_caught() {
    assert_eq!(first_failure(Bug::QuietEndSkipsLimits).invariant, Invariant::LimitHolds);
}

#[test]
fn a_delay_without_an_end_is_caught() {
    assert_eq!(first_failure(Bug::DelayWithoutEnd).invariant, Invariant::QuietIsKept);
}

#[test]
fn a_ledger_that_is_read_before_the_permit_is_written_is_caught() {
    let invariant = first_failure(Bug::LedgerBeforePermit).invariant;
    assert!(matches!(invariant, Invariant::Budget | Invariant::LedgerAddsUp), "{invariant:?}");
}

#[test]
fn a_permit_that_is_settled_twice_is_caught() {
    let invariant = first_failure(Bug::PermitSettledTwice).invariant;
    assert!(matches!(invariant, Invariant::SettledOnce | Invariant::LedgerAddsUp), "{invariant:?}");
}

#[test]
fn a_permit_that_never_expires_is_caught() {
    assert_eq!(first_failure(Bug::PermitNeverDue).invariant, Invariant::NothingIsLeft);
}

#[test]
fn an_expired_permit_whose_amount_is_free_again_is_caught() {
    assert_eq!(first_failure(Bug::ExpiredPermitForgotten).invariant, Invariant::LedgerAddsUp);
}

#[test]
fn a_result_that_is_recorded_without_what_was_spent_is_caught() {
    assert_eq!(first_failure(Bug::ResultNotSettled).invariant, Invariant::PermitEndsWithJob);
}

#[test]
fn a_job_that_ends_unclaimed_and_keeps_its_permit_is_caught() {
    assert_eq!(first_failure(Bug::UnclaimedPermitLeaked).invariant, Invariant::PermitEndsWithJob);
}

#[test]
fn a_job_that_is_counted_twice_when_it_reserves_is_caught() {
    assert_eq!(first_failure(Bug::JobReservedTwice).invariant, Invariant::LedgerAddsUp);
}

#[test]
fn a_lost_worker_whose_reservation_is_released_is_caught() {
    let invariant = first_failure(Bug::LostWorkerReleased).invariant;
    assert!(matches!(invariant, Invariant::PermitEndsWithJob | Invariant::LedgerAddsUp), "{invariant:?}");
}

#[test]
fn a_child_that_takes_a_slot_is_caught() {
    assert_eq!(first_failure(Bug::ChildTakesSlot).invariant, Invariant::ChildInItsRootsSlot);
}

#[test]
fn a_child_that_counts_in_a_group_of_a_run_above_it_is_caught() {
    assert_eq!(first_failure(Bug::GroupAboveCounted).invariant, Invariant::ChildInItsRootsSlot);
}

#[test]
fn an_event_that_is_not_kept_is_caught() {
    assert_eq!(first_failure(Bug::EventNotKept).invariant, Invariant::EventArrives);
}

#[test]
fn an_event_that_is_not_posted_is_caught() {
    assert_eq!(first_failure(Bug::EventNotPosted).invariant, Invariant::EventArrives);
}

#[test]
fn an_event_whose_id_is_forgotten_is_caught() {
    assert_eq!(first_failure(Bug::EventIdForgotten).invariant, Invariant::EventOnce);
}

#[test]
fn a_kept_event_that_a_wait_misses_is_caught() {
    assert_eq!(first_failure(Bug::KeptEventMissed).invariant, Invariant::EventArrives);
}

#[test]
fn a_wait_that_is_left_in_the_index_is_caught() {
    assert_eq!(first_failure(Bug::WaitLeftInIndex).invariant, Invariant::EventArrives);
}

#[test]
fn a_cancel_that_forgets_children_is_caught() {
    assert_eq!(first_failure(Bug::CancelForgetsChildren).invariant, Invariant::ChildIsWanted);
}

#[test]
fn an_end_of_a_child_that_is_not_delivered_is_caught() {
    assert_eq!(first_failure(Bug::ChildEndNotDelivered).invariant, Invariant::ChildEndArrives);
}

#[test]
fn a_child_that_starts_though_it_is_given_up_is_caught() {
    assert_eq!(first_failure(Bug::GivenUpChildStarts).invariant, Invariant::ChildIsWanted);
}

#[test]
fn a_failure_is_one_line_that_replays_it() {
    let failure = first_failure(Bug::SlotFreedTwice);
    let line = failure.to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(line.starts_with(&format!("seed {} failed: tenant t", failure.seed)), "{line}");
    let replay = format!("replay: cargo xtask simulate --seed {} --plant slot-freed-twice", failure.seed);
    assert!(line.ends_with(&replay), "{line}");
    assert_eq!(simulate(failure.seed, failure.planted), Err(failure));
}
