//! `interlock run watch`: a run's events as they happen; on a terminal with a status line below.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_api::Time;
use interlock_api::events::RunEvents;
use interlock_api::history::TimelineItem;
use interlock_api::runs::RunSummary;
use interlock_api::why::WhyQuery;
use interlock_model::run::RunStatus;
use interlock_model::why::CauseCode;
use tokio::time::MissedTickBehavior;

use super::Session;
use super::meter::Meter;
use super::run_steps::{Waits, is_queued};
use crate::exit::{Exit, Result};
use crate::output::{json_line, line, say};

/// How often the live view asks who works on the steps.
const ASK_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(id: &str, session: &Session) -> Result<Exit> {
    let Session { client, output, .. } = session;
    let run = client.run(id).await?;
    if let Some(wait) = run.waiting_for {
        say(&wait.detail);
    }
    let mut events = RunEvents::new(client.clone(), id);
    if output.is_live() {
        let query = WhyQuery { run_id: Some(run.summary.id), ..WhyQuery::default() };
        follow_live(&mut events, &query, session).await?;
    } else {
        while let Some(item) = events.next().await? {
            if output.is_json() { json_line(&item)? } else { line(&sentence(&item))? }
        }
    }
    let run = client.run(id).await?.summary;
    say(&epilogue(&run));
    Ok(if run.status == RunStatus::Succeeded { Exit::Done } else { Exit::Refused })
}

async fn follow_live(events: &mut RunEvents, query: &WhyQuery, session: &Session) -> Result<()> {
    let mut view = LiveView::new();
    let mut ticks = tokio::time::interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let item = {
            let mut next = Box::pin(events.next());
            loop {
                tokio::select! {
                    item = &mut next => break item?,
                    _ = ticks.tick() => {
                        // Without an answer the view is a little older.
                        if let Ok(why) = session.client.why(query).await {
                            view.learn(&Waits::of(Some(&why)));
                        }
                    }
                }
            }
        };
        let Some(item) = item else { return Ok(()) };
        view.take(&item);
        view.meter.suspend(|| line(&sentence(&item)))?;
    }
}

/// The status of the run, redrawn in place.
struct LiveView {
    meter: Meter,
    status: String,
    /// Steps and items with an event.
    steps: BTreeMap<String, SeenStep>,
}

/// What is known of a step or item.
#[derive(Default)]
struct SeenStep {
    has_ended: bool,
    attempt: u32,
    percent: Option<u64>,
    /// Who works on it, or that it waits.
    place: Option<String>,
}

impl SeenStep {
    fn describe(&self, name: &str) -> String {
        let parts = [
            (self.attempt > 1).then(|| format!("attempt {}", self.attempt)),
            self.percent.map(|percent| format!("{percent}%")),
            self.place.clone(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { name.to_owned() } else { format!("{name} ({})", parts.join(", ")) }
    }
}

impl LiveView {
    fn new() -> Self {
        Self { meter: Meter::spinner(), status: "pending".to_owned(), steps: BTreeMap::new() }
    }

    fn take(&mut self, item: &TimelineItem) {
        if let Some(status) = item.run_status() {
            status.name().clone_into(&mut self.status);
        }
        if let Some(step) = &item.step_id {
            let seen = self.steps.entry(step.to_string()).or_default();
            seen.has_ended = ends_a_step(&item.r#type);
            if let Some(job) = item.job_id.as_ref().filter(|job| job.attempt != seen.attempt) {
                *seen = SeenStep { has_ended: seen.has_ended, attempt: job.attempt, ..SeenStep::default() };
            }
            if let Some(percent) = percent(item) {
                seen.percent = Some(percent);
            }
            if let Some(at) = next_attempt(item) {
                (seen.percent, seen.place) = (None, Some(format!("next attempt at {at}")));
            }
        }
        self.meter.tell(&self.line());
    }

    /// Who works on the steps now, and which wait.
    fn learn(&mut self, waits: &Waits<'_>) {
        for (key, cause) in waits.iter() {
            let Some(seen) = self.steps.get_mut(&key.to_string()) else { continue };
            let worker = cause.holders.first().filter(|_| cause.code == CauseCode::Working);
            if let Some(worker) = worker {
                seen.place = Some(format!("worker {}", worker.name));
            } else if is_queued(cause) {
                seen.place = Some("queued".to_owned());
            }
        }
        self.meter.tell(&self.line());
    }

    fn line(&self) -> String {
        let going: Vec<String> = self
            .steps
            .iter()
            .filter(|(_, seen)| !seen.has_ended)
            .map(|(name, seen)| seen.describe(name))
            .collect();
        let ended = self.steps.len() - going.len();
        let mut line = format!("{}, {ended} ended", self.status);
        if !going.is_empty() {
            let named = going.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
            let more = if going.len() > 4 { format!(" and {} more", going.len() - 4) } else { String::new() };
            line = format!("{line}, now {named}{more}");
        }
        line
    }
}

/// How far a worker says that it is.
fn percent(item: &TimelineItem) -> Option<u64> {
    item.data.as_ref().filter(|_| item.r#type == "step_progress")?.get("percent")?.as_u64()
}

/// When a failed step is tried again: the time of day.
fn next_attempt(item: &TimelineItem) -> Option<String> {
    let data = item.data.as_ref().filter(|_| item.r#type == "step_retry_scheduled")?;
    let delay = Duration::from_millis(data.get("delay_ms")?.as_u64()?);
    Some(clock(Time(item.time.0 + delay)))
}

/// Only the time of day: few runs last for days.
fn clock(time: Time) -> String {
    let time = time.to_string();
    time.get(11..23).unwrap_or(&time).to_owned()
}

fn ends_a_step(kind: &str) -> bool {
    matches!(
        kind,
        "step_completed"
            | "step_failed"
            | "step_timed_out"
            | "step_cancelled"
            | "step_skipped"
            | "step_approved"
            | "step_rejected"
            | "step_delay_completed"
            | "step_condition_evaluated"
            | "step_event_emitted"
            | "step_transform_completed"
            | "step_output_invalid"
    )
}

/// One event as a line for people.
fn sentence(item: &TimelineItem) -> String {
    let what = item.r#type.replace('_', " ");
    let mut line = format!("{}  {what}", clock(item.time));
    let attempt = item.job_id.as_ref().filter(|_| item.r#type == "step_dispatched").map(|job| job.attempt);
    let parts = [
        item.step_id.as_ref().map(ToString::to_string),
        attempt.filter(|attempt| *attempt > 1).map(|attempt| format!("attempt {attempt}")),
        item.status.clone(),
        percent(item).map(|percent| format!("{percent}%")),
        item.message.clone(),
        next_attempt(item).map(|at| format!("next attempt at {at}")),
    ];
    for part in parts.into_iter().flatten() {
        line = format!("{line}  {part}");
    }
    line
}

pub(super) fn epilogue(run: &RunSummary) -> String {
    let error = run.error.as_ref().map(|error| match &error.step_id {
        Some(step) => format!(": {step}: {}", error.message),
        None => format!(": {}", error.message),
    });
    format!("run {} {}{}", run.id, run.status.name().replace('_', " "), error.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(kind: &str, step: Option<&str>, status: Option<&str>) -> TimelineItem {
        serde_json::from_value(json!({
            "seq": 1, "time": "2026-11-15T01:02:03.004Z", "type": kind, "step_id": step, "status": status
        }))
        .unwrap()
    }

    #[test]
    fn an_event_is_one_line_with_its_time_first() {
        let line = sentence(&item("step_dispatched", Some("build[2]"), None));
        assert_eq!(line, "01:02:03.004  step dispatched  build[2]");
    }

    #[test]
    fn the_live_view_names_steps_in_progress() {
        let mut view = LiveView::new();
        view.take(&item("run_status", None, Some("running")));
        view.take(&item("step_dispatched", Some("a"), None));
        view.take(&item("step_dispatched", Some("b"), None));
        view.take(&item("step_completed", Some("a"), None));
        assert_eq!(view.line(), "running, 1 ended, now b");
    }

    #[test]
    fn a_retry_says_when_and_progress_says_how_far() {
        let mut retry = item("step_retry_scheduled", Some("a"), None);
        retry.data = Some(json!({"delay_ms": 1_500}));
        assert!(sentence(&retry).ends_with("next attempt at 01:02:04.504"), "{}", sentence(&retry));
        let mut progress = item("step_progress", Some("a"), None);
        progress.data = Some(json!({"percent": 40}));
        progress.job_id = Some("0192f0c1-0000-7000-8000-000000000001:a@2".parse().unwrap());
        let mut view = LiveView::new();
        view.take(&progress);
        assert_eq!(view.line(), "pending, 0 ended, now a (attempt 2, 40%)");
        view.take(&retry);
        assert_eq!(view.line(), "pending, 0 ended, now a (attempt 2, next attempt at 01:02:04.504)");
    }
}
