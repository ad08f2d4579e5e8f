//! Workflows: saved, listed, deleted.

use interlock_api::workflows::{
    CreatedWorkflow, PauseWorkflowRequest, PausedStarts, WorkflowPauseView, WorkflowView,
};
use interlock_backend::StoreError;
use interlock_backend::verbs::{ListWorkflows, ReadWorkflow};
use interlock_backend::workflows::WorkflowVersion;
use interlock_control::documents::SaveError;
use interlock_control::limits::pausing_limit;
use interlock_model::limit::document::{OnFull, Pause};
use interlock_model::workflow::{InvalidWorkflow, WorkflowDocument};
use interlock_model::{TenantId, WorkflowId};
use serde_json::Value;

use super::limit_views::pause_view;
use super::{
    Answer, Caller, Document, Json, Named, NoAnswer, OptionalPayload, Page, PageQuery, Parameters,
    Permission, Refusal, StatusCode, bounded_text, endpoints, found, page_of,
};

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 512;

endpoints!("workflows": create, list, get, delete, pause, resume);

/// Checks the document and saves it as the next version of its workflow. It may be YAML, too, as `application/yaml`.
#[utoipa::path(post, path = "/api/v1/workflows", request_body = WorkflowDocument,
    responses((status = 201, body = CreatedWorkflow)))]
async fn create(
    caller: Caller,
    Document { value: document, text }: Document<WorkflowDocument>,
) -> Result<(StatusCode, Json<CreatedWorkflow>), Refusal> {
    if let Some(other) = document.org_id.as_ref().filter(|org| **org != caller.tenant) {
        let sentence =
            format!("the document is of tenant {other} (org_id), and the request of {}", caller.tenant);
        return Err(Refusal::forbidden(sentence));
    }
    match &document.id {
        Some(id) => caller.may_for(Permission::Administer, id)?,
        None => caller.may(Permission::Administer)?,
    }
    let saved = caller.app.stages.documents.save_workflow(&caller.tenant, document).await;
    let (id, version) = saved.map_err(|error| match error {
        SaveError::Invalid(InvalidWorkflow { place, problem }) => {
            Refusal::invalid(format!("invalid document: {}", text.located(&place, &problem)))
        }
        SaveError::Store(error) => error.into(),
    })?;
    Ok((StatusCode::CREATED, Json(CreatedWorkflow { id, version })))
}

/// The current versions, newest first.
#[utoipa::path(get, path = "/api/v1/workflows", params(PageQuery),
    responses((status = 200, body = Page<WorkflowView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<WorkflowView>> {
    caller.may_list(Permission::ReadRuns)?;
    let page = parameters.page()?;
    let found = caller.app.store.call(ListWorkflows { tenant: caller.tenant.clone(), page }).await?;
    let tenant = caller.tenant.clone();
    Ok(page_of(caller.seen(found, |version| &version.id), |version| view(&tenant, version)))
}

/// The current version.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", responses((status = 200, body = WorkflowView)))]
async fn get(caller: Caller, Named(id): Named<WorkflowId>) -> Answer<WorkflowView> {
    caller.may_for(Permission::ReadRuns, &id)?;
    let Caller { app, tenant, .. } = caller;
    let version = app.store.call(ReadWorkflow { tenant: tenant.clone(), id: id.clone() }).await?;
    Ok(Json(view(&tenant, found(version, &id)?)))
}

/// Rejects new starts from now on. Running runs continue with their version, also those that waited for the workflow to be
/// resumed.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", responses((status = 204, description = "Deleted")))]
async fn delete(caller: Caller, Named(id): Named<WorkflowId>) -> NoAnswer {
    caller.may_for(Permission::Administer, &id)?;
    let stages = &caller.app.stages;
    let deleted = stages.documents.delete_workflow(&caller.tenant, &id).await;
    // A later workflow of this id is another one. Also for one that is deleted already: the first answer may have been lost.
    if matches!(deleted, Ok(()) | Err(StoreError::NotFound { .. })) {
        stages.limits.resume_workflow(&caller.tenant, &id).await?;
    }
    deleted?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses the workflow: its starts are rejected (`limit_reached`), or wait with `on_full` `queue`, until it is resumed. Runs
/// that were accepted before continue. It is paused by a limit of its own.
#[utoipa::path(post, path = "/api/v1/workflows/{id}/pause",
    request_body(content = Option<PauseWorkflowRequest>), responses((status = 200, body = WorkflowPauseView)))]
async fn pause(
    caller: Caller,
    Named(id): Named<WorkflowId>,
    OptionalPayload(PauseWorkflowRequest { reason, on_full }): OptionalPayload<PauseWorkflowRequest>,
) -> Answer<WorkflowPauseView> {
    caller.may_for(Permission::Queue, &id)?;
    bounded_text("reason", reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX)?;
    let Caller { app, tenant, name, .. } = caller;
    found(app.store.call(ReadWorkflow { tenant: tenant.clone(), id: id.clone() }).await?, &id)?;
    let on_full = on_full.map(|starts| match starts {
        PausedStarts::Reject => OnFull::Reject,
        PausedStarts::Queue => OnFull::Queue,
    });
    let pause = Pause { by: name, at: app.clock.now(), reason };
    let limit = app.stages.limits.pause_workflow(&tenant, &id, (pause.clone(), on_full)).await?;
    Ok(Json(WorkflowPauseView { workflow: id, limit, paused: Some(pause_view(&pause)) }))
}

/// Resumes the workflow. Runs that wait for that start.
#[utoipa::path(post, path = "/api/v1/workflows/{id}/resume",
    request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 200, body = WorkflowPauseView)))]
async fn resume(
    caller: Caller,
    Named(id): Named<WorkflowId>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Answer<WorkflowPauseView> {
    caller.may_for(Permission::Queue, &id)?;
    let Caller { app, tenant, .. } = caller;
    found(app.store.call(ReadWorkflow { tenant: tenant.clone(), id: id.clone() }).await?, &id)?;
    app.stages.limits.resume_workflow(&tenant, &id).await?;
    let limit = pausing_limit(&id);
    Ok(Json(WorkflowPauseView { workflow: id, limit, paused: None }))
}

fn view(tenant: &TenantId, saved: WorkflowVersion) -> WorkflowView {
    let WorkflowVersion { id, version, document, created_at } = saved;
    WorkflowView::new(tenant.clone(), (id, version), document, created_at.into())
}
