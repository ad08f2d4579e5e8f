//! Workflows: saved, looked at, deleted.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::workflows::{CreatedWorkflow, WorkflowView};
use interlock_api::{Page, PageQuery};
use interlock_backend::verbs::{ListWorkflows, ReadWorkflow};
use interlock_backend::workflows::WorkflowVersion;
use interlock_model::WorkflowId;
use interlock_model::workflow::WorkflowDocument;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .post("/api/v1/workflows", create)
        .get("/api/v1/workflows", list)
        .get("/api/v1/workflows/{id}", get)
        .delete("/api/v1/workflows/{id}", delete)
}

/// Checks the document and saves it as the next version of its workflow.
#[utoipa::path(post, path = "/api/v1/workflows", tag = "workflows", request_body = WorkflowDocument, responses(
    (status = 201, body = CreatedWorkflow), Refusals))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Payload(document): Payload<WorkflowDocument>,
) -> Result<(StatusCode, Json<CreatedWorkflow>), Refusal> {
    caller.may(Permission::Administer)?;
    let (id, version) = app.documents.save_workflow(&caller.tenant, document).await?;
    Ok((StatusCode::CREATED, Json(CreatedWorkflow { id, version })))
}

/// The current versions, newest first.
#[utoipa::path(get, path = "/api/v1/workflows", tag = "workflows", params(PageQuery), responses(
    (status = 200, body = Page<WorkflowView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<WorkflowView>> {
    caller.may(Permission::ReadRuns)?;
    let page = app
        .store
        .call(ListWorkflows { tenant: caller.tenant.clone(), page: parameters.page()?.clone() })
        .await?;
    Ok(Json(convert::page(page, view)))
}

/// The current version.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", tag = "workflows", params(("id" = String, Path)), responses(
    (status = 200, body = WorkflowView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
) -> Answer<WorkflowView> {
    caller.may(Permission::ReadRuns)?;
    let found = app.store.call(ReadWorkflow { tenant: caller.tenant.clone(), id: id.clone() }).await?;
    found.map(|version| Json(view(version))).ok_or_else(|| Refusal::not_found("workflow", id.as_str()))
}

/// Refuses new starts. Runs that have begun go on with their version.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", tag = "workflows", params(("id" = String, Path)), responses(
    (status = 204, description = "Deleted"), Refusals))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Administer)?;
    app.documents.delete_workflow(&caller.tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn view(version: WorkflowVersion) -> WorkflowView {
    WorkflowView::new(version.id, version.version, version.document, version.created_at.into())
}
