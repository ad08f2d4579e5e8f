//! Runs and their steps.

use std::collections::BTreeMap;

use interlock_api::runs::{FailureView, RunSummary, RunView, StepView};
use interlock_backend::runs;
use interlock_backend::workflows::WorkflowVersion;
use interlock_model::run::advance::scope;
use interlock_model::run::{Run, StartedFrom};
use interlock_model::step::{StepError, StepRun, StepStatus};
use interlock_model::{RunId, StepId, StepKey};

/// A whole run. Its definition tells of the steps that were not touched yet.
pub(crate) fn view(run: Run, definition: Option<&WorkflowVersion>) -> RunView {
    let context = scope::context(&run);
    let Run { mut start, mut head, steps } = run;
    let mut views = steps_of(steps);
    let untouched = if head.status.is_final() { StepStatus::Skipped } else { StepStatus::Pending };
    for step in definition.into_iter().flat_map(|version| version.document.steps.keys()) {
        if !views.contains_key(step) {
            views.insert(step.clone(), step_view(StepRun { status: untouched, ..StepRun::default() }));
        }
    }
    let (input, output) = (std::mem::take(&mut start.input), head.output.take());
    RunView { summary: summary(runs::RunSummary { start, head }), input, context, output, steps: views }
}

pub(crate) fn summary(summary: runs::RunSummary) -> RunSummary {
    let runs::RunSummary { start, head } = summary;
    RunSummary {
        id: start.run,
        workflow_id: start.workflow,
        workflow_version: start.workflow_version,
        org_id: start.tenant,
        status: head.status,
        error: head.error.map(failure),
        created_at: start.created_at.into(),
        started_at: head.started_at.map(Into::into),
        completed_at: head.completed_at.map(Into::into),
        updated_at: head.updated_at.into(),
        idempotency_key: start.idempotency_key,
        rerun_of: rerun_of(&start.origin),
        fence: head.fence.number(),
    }
}

fn rerun_of(origin: &StartedFrom) -> Option<RunId> {
    match origin {
        StartedFrom::Request => None,
        StartedFrom::Rerun { of, from_step: _ } => Some(*of),
    }
}

/// Whole steps by name, the items of a fan-out inside theirs.
fn steps_of(steps: BTreeMap<StepKey, StepRun>) -> BTreeMap<StepId, StepView> {
    let mut views: BTreeMap<StepId, StepView> = BTreeMap::new();
    // A step stands before its items: no number sorts before any.
    for (key, step) in steps {
        if key.item.is_none() {
            views.insert(key.step, step_view(step));
        } else {
            let parent = views.entry(key.step.clone()).or_insert_with(|| step_view(StepRun::default()));
            parent.children.get_or_insert_default().insert(key, step_view(step));
        }
    }
    views
}

fn step_view(step: StepRun) -> StepView {
    StepView {
        status: step.status,
        attempts: step.attempts,
        job_id: step.job,
        started_at: step.started_at.map(Into::into),
        completed_at: step.completed_at.map(Into::into),
        output: step.output,
        error: step.error.map(failure),
        children: step.fan_out.map(|_| BTreeMap::new()),
    }
}

fn failure(error: StepError) -> FailureView {
    FailureView {
        code: error.code.name().to_owned(),
        message: error.message,
        step_id: error.step.map(|step| step.to_string()),
    }
}
