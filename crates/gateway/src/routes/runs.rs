//! Runs: listed, cancelled, deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_api::Code;
use interlock_api::runs::{
    AwaitedEventView, FailureView, MoveRequest, ParentView, QueueEnd, RunQuery, RunSummary, RunView, StepView,
};
use interlock_backend::runs::{self, RunFilter};
use interlock_backend::verbs::{ListRuns, ReadQueuedRun, ReadRun, ReadWorkflowVersion};
use interlock_backend::workflows::WorkflowVersion;
use interlock_control::limit_usage::run_wait;
use interlock_model::event::AwaitedEvent;
use interlock_model::run::advance::scope;
use interlock_model::run::{Run, RunStatus, StartedFrom};
use interlock_model::step::{StepError, StepRun, StepStatus};
use interlock_model::{RunId, StepId, StepKey, WorkflowId};
use serde_json::Value;

use super::{
    Answer, Caller, Json, Named, NoAnswer, OptionalPayload, Page, PageQuery, Parameters, Payload, Permission,
    Refusal, StatusCode, bounded, endpoints, found, limit_views, page_of, run_waits,
};

/// How long an answer may wait for the end of a run.
const WAIT_MS_MAX: u64 = 60_000;

endpoints!("runs": list, get, delete, cancel, cancel_of_workflow, move_queued);

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/workflow-runs", params(RunQuery, PageQuery),
    responses((status = 200, body = Page<RunSummary>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<RunSummary>> {
    caller.may_list(Permission::ReadRuns)?;
    let status = parameters.one_of("status", &RunStatus::ALL, RunStatus::name)?;
    let workflow = parameters.parsed("workflow_id")?;
    if let Some(workflow) = &workflow {
        caller.may_for(Permission::ReadRuns, workflow)?;
    }
    let parent = parameters.parsed("parent")?;
    let (filter, page) = (RunFilter { status, workflow, parent }, parameters.page()?);
    let found = caller.app.store.call(ListRuns { tenant: caller.tenant.clone(), filter, page }).await?;
    Ok(page_of(caller.seen(found, |run| &run.start.workflow), summary))
}

/// A whole run, with its steps. With `wait_ms`, the answer waits for the end of the run.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}", params(
    ("wait_ms" = Option<u64>, Query, maximum = 60_000, description = "Wait this long for the end of the run: 200 if it has \
        ended, else 202")),
    responses((status = 200, body = RunView, description = "The run; with `wait_ms`, one that has ended"),
        (status = 202, body = RunView, description = "With `wait_ms`: the run has not ended yet")))]
async fn get(
    caller: Caller,
    Named(id): Named<RunId>,
    parameters: Parameters,
) -> Result<(StatusCode, Json<RunView>), Refusal> {
    caller.may_for_run(Permission::ReadRuns, id).await?;
    let Some(wait_ms) = parameters.parsed::<u64>("wait_ms")? else {
        return Ok((StatusCode::OK, Json(as_it_is(caller, id).await?)));
    };
    bounded("wait_ms", wait_ms, (0, WAIT_MS_MAX))?;
    if let Some(view) = run_waits::ended(&caller, id, Duration::from_millis(wait_ms)).await? {
        return Ok((StatusCode::OK, Json(view)));
    }
    let view = as_it_is(caller, id).await?;
    let status = if view.summary.status.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(view)))
}

async fn as_it_is(caller: Caller, id: RunId) -> Result<RunView, Refusal> {
    let Caller { app, tenant, .. } = caller;
    let run = found(app.store.call(ReadRun { tenant: tenant.clone(), run: id }).await?, &id)?;
    let (workflow, version) = (run.start.workflow.clone(), run.start.workflow_version);
    let read = ReadWorkflowVersion { tenant: tenant.clone(), id: workflow, version };
    let definition = app.store.call(read).await?;
    let waiting_for = if run.head.status == RunStatus::Queued {
        let now = app.clock.now();
        let wait = run_wait(&app.store, &tenant, id, now).await?;
        wait.map(|wait| limit_views::waiting_for(&wait, &run.head, now))
    } else {
        None
    };
    Ok(RunView { waiting_for, ..view(run, definition.as_ref()) })
}

/// Deletes the run with everything except its idempotency key. A live run is ended first.
#[utoipa::path(delete, path = "/api/v1/workflow-runs/{id}", responses((status = 204, description = "Deleted")))]
async fn delete(caller: Caller, Named(id): Named<RunId>) -> NoAnswer {
    caller.may_for_run(Permission::Administer, id).await?;
    let runs = caller.app.stages.runs.clone();
    caller.app.to_the_end(async move { runs.delete(&caller.tenant, id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels the run. Repeated, or for a run that has ended, it gets the same answer.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/cancel",
    request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 204, description = "Cancelled, or ended before")))]
async fn cancel(
    caller: Caller,
    Named(id): Named<RunId>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> NoAnswer {
    caller.may_for_run(Permission::Cancel, id).await?;
    end(caller, id).await
}

/// Moves a waiting run to the front of its queue, or behind all others.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/move", request_body = MoveRequest, responses(
    (status = 204, description = "Moved, or there already"),
    (status = 409, description = "The run does not wait in a queue (`conflict`)")))]
async fn move_queued(
    caller: Caller,
    Named(id): Named<RunId>,
    Payload(MoveRequest { to }): Payload<MoveRequest>,
) -> NoAnswer {
    caller.may_for_run(Permission::Queue, id).await?;
    let Caller { app, tenant, .. } = caller;
    if app.stages.limits.move_run(&tenant, id, to == QueueEnd::Front).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let queued = app.store.call(ReadQueuedRun { tenant: tenant.clone(), run: id }).await?;
    let run = found(app.store.call(ReadRun { tenant, run: id }).await?, &id)?;
    let why = match queued.and_then(|queued| queued.quiet) {
        Some(quiet) => format!(
            "it waits for newer starts until {}, and then goes on by itself, or into the queue of a full limit",
            quiet.until
        ),
        None => format!("it is {}", run.head.status.name()),
    };
    let sentence = format!("run {id} does not wait in a queue: {why}. Nothing was changed");
    Err(Refusal::new(Code::Conflict, sentence))
}

/// Cancels the run of this workflow.
#[utoipa::path(post, path = "/api/v1/workflows/{workflow}/runs/{id}/cancel",
    request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 204, description = "Cancelled, or ended before")))]
async fn cancel_of_workflow(
    caller: Caller,
    Named((workflow, id)): Named<(WorkflowId, RunId)>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> NoAnswer {
    caller.may_for(Permission::Cancel, &workflow)?;
    let run = caller.app.store.call(ReadRun { tenant: caller.tenant.clone(), run: id }).await?;
    if run.is_none_or(|run| run.start.workflow != workflow) {
        return Err(Refusal::not_found("run", &format!("{id} of workflow {workflow}")));
    }
    end(caller, id).await
}

async fn end(caller: Caller, id: RunId) -> NoAnswer {
    let Caller { app, tenant, name, .. } = caller;
    let runs = app.stages.runs.clone();
    app.to_the_end(async move { runs.cancel(&tenant, id, &name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A whole run. Its definition has the steps that the run has not reached yet.
pub(super) fn view(run: Run, definition: Option<&WorkflowVersion>) -> RunView {
    let context = scope::context(&run);
    let step_order = definition.map(|version| version.document.order()).unwrap_or_default();
    let Run { mut start, mut head, steps } = run;
    let mut views = steps_of(steps);
    let unreached = if head.status.is_final() { StepStatus::Skipped } else { StepStatus::Pending };
    for step in definition.into_iter().flat_map(|version| version.document.steps.keys()) {
        if !views.contains_key(step) {
            views.insert(step.clone(), step_view(StepRun { status: unreached, ..StepRun::default() }));
        }
    }
    let (input, output) = (std::mem::take(&mut start.input), head.output.take());
    RunView {
        summary: summary(runs::RunSummary { start, head }),
        waiting_for: None,
        input,
        context,
        output,
        steps: views,
        step_order,
    }
}

fn summary(summary: runs::RunSummary) -> RunSummary {
    let runs::RunSummary { start, head } = summary;
    let root = start.root();
    let depth = start.depth();
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
        parent: start.parent.map(|parent| ParentView { run_id: parent.run, step: parent.step }),
        root,
        depth,
        labels: start.labels,
        priority: start.priority.into(),
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
        child_run_id: step.child,
        waiting_for_event: step.awaits.map(|AwaitedEvent { name, key }| AwaitedEventView { name, key }),
        started_at: step.started_at.map(Into::into),
        completed_at: step.completed_at.map(Into::into),
        output: step.output,
        error: step.error.map(failure),
        items: step.fan_out.map(|fan_out| fan_out.total),
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
