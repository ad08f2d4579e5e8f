//! Two thousand seeds, clean, and a proof that they went where it hurts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use interlock_simulation::{Summary, simulate};

const SEEDS: u64 = 2_000;
const THREADS: usize = 2;

/// What must have happened over all seeds for "no seed failed" to mean anything: about half of what is usual.
const OFTEN_ENOUGH: [(&str, u64); 78] = [
    ("calls", 150_000),
    ("simulated_ms", 10_000_000),
    ("admitted", 4_000),
    ("refused", 3_000),
    ("queued", 600),
    ("runs_granted", 340),
    ("children_started", 2_000),
    ("children_queued", 150),
    ("children_refused", 90),
    ("children_given_up", 300),
    ("joined", 70),
    ("taken_in", 200),
    ("quiet_periods_ended", 200),
    ("limits_reached", 850),
    ("limits_changed", 2_000),
    ("admitted_at_the_edge", 1_300),
    ("replays", 2_000),
    ("keys_reused", 43),
    ("keys_renewed", 20),
    ("keys_reserved", 1_300),
    ("keys_released", 700),
    ("stale_admissions_refused", 180),
    ("admissions_repeated", 200),
    ("definitions_changed", 17),
    ("answers_lost", 5_000),
    ("starts_unknown", 50),
    ("crashes", 1_500),
    ("first_turns", 1_000),
    ("left_to_the_engine", 300),
    ("stale_reports_refused", 700),
    ("stale_heartbeats_refused", 140),
    ("stale_commits_refused", 300),
    ("reports_repeated", 120),
    ("leases_lost", 700),
    ("jobs_timed_out", 100),
    ("jobs_unclaimed", 30),
    ("runs_taken_over", 1_200),
    ("retries", 500),
    ("steps_timed_out", 120),
    ("errors_redirected", 140),
    ("cancels", 400),
    ("deletions_of_live_runs", 300),
    ("deletions_of_ended_runs", 100),
    ("approvals", 140),
    ("rejections", 20),
    ("late_verdicts", 4),
    ("reruns", 50),
    ("limits_lowered_below_usage", 100),
    ("runs_succeeded", 2_500),
    ("runs_failed", 280),
    ("runs_denied", 5),
    ("runs_cancelled", 450),
    ("runs_timed_out", 170),
    ("locks_granted", 15_000),
    ("locks_refused", 15_000),
    ("locks_waited_for", 4_000),
    ("locks_asked_again", 900),
    ("locks_withdrawn", 330),
    ("stale_lock_calls_refused", 4_000),
    ("results_busy", 1_000),
    ("results_put_off", 600),
    ("results_delivered_again", 500),
    ("results_kept_from_expiry", 120),
    ("contradictions_refused", 25),
    ("results_buried", 40),
    ("permits_granted", 12_000),
    ("permits_asked_again", 500),
    ("jobs_funded", 850),
    ("jobs_without_budget", 100),
    ("jobs_exhausted", 85),
    ("budgets_asked_about", 9),
    ("jobs_settled", 430),
    ("jobs_unsettled", 350),
    ("jobs_released", 50),
    ("permits_refused", 2_000),
    ("permits_expired", 5_000),
    ("permits_ended", 9_000),
    ("permits_ended_again", 4_000),
];

#[test]
fn two_thousand_seeds_keep_every_promise_and_reach_every_corner() {
    let total = run_all();
    let counts = total.counts();
    for (name, least) in OFTEN_ENOUGH {
        let count = counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, count)| *count);
        assert!(
            count >= least,
            "{name} happened {count} times in {SEEDS} seeds; at least {least} are needed"
        );
    }
}

fn run_all() -> Summary {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    let summary = simulate(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
                    total.lock().expect("no seed failed").add(&summary);
                }
            });
        }
    });
    total.into_inner().expect("no seed failed")
}
