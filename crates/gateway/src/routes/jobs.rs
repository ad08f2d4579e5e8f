//! Jobs, for people: looked at, cancelled.

use axum::Json;
use axum::extract::State;
use interlock_api::jobs::{CancelledJob, JobQuery, JobView};
use interlock_api::{Page, PageQuery};
use interlock_backend::verbs::{ListJobs, ReadJob};
use interlock_model::JobId;
use interlock_model::job::JobState;
use serde_json::Value;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::OptionalPayload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/jobs", list)
        .get("/api/v1/jobs/{job_id}", get)
        .post("/api/v1/jobs/{job_id}/cancel", cancel)
}

/// Jobs, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobQuery, PageQuery), responses(
    (status = 200, body = Page<JobView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<JobView>> {
    caller.may(Permission::ReadJobs)?;
    let state = parameters.named("state", |asked| {
        JobState::named(asked).ok_or_else(|| {
            let names = JobState::ALL.map(JobState::name).join(", ");
            format!("unknown state; expected one of: {names}")
        })
    })?;
    let page = app
        .store
        .call(ListJobs { tenant: caller.tenant.clone(), state, page: parameters.page()?.clone() })
        .await?;
    Ok(Json(convert::page(page, convert::jobs::view)))
}

#[utoipa::path(get, path = "/api/v1/jobs/{job_id}", tag = "jobs", params(("job_id" = String, Path)), responses(
    (status = 200, body = JobView), Refusals))]
pub(crate) async fn get(State(app): State<App>, caller: Caller, Named(id): Named<JobId>) -> Answer<JobView> {
    caller.may(Permission::ReadJobs)?;
    let found = app.store.call(ReadJob { tenant: caller.tenant.clone(), job: id.clone() }).await?;
    let found = found.ok_or_else(|| Refusal::not_found("job", &id.to_string()))?;
    let queued = if found.state == JobState::Queued {
        app.worker_directory.waiting_for(&caller.tenant, &found).await?.map(convert::jobs::waiting_for)
    } else {
        None
    };
    let view = convert::jobs::view(found);
    Ok(Json(JobView { waiting_for: view.waiting_for.clone().or(queued), ..view }))
}

/// Ends an open job. One that has ended stays as it is.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/cancel", tag = "jobs", params(("job_id" = String, Path)),
    responses((status = 200, body = CancelledJob, description = "Where the job stands now"), Refusals))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Answer<CancelledJob> {
    caller.may(Permission::Cancel)?;
    let runs = app.runs.clone();
    let id = job.clone();
    let Caller { tenant, name, .. } = caller;
    let state = app.to_the_end(async move { Ok(runs.cancel_job(&tenant, &job, &name).await?) }).await?;
    Ok(Json(CancelledJob { id, state }))
}
