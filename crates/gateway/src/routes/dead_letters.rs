//! Dead letters: looked at, deleted.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::dead_letters::DeadLetterView;
use interlock_api::{Page, PageQuery};
use interlock_model::JobId;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/dlq", list).get("/api/v1/dlq/{job_id}", get).delete("/api/v1/dlq/{job_id}", delete)
}

/// Jobs that were given up on, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/dlq", tag = "dead letters", params(PageQuery), responses(
    (status = 200, body = Page<DeadLetterView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<DeadLetterView>> {
    caller.may(Permission::ReadRest)?;
    let page = app.control.store().dead_letters(&caller.tenant, &parameters.page()?).await?;
    Ok(Json(convert::page(page, convert::dead_letters::summary)))
}

#[utoipa::path(get, path = "/api/v1/dlq/{job_id}", tag = "dead letters", params(("job_id" = String, Path)),
    responses((status = 200, body = DeadLetterView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
) -> Answer<DeadLetterView> {
    caller.may(Permission::ReadRest)?;
    let found = app.control.store().dead_letter(&caller.tenant, &job).await?;
    let found = found.ok_or_else(|| Refusal::not_found("dead letter", &job.to_string()))?;
    Ok(Json(convert::dead_letters::view(found)))
}

/// Forgets the letter. The job and its run stay as they are.
#[utoipa::path(delete, path = "/api/v1/dlq/{job_id}", tag = "dead letters", params(("job_id" = String, Path)),
    responses((status = 204, description = "Deleted"), Refusals))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::DeleteLetters)?;
    app.control.store().delete_dead_letter(&caller.tenant, &job).await?;
    Ok(StatusCode::NO_CONTENT)
}
