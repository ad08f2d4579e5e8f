//! `interlock run watch`: a run's events as they happen; on a terminal with a status line below.

use std::collections::BTreeMap;

use interlock_api::events::RunEvents;
use interlock_api::history::TimelineItem;
use interlock_api::runs::RunSummary;
use interlock_model::run::RunStatus;

use super::Session;
use super::meter::Meter;
use crate::exit::{Exit, Result};
use crate::output::{json_line, line, say};

pub(super) async fn run(id: &str, session: &Session) -> Result<Exit> {
    let Session { client, output, .. } = session;
    if let Some(wait) = client.run(id).await?.waiting_for {
        say(&wait.detail);
    }
    let mut events = RunEvents::new(client.clone(), id);
    let mut view = output.is_live().then(LiveView::new);
    while let Some(item) = events.next().await? {
        match &mut view {
            Some(view) => {
                view.take(&item);
                view.meter.suspend(|| line(&sentence(&item)))?;
            }
            None if output.is_json() => json_line(&item)?,
            None => line(&sentence(&item))?,
        }
    }
    drop(view);
    let run = client.run(id).await?.summary;
    say(&epilogue(&run));
    Ok(if run.status == RunStatus::Succeeded { Exit::Done } else { Exit::Refused })
}

/// The status of the run, redrawn in place.
struct LiveView {
    meter: Meter,
    status: String,
    /// Steps and items with an event, and whether they are still in progress.
    going: BTreeMap<String, bool>,
}

impl LiveView {
    fn new() -> Self {
        Self { meter: Meter::spinner(), status: "pending".to_owned(), going: BTreeMap::new() }
    }

    fn take(&mut self, item: &TimelineItem) {
        if let Some(status) = item.run_status() {
            status.name().clone_into(&mut self.status);
        }
        if let Some(step) = &item.step_id {
            self.going.insert(step.to_string(), !ends_a_step(&item.r#type));
        }
        self.meter.tell(&self.line());
    }

    fn line(&self) -> String {
        let going: Vec<&str> =
            self.going.iter().filter(|(_, going)| **going).map(|(step, _)| step.as_str()).collect();
        let ended = self.going.len() - going.len();
        let mut line = format!("{}, {ended} ended", self.status);
        if !going.is_empty() {
            let named = going.iter().take(4).copied().collect::<Vec<_>>().join(", ");
            let more = if going.len() > 4 { format!(" and {} more", going.len() - 4) } else { String::new() };
            line = format!("{line}, now {named}{more}");
        }
        line
    }
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
    let time = item.time.to_string();
    // Only the time of day: few runs last for days.
    let clock = time.get(11..23).unwrap_or(&time);
    let what = item.r#type.replace('_', " ");
    let mut line = format!("{clock}  {what}");
    let parts = [item.step_id.as_ref().map(ToString::to_string), item.status.clone(), item.message.clone()];
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
}
