//! Jobs, for people: listed, cancelled. Workers use `claims`.

use interlock_api::jobs::{CancelledJob, JobBudget, JobQuery, JobView, WaitingFor};
use interlock_backend::jobs;
use interlock_backend::verbs::{ListJobs, ReadJob};
use interlock_model::dispatch_policy::Hold;
use interlock_model::job::{Job, JobEnd, JobLease, JobState, NewJob};
use interlock_model::why::CauseCode;
use interlock_model::{Fence, JobId, Timestamp, scheduling};
use serde_json::Value;

use super::{
    Answer, App, Caller, Json, Named, OptionalPayload, Page, PageQuery, Parameters, Permission, endpoints,
    found, page_of,
};

endpoints!("jobs": list, get, cancel);

/// Jobs, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/jobs", params(JobQuery, PageQuery),
    responses((status = 200, body = Page<JobView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<JobView>> {
    caller.may_list(Permission::ReadJobs)?;
    let state = parameters.one_of("state", &JobState::ALL, JobState::name)?;
    let page = parameters.page()?;
    let found = caller.app.store.call(ListJobs { tenant: caller.tenant.clone(), state, page }).await?;
    let found = caller.seen(found, |job| &job.job.new.workflow);
    Ok(page_of(found, |job| view(&caller.app, job)))
}

#[utoipa::path(get, path = "/api/v1/jobs/{job_id}", responses((status = 200, body = JobView)))]
async fn get(caller: Caller, Named(job): Named<JobId>) -> Answer<JobView> {
    caller.may_for_run(Permission::ReadJobs, job.run).await?;
    let Caller { app, tenant, .. } = caller;
    let read = ReadJob { tenant: tenant.clone(), job: job.clone() };
    let job = found(app.store.call(read).await?, &job)?;
    let queued = if job.state == JobState::Queued {
        app.stages.worker_directory.waiting_for(&tenant, &job).await?.map(queued_for)
    } else {
        None
    };
    let view = view(&app, job);
    Ok(Json(JobView { waiting_for: view.waiting_for.clone().or(queued), ..view }))
}

fn view(app: &App, view: jobs::JobView) -> JobView {
    let jobs::JobView { job: Job { new, created_at, permit, end }, lease, hold, state } = view;
    let NewJob { id, workflow, topic, input, deadline_at, queue_until, budget, .. } = new;
    let deadline_at = lease.as_ref().and_then(|lease| lease.deadline_at).or(deadline_at);
    let held = lease.as_ref().map(|lease| lease.fence).or(end.as_ref().map(|end| end.held));
    let worker = lease.as_ref().map(|lease: &JobLease| lease.worker.clone());
    let unconfirmed = lease.as_ref().filter(|lease| app.stages.process.is_unconfirmed(lease)).map(pushed_to);
    let worker = worker.or_else(|| end.as_ref().and_then(|end: &JobEnd| end.worker.clone()));
    JobView {
        run_id: id.run,
        step_id: id.step.clone(),
        attempt: id.attempt,
        job_id: id,
        workflow_id: workflow,
        topic,
        state,
        fence: held.filter(|fence| *fence != Fence::NONE).map(Fence::number),
        worker_id: worker,
        created_at: created_at.into(),
        claimed_at: lease.as_ref().map(|lease| lease.claimed_at.into()),
        lease_expires_at: lease.filter(|_| end.is_none()).map(|lease| lease.expires_at.into()),
        ended_at: end.map(|end| end.at.into()),
        deadline_ms: deadline_at.map(Timestamp::as_millis),
        queue_deadline_ms: queue_until.map(Timestamp::as_millis),
        input,
        budget: budget.map(|budget| JobBudget { name: budget.name, reserve: budget.reserve.into(), permit }),
        waiting_for: hold.map(held_for).or(unconfirmed),
    }
}

fn queued_for(waiting: scheduling::WaitingFor) -> WaitingFor {
    let scheduling::WaitingFor { reason, detail, position, workers } = waiting;
    WaitingFor { reason: reason.name().to_owned(), detail, position: Some(position), workers: Some(workers) }
}

fn held_for(hold: Hold) -> WaitingFor {
    WaitingFor { reason: hold.reason.name().to_owned(), detail: hold.detail, position: None, workers: None }
}

fn pushed_to(lease: &JobLease) -> WaitingFor {
    let (reason, detail) = (CauseCode::Dispatched.name(), scheduling::awaited_confirmation(&lease.worker));
    WaitingFor { reason: reason.to_owned(), detail, position: None, workers: None }
}

/// Ends an open job. One that has ended stays as it is.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/cancel", request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 200, body = CancelledJob, description = "The state of the job now")))]
async fn cancel(
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Answer<CancelledJob> {
    caller.may_for_run(Permission::Cancel, job.run).await?;
    let Caller { app, tenant, name, .. } = caller;
    let (runs, id) = (app.stages.runs.clone(), job.clone());
    let state = app.to_the_end(async move { runs.cancel_job(&tenant, &job, &name).await }).await?;
    Ok(Json(CancelledJob { id, state }))
}
