//! Runs: looked at, cancelled, deleted.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::runs::{RunQuery, RunSummary, RunView};
use interlock_api::{Page, PageQuery};
use interlock_backend::runs::RunFilter;
use interlock_backend::verbs::{ListRuns, ReadRun, ReadWorkflowVersion};
use interlock_model::run::RunStatus;
use interlock_model::{RunId, WorkflowId};
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
        .get("/api/v1/workflow-runs", list)
        .get("/api/v1/workflow-runs/{id}", get)
        .delete("/api/v1/workflow-runs/{id}", delete)
        .post("/api/v1/workflow-runs/{id}/cancel", cancel)
        .post("/api/v1/workflows/{workflow}/runs/{id}/cancel", cancel_of_workflow)
}

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/workflow-runs", tag = "runs", params(RunQuery, PageQuery), responses(
    (status = 200, body = Page<RunSummary>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<RunSummary>> {
    caller.may(Permission::ReadRuns)?;
    let status = parameters.named("status", |name| {
        RunStatus::named(name).ok_or_else(|| {
            let names = RunStatus::ALL.map(RunStatus::name).join(", ");
            format!("there is no such status; there are {names}")
        })
    })?;
    let workflow = parameters
        .named("workflow_id", |name| name.parse::<WorkflowId>().map_err(|error| error.to_string()))?;
    let filter = RunFilter { status, workflow };
    let page = app
        .store
        .call(ListRuns {
            tenant: caller.tenant.clone(),
            filter: filter.clone(),
            page: parameters.page()?.clone(),
        })
        .await?;
    Ok(Json(convert::page(page, convert::runs::summary)))
}

/// A whole run, with its steps.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 200, body = RunView), Refusals))]
pub(crate) async fn get(State(app): State<App>, caller: Caller, Named(id): Named<RunId>) -> Answer<RunView> {
    caller.may(Permission::ReadRuns)?;
    let store = &app.store;
    let run = store.call(ReadRun { tenant: caller.tenant.clone(), run: id }).await?;
    let run = run.ok_or_else(|| Refusal::not_found("run", &id.to_string()))?;
    let start = &run.start;
    let definition = store
        .call(ReadWorkflowVersion {
            tenant: caller.tenant.clone(),
            id: start.workflow.clone(),
            version: start.workflow_version,
        })
        .await?;
    Ok(Json(convert::runs::view(run, definition.as_ref())))
}

/// Deletes the run with everything of it but its idempotency key. A live one ends first.
#[utoipa::path(delete, path = "/api/v1/workflow-runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 204, description = "Deleted"), Refusals))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RunId>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Administer)?;
    let runs = app.runs.clone();
    app.to_the_end(async move { Ok(runs.delete(&caller.tenant, id).await?) }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels the run. Again, or for a run that has ended: the same answer.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/cancel", tag = "runs", params(("id" = String, Path)),
    responses((status = 204, description = "Cancelled, or ended before"), Refusals))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RunId>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Cancel)?;
    end(&app, caller, id).await
}

/// Cancels the run of this workflow.
#[utoipa::path(post, path = "/api/v1/workflows/{workflow}/runs/{id}/cancel", tag = "runs",
    params(("workflow" = String, Path), ("id" = String, Path)),
    responses((status = 204, description = "Cancelled, or ended before"), Refusals))]
pub(crate) async fn cancel_of_workflow(
    State(app): State<App>,
    caller: Caller,
    Named((workflow, id)): Named<(WorkflowId, RunId)>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Cancel)?;
    let run = app.store.call(ReadRun { tenant: caller.tenant.clone(), run: id }).await?;
    if run.is_none_or(|run| run.start.workflow != workflow) {
        return Err(Refusal::not_found("run", &format!("{id} of workflow {workflow}")));
    }
    end(&app, caller, id).await
}

async fn end(app: &App, caller: Caller, id: RunId) -> Result<StatusCode, Refusal> {
    let runs = app.runs.clone();
    let Caller { tenant, name, .. } = caller;
    app.to_the_end(async move { Ok(runs.cancel(&tenant, id, &name).await?) }).await?;
    Ok(StatusCode::NO_CONTENT)
}
