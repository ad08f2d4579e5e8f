//! `interlock run get`: a run and its steps in the order of the graph, with what each waits for.

use std::collections::BTreeMap;

use interlock_api::runs::{RunView, StepView};
use interlock_api::why::{CauseView, WhyQuery, WhyView};
use interlock_model::limit::document::Labels;
use interlock_model::step::StepStatus;
use interlock_model::why::CauseCode;
use interlock_model::{StepId, StepKey};
use serde_json::Value;

use super::Session;
use crate::exit::Result;
use crate::output::{fields, grid, or_dash, painted};

/// What a start has that says nothing else.
const PRIORITY_DEFAULT: u8 = 4;

pub(super) async fn show(id: &str, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    let run = client.run(id).await?;
    let is_explained = !output.is_json() && !run.summary.status.is_final();
    // Without the reasons the run is still worth showing.
    let query = WhyQuery { run_id: Some(run.summary.id), ..WhyQuery::default() };
    let why = if is_explained { client.why(&query).await.ok() } else { None };
    output.result(&run, |run| describe(run, &Waits::of(why.as_ref())))
}

/// What the steps of a live run wait for.
#[derive(Default)]
pub(super) struct Waits<'a>(BTreeMap<&'a StepKey, &'a CauseView>);

impl<'a> Waits<'a> {
    pub(super) fn of(why: Option<&'a WhyView>) -> Self {
        let causes = why.into_iter().flat_map(|why| &why.causes);
        Self(causes.filter_map(|cause| Some((cause.step_id.as_ref()?, cause))).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&StepKey, &CauseView)> {
        self.0.iter().map(|(key, cause)| (*key, *cause))
    }

    /// Items of the step that no worker has yet.
    fn items_queued(&self, step: &StepId) -> usize {
        self.iter().filter(|(key, cause)| key.step == *step && key.item.is_some() && is_queued(cause)).count()
    }
}

/// Whether no worker has the job yet.
pub(super) fn is_queued(cause: &CauseView) -> bool {
    matches!(
        cause.code,
        CauseCode::Queue
            | CauseCode::NoWorker
            | CauseCode::MissingCapability
            | CauseCode::WorkerSaturated
            | CauseCode::WorkerDraining
            | CauseCode::PolicyUnavailable
            | CauseCode::PolicyThrottled
            | CauseCode::PolicyPending
            | CauseCode::BudgetPending
            | CauseCode::BudgetExhausted
    )
}

fn describe(run: &RunView, waits: &Waits<'_>) -> String {
    let summary = &run.summary;
    let head = fields(&[
        ("run", Some(summary.id.to_string())),
        ("workflow", Some(format!("{} version {}", summary.workflow_id, summary.workflow_version))),
        ("tenant", Some(summary.org_id.to_string())),
        ("status", Some(painted(summary.status.name()))),
        ("waiting for", run.waiting_for.as_ref().map(|wait| wait.detail.clone())),
        ("error", summary.error.as_ref().map(|error| format!("{} ({})", error.message, error.code))),
        ("created", Some(summary.created_at.to_string())),
        ("started", summary.started_at.as_ref().map(ToString::to_string)),
        ("ended", summary.completed_at.as_ref().map(ToString::to_string)),
        (
            "parent",
            summary.parent.as_ref().map(|parent| format!("step {} of run {}", parent.step, parent.run_id)),
        ),
        ("root", summary.parent.as_ref().map(|_| summary.root.to_string())),
        ("rerun of", summary.rerun_of.map(|id| id.to_string())),
        ("key", summary.idempotency_key.as_ref().map(ToString::to_string)),
        ("labels", labels(&summary.labels)),
        ("priority", Some(summary.priority.to_string()).filter(|_| summary.priority != PRIORITY_DEFAULT)),
        ("input", Some(run.input.to_string())),
        ("output", run.output.as_ref().map(Value::to_string)),
    ]);
    let ordered = run.step_order.iter().filter_map(|id| Some((id, run.steps.get(id)?)));
    let others = run.steps.iter().filter(|(id, _)| !run.step_order.contains(id));
    let steps = ordered.chain(others).map(|(id, step)| step_row(id, step, waits));
    format!("{head}\n\n{}", grid(&["STEP", "STATUS", "ATTEMPTS", "CHILD", "NOTE"], steps))
}

fn labels(labels: &Labels) -> Option<String> {
    let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

fn step_row(id: &StepId, step: &StepView, waits: &Waits<'_>) -> Vec<String> {
    let cause = waits.0.get(&StepKey::whole(id)).copied();
    let status = if cause.is_some_and(is_queued) { "queued" } else { step.status.name() };
    let notes = [
        progress(step, waits.items_queued(id)),
        cause.map(|cause| cause.detail.clone()),
        step.error.as_ref().filter(|_| cause.is_none()).map(|error| error.message.clone()),
    ];
    let note: Vec<String> = notes.into_iter().flatten().collect();
    vec![
        id.to_string(),
        status.to_owned(),
        step.attempts.to_string(),
        or_dash(step.child_run_id.as_ref()),
        if note.is_empty() { "-".to_owned() } else { note.join("; ") },
    ]
}

/// How far the items of a step are, such as `7/9 done, 1 running, 1 failed`. `queued`: of those that have begun.
fn progress(step: &StepView, queued: usize) -> Option<String> {
    let children = step.children.as_ref()?;
    let total = step.items.map_or(children.len(), |items| items as usize);
    let count =
        |wanted: &[StepStatus]| children.values().filter(|item| wanted.contains(&item.status)).count();
    let running = count(&[StepStatus::Running]);
    let others = [
        (running.saturating_sub(queued), "running"),
        (queued.min(running), "queued"),
        (count(&[StepStatus::Waiting]), "waiting"),
        (count(&[StepStatus::Failed]), "failed"),
        (count(&[StepStatus::TimedOut]), "timed out"),
        (count(&[StepStatus::Denied]), "denied"),
        (count(&[StepStatus::Cancelled]), "cancelled"),
    ];
    let others =
        others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let done = count(&[StepStatus::Succeeded, StepStatus::Skipped]);
    Some(format!("{done}/{total} done{}", others.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(status: &str, more: &Value) -> Value {
        let mut step = json!({"status": status, "attempts": 1, "job_id": null, "started_at": null,
            "completed_at": null, "output": null, "error": null, "children": null});
        more.as_object().unwrap().iter().for_each(|(name, value)| step[name] = value.clone());
        step
    }

    #[test]
    fn a_fan_out_says_how_far_it_is() {
        let statuses = ["succeeded"; 7].into_iter().chain(["running", "failed"]);
        let children: serde_json::Map<String, Value> =
            statuses.zip(0..).map(|(status, at)| (format!("s[{at}]"), step(status, &json!({})))).collect();
        let fan_out = step("running", &json!({"children": children, "items": 9}));
        let fan_out: StepView = serde_json::from_value(fan_out).unwrap();
        assert_eq!(progress(&fan_out, 0).as_deref(), Some("7/9 done, 1 running, 1 failed"));
        assert_eq!(progress(&fan_out, 1).as_deref(), Some("7/9 done, 1 queued, 1 failed"));
        let plain: StepView = serde_json::from_value(step("running", &json!({}))).unwrap();
        assert_eq!(progress(&plain, 0), None);
    }

    #[test]
    fn a_step_whose_job_no_worker_has_is_queued_and_says_why() {
        let cause = json!({"code": "no_worker", "detail": "no online worker serves topic `t`", "what_to_do": "",
            "step_id": "a", "job_id": null, "since": null, "until": null, "holders": [], "position": null,
            "expected_wait_ms": null});
        let why: WhyView = serde_json::from_value(json!({"subject": "r", "state": "running",
            "time": "2026-11-15T01:02:03Z", "causes": [cause], "more": 0}))
        .unwrap();
        let running: StepView = serde_json::from_value(step("running", &json!({}))).unwrap();
        let row = |id: &str| step_row(&id.parse().unwrap(), &running, &Waits::of(Some(&why)));
        assert_eq!(row("a"), ["a", "queued", "1", "-", "no online worker serves topic `t`"]);
        assert_eq!(row("b"), ["b", "running", "1", "-", "-"]);
    }
}
