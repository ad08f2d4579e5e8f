//! Workflows: saved, listed, deleted.

use interlock_api::workflows::{CreatedWorkflow, WorkflowView};
use interlock_backend::verbs::{ListWorkflows, ReadWorkflow};
use interlock_backend::workflows::WorkflowVersion;
use interlock_model::WorkflowId;
use interlock_model::workflow::WorkflowDocument;

use super::{
    Answer, Caller, Json, Named, NoAnswer, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, endpoints, found, page_of,
};

endpoints!("workflows": create, list, get, delete);

/// Checks the document and saves it as the next version of its workflow.
#[utoipa::path(post, path = "/api/v1/workflows", request_body = WorkflowDocument,
    responses((status = 201, body = CreatedWorkflow)))]
async fn create(
    caller: Caller,
    Payload(document): Payload<WorkflowDocument>,
) -> Result<(StatusCode, Json<CreatedWorkflow>), Refusal> {
    match &document.id {
        Some(id) => caller.may_for(Permission::Administer, id)?,
        None => caller.may(Permission::Administer)?,
    }
    let (id, version) = caller.app.stages.documents.save_workflow(&caller.tenant, document).await?;
    Ok((StatusCode::CREATED, Json(CreatedWorkflow { id, version })))
}

/// The current versions, newest first.
#[utoipa::path(get, path = "/api/v1/workflows", params(PageQuery),
    responses((status = 200, body = Page<WorkflowView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<WorkflowView>> {
    caller.may_list(Permission::ReadRuns)?;
    let page = parameters.page()?;
    let found = caller.app.store.call(ListWorkflows { tenant: caller.tenant.clone(), page }).await?;
    Ok(page_of(caller.seen(found, |version| &version.id), view))
}

/// The current version.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", responses((status = 200, body = WorkflowView)))]
async fn get(caller: Caller, Named(id): Named<WorkflowId>) -> Answer<WorkflowView> {
    caller.may_for(Permission::ReadRuns, &id)?;
    let version = caller.app.store.call(ReadWorkflow { tenant: caller.tenant, id: id.clone() }).await?;
    Ok(Json(view(found(version, &id)?)))
}

/// Rejects new starts from now on. Running runs continue with their version.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", responses((status = 204, description = "Deleted")))]
async fn delete(caller: Caller, Named(id): Named<WorkflowId>) -> NoAnswer {
    caller.may_for(Permission::Administer, &id)?;
    caller.app.stages.documents.delete_workflow(&caller.tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn view(version: WorkflowVersion) -> WorkflowView {
    WorkflowView::new(version.id, version.version, version.document, version.created_at.into())
}
