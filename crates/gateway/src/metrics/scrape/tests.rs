//! Each figure of a scrape, by its name and its labels.

use std::time::Duration;

use interlock_control::contention::CleanupContext::Cancelled;
use interlock_control::contention::Tally;
use interlock_model::budget::Ledger;
use interlock_model::contention::Arm::{Candidate, Control};

use super::*;
use crate::metrics::Metrics;

fn has(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.render();
    for line in lines {
        assert!(text.lines().any(|shown| shown == *line), "{line} in {text}");
    }
}

#[test]
fn every_series_exists_before_the_first_scrape() {
    has(
        &Metrics::new(1),
        &[
            "# TYPE job_lock_wait histogram",
            "job_lock_wait_count 0",
            "job_lock_wait_bucket{le=\"0.001\"} 0",
            "job_lock_wait_bucket{le=\"+Inf\"} 0",
            "# TYPE stale_jobs gauge",
            "stale_jobs{state=\"dispatched\"} 0",
            "stale_jobs{state=\"running\"} 0",
            "# TYPE orphan_replayed_total counter",
            "orphan_replayed_total 0",
            "slot_drift 0",
            "interlock_turns_abandoned_total 0",
            "interlock_runs_quarantined_total 0",
            "interlock_budget_overdraft_total 0",
            "interlock_budget_warnings_total 0",
            "interlock_budget_spent{tenant=\"other\",budget=\"other\"} 0.0",
            "interlock_budget_reserved{tenant=\"other\",budget=\"other\"} 0.0",
            "interlock_budget_unsettled{tenant=\"other\",budget=\"other\"} 0.0",
            "loop_ticks_total{loop=\"reconciler:default\"} 0",
            "loop_ticks_total{loop=\"replayer:pending\"} 0",
            "loop_ticks_total{loop=\"reconciler:retention\"} 0",
            "dead_letters{tenant=\"other\"} 0",
            "interlock_limit_usage{tenant=\"other\",limit=\"other\"} 0",
            "interlock_limit_max{tenant=\"other\",limit=\"other\"} 0",
            "interlock_limit_queued{tenant=\"other\",limit=\"other\"} 0",
            "interlock_queue_ended_total{how=\"granted\"} 0",
            "interlock_queue_wait_seconds_count 0",
            "dead_letters_max 0",
            "dead_letters_dropped_total 0",
            "# TYPE lock_busy_retry_count counter",
            "lock_busy_retry_count 0",
            "# TYPE lock_busy_retry_delay_ms histogram",
            "lock_busy_retry_delay_ms_count{arm=\"control\"} 0",
            "run_lock_wait_ms_count{arm=\"candidate\"} 0",
            "job_result_latency_ms_bucket{le=\"+Inf\",arm=\"control\"} 0",
            "# TYPE lock_busy_first_retry_success_total counter",
            "lock_busy_first_retry_success_total{arm=\"candidate\"} 0",
            "# TYPE idempotency_cleanup_failures_total counter",
            "idempotency_cleanup_failures_total{context=\"count_failed\"} 0",
            "idempotency_cleanup_failures_total{context=\"at_capacity\"} 0",
            "idempotency_cleanup_failures_total{context=\"create_failed\"} 0",
            "idempotency_cleanup_failures_total{context=\"cancelled\"} 0",
            "store_up 0",
            "bus_up 0",
            "cordum_scheduler_input_fail_open_total 0",
        ],
    );
}

#[test]
fn refusals_that_the_stages_have_counted_are_shown_by_the_write_that_was_refused() {
    let metrics = Metrics::new(1);
    let counted =
        Counted { results_refused: 1, commits_refused: 2, snapshots_refused: 3, ..Counted::default() };
    // A total that is scraped again is not added again.
    for _ in 0..2 {
        metrics.scraped(Scrape { counted: counted.clone(), ..Scrape::default() }, None);
    }
    has(
        &metrics,
        &[
            "fence_rejections_total{write=\"bus_result\"} 1",
            "fence_rejections_total{write=\"run_commit\"} 2",
            "fence_rejections_total{write=\"snapshot\"} 3",
        ],
    );
}

#[test]
fn the_figures_of_contention_are_shown_by_arm() {
    let tally = Tally::default();
    tally.busy(Control, (1, Duration::ZERO), Duration::from_millis(500));
    tally.busy(Candidate, (1, Duration::ZERO), Duration::from_millis(400));
    tally.busy(Candidate, (2, Duration::ZERO), Duration::from_millis(600));
    tally.settled(Control, (2, Duration::from_millis(501)), Duration::from_millis(510));
    tally.cleanup_failed(Cancelled);
    let metrics = Metrics::new(1);
    metrics.scraped(Scrape { contention: tally.counted(), ..Scrape::default() }, None);
    has(
        &metrics,
        &[
            "lock_busy_retry_count 3",
            "lock_busy_retry_delay_ms_sum{arm=\"candidate\"} 1000.0",
            "lock_busy_retry_delay_ms_bucket{le=\"350.0\",arm=\"candidate\"} 0",
            "lock_busy_retry_delay_ms_bucket{le=\"500.0\",arm=\"candidate\"} 1",
            "lock_busy_retry_delay_ms_bucket{le=\"650.0\",arm=\"candidate\"} 2",
            "lock_busy_retry_delay_ms_bucket{le=\"+Inf\",arm=\"candidate\"} 2",
            "lock_busy_retry_delay_ms_count{arm=\"control\"} 1",
            "run_lock_wait_ms_sum{arm=\"control\"} 501.0",
            "job_result_latency_ms_sum{arm=\"control\"} 510.0",
            "lock_busy_first_retry_success_total{arm=\"control\"} 1",
            "lock_busy_first_retry_success_total{arm=\"candidate\"} 0",
            "idempotency_cleanup_failures_total{context=\"cancelled\"} 1",
        ],
    );
}

fn figures(tenant: &str, runs_active: u32, kept: u32, dropped: u64) -> TenantFigures {
    TenantFigures {
        tenant: tenant.parse().unwrap(),
        usage: Usage { runs_active, runs_max: 10 },
        dead_letters: DeadLetterCount { kept, dropped },
        budgets: Vec::new(),
        limits: Vec::new(),
    }
}

fn budget(name: &str, spent: &str, limit: Option<&str>) -> BudgetFigures {
    let amount = |text: &str| text.parse().unwrap();
    BudgetFigures {
        tenant: "acme".parse().unwrap(),
        budget: name.parse().unwrap(),
        total: Ledger { spent: amount(spent), reserved: amount("0.5"), ..Ledger::default() },
        limit: limit.map(amount),
        overdrafts: 1,
        warnings: 2,
    }
}

#[test]
fn the_budgets_that_have_spent_the_most_are_shown_by_name() {
    let metrics = Metrics::new(2);
    let budgets = vec![
        budget("a", "1.25", Some("20")),
        budget("b", "9", None),
        budget("c", "3.5", Some("4")),
        budget("d", "0.25", Some("1")),
    ];
    let tenants = vec![TenantFigures { budgets, ..figures("acme", 0, 0, 0) }];
    metrics.scraped(Scrape::default(), Some(tenants));
    has(
        &metrics,
        &[
            "interlock_budget_spent{tenant=\"acme\",budget=\"b\"} 9.0",
            "interlock_budget_spent{tenant=\"acme\",budget=\"c\"} 3.5",
            "interlock_budget_spent{tenant=\"other\",budget=\"other\"} 1.5",
            "interlock_budget_reserved{tenant=\"acme\",budget=\"b\"} 0.5",
            "interlock_budget_limit{tenant=\"acme\",budget=\"c\"} 4.0",
            "interlock_budget_overdraft_total 4",
            "interlock_budget_warnings_total 8",
        ],
    );
    assert!(!metrics.render().contains("interlock_budget_limit{tenant=\"acme\",budget=\"b\"}"));
}

#[test]
fn the_tenants_with_the_most_are_shown_by_name() {
    let metrics = Metrics::new(2);
    let tenants =
        vec![figures("a", 4, 1, 0), figures("b", 0, 5, 2), figures("c", 1, 3, 1), figures("d", 3, 2, 0)];
    metrics.scraped(Scrape { dead_letters_max: 10, ..Scrape::default() }, Some(tenants));
    let shown = [
        "dead_letters{tenant=\"b\"} 5",
        "dead_letters{tenant=\"c\"} 3",
        "dead_letters{tenant=\"other\"} 3",
        "dead_letters_max 10",
        "dead_letters_dropped_total 3",
        "active_runs{tenant=\"a\"} 4",
        "active_runs{tenant=\"d\"} 3",
        "active_runs{tenant=\"other\"} 1",
        "active_runs_max{tenant=\"other\"} 20",
    ];
    has(&metrics, &shown);
    // A scrape without the store shows the last known figures.
    metrics.scraped(Scrape { dead_letters_max: 10, ..Scrape::default() }, None);
    has(&metrics, &shown);
}
