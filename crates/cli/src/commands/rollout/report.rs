//! The two arms as a table.

use interlock_api::rollouts::{ArmView, RolloutEventView, RolloutView};
use interlock_api::schema;
use interlock_model::contention::Estimate;

use crate::output::{fields, or_dash, table};

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
    let history = table(["TIME", "EVENT", "BY", "WHY"], rollout.history.iter().map(event));
    format!("{head}\n\n{}\n\n{history}", arms(&rollout.arms))
}

fn arms(arms: &[ArmView]) -> String {
    let row = |title: &str, cell: &dyn Fn(&ArmView) -> String| -> [String; 3] {
        let mut cells = arms.iter().map(cell);
        [title.to_owned(), cells.next().unwrap_or_default(), cells.next().unwrap_or_default()]
    };
    let rows = [
        row("policy", &|arm| arm.policy.to_string()),
        row("results", &|arm| counted(arm)),
        row("retries", &|arm| arm.retries.to_string()),
        row("deferred", &|arm| arm.outstanding.to_string()),
        row("retries per minute", &|arm| number(arm.retries_per_minute)),
        row("retries per result", &|arm| number(arm.retries_per_result)),
        row("p95 lock wait", &|arm| milliseconds(arm.lock_wait_p95_ms)),
        row("p99 lock wait", &|arm| milliseconds(arm.lock_wait_p99_ms)),
        row("p95 result latency", &|arm| milliseconds(arm.result_latency_p95_ms)),
        row("first retry succeeds", &|arm| share(arm.first_retry_success)),
    ];
    table(["95 % INTERVALS", "CONTROL", "CANDIDATE"], rows)
}

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

fn event(event: &RolloutEventView) -> [String; 4] {
    let RolloutEventView { time, event, by, why } = event;
    [time.to_string(), schema::name(event), by.clone(), or_dash(why.as_ref())]
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
