//! The two arms as a table.

use std::iter;

use interlock_api::rollouts::{ArmView, RolloutEventView, RolloutView};
use interlock_api::schema;
use interlock_model::contention::Estimate;

use crate::output::{Column, fields, grid, or_dash, table};

pub(super) fn describe(rollout: &RolloutView) -> String {
    let head = fields(&[
        ("rollout", Some(rollout.id.to_string())),
        ("state", Some(schema::name(&rollout.state))),
        ("share", Some(format!("{} %", rollout.share_percent))),
        ("started", Some(format!("{} by {}", rollout.started_at, rollout.by))),
        ("ends", Some(rollout.ends_at.to_string())),
        ("ended", rollout.ended_at.map(|time| time.to_string())),
        ("verdict", Some(rollout.verdict.clone())),
        ("note", rollout.note.clone()),
    ]);
    format!("{head}\n\n{}\n\n{}", arms(&rollout.arms), table(&HISTORY, &rollout.history))
}

fn arms(arms: &[ArmView]) -> String {
    // One row per figure, one column per arm.
    let row = |(title, figure): &Column<ArmView>| {
        iter::once((*title).to_owned()).chain(arms.iter().map(figure)).collect()
    };
    grid(&["95 % INTERVALS", "CONTROL", "CANDIDATE"], FIGURES.iter().map(row))
}

const FIGURES: [Column<ArmView>; 10] = [
    ("policy", |arm| arm.policy.to_string()),
    ("results", counted),
    ("retries", |arm| arm.retries.to_string()),
    ("deferred", |arm| arm.outstanding.to_string()),
    ("retries per minute", |arm| number(arm.retries_per_minute)),
    ("retries per result", |arm| number(arm.retries_per_result)),
    ("p95 lock wait", |arm| milliseconds(arm.lock_wait_p95_ms)),
    ("p99 lock wait", |arm| milliseconds(arm.lock_wait_p99_ms)),
    ("p95 result latency", |arm| milliseconds(arm.result_latency_p95_ms)),
    ("first retry succeeds", |arm| share(arm.first_retry_success)),
];

const HISTORY: [Column<RolloutEventView>; 4] = [
    ("TIME", |event| event.time.to_string()),
    ("EVENT", |event| schema::name(&event.event)),
    ("BY", |event| event.by.clone()),
    ("WHY", |event| or_dash(event.why.as_ref())),
];

fn counted(arm: &ArmView) -> String {
    if arm.has_enough_samples {
        arm.results.to_string()
    } else {
        format!("{} (too few samples)", arm.results)
    }
}

fn number(estimate: Option<Estimate>) -> String {
    shown(estimate, &|value| format!("{value:.2}"), "")
}

fn milliseconds(estimate: Option<Estimate>) -> String {
    shown(estimate, &|value| format!("{value:.0}"), " ms")
}

fn share(estimate: Option<Estimate>) -> String {
    shown(estimate, &|value| format!("{:.0}", value * 100.0), " %")
}

fn shown(estimate: Option<Estimate>, write: &dyn Fn(f64) -> String, unit: &str) -> String {
    let Some(Estimate { value, low, high }) = estimate else { return "-".to_owned() };
    let high = high.map_or_else(|| "…".to_owned(), write);
    format!("{}{unit} ({}–{high})", write(value), write(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_an_upper_end_says_so() {
        let estimate = Estimate { value: 480.2, low: 350.0, high: None };
        assert_eq!(milliseconds(Some(estimate)), "480 ms (350–…)");
        assert_eq!(number(Some(Estimate { value: 1.0, low: 0.5, high: Some(2.0) })), "1.00 (0.50–2.00)");
        assert_eq!(share(Some(Estimate { value: 0.5, low: 0.25, high: Some(0.75) })), "50 % (25–75)");
        assert_eq!(number(None), "-");
    }
}
