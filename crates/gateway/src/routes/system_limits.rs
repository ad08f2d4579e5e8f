//! Named limits of the system: they apply to every tenant separately, under the name `system.NAME`.

use axum::response::Response;
use http::HeaderMap;
use interlock_api::named_limits::{PauseRequest, SystemLimitView};
use interlock_backend::limits::StoredLimit;
use interlock_model::LimitName;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::owner::name_at_system;
use serde_json::Value;

use super::limit_revisions::{Expected, expected, with_tag};
use super::limit_views::pause_view;
use super::named_limits::REASON_CHARS_MAX;
use super::{
    Answer, Caller, Json, Named, NoAnswer, OptionalPayload, Page, PageQuery, Parameters, Payload, Permission,
    Refusal, StatusCode, bounded_text, endpoints, first_page, found, page_of,
};

endpoints!("system limits": list, get, put, delete, pause, resume);

/// The named limits of the system, by name.
#[utoipa::path(get, path = "/api/v1/system/limits", params(PageQuery),
    responses((status = 200, body = Page<SystemLimitView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<SystemLimitView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let mut views = views(&caller).await?;
    views.retain(|view| page.after.as_deref().is_none_or(|after| view.name.as_str() > after));
    Ok(page_of(first_page(views, page.limit, |view| view.name.to_string()), |view| view))
}

/// One limit of the system. Its `ETag` is the revision.
#[utoipa::path(get, path = "/api/v1/system/limits/{name}",
    responses((status = 200, body = SystemLimitView, headers(("ETag" = String)))))]
async fn get(caller: Caller, Named(name): Named<LimitName>) -> Result<Response, Refusal> {
    caller.may(Permission::ReadRest)?;
    tagged(&caller, &name).await
}

/// Saves a limit of the system. It applies to every tenant separately, beside the tenant's own: with the answer to the first
/// 1,000, within a second to the others. Runs that it lets start have their slots.
#[utoipa::path(put, path = "/api/v1/system/limits/{name}", params(
    ("If-Match" = Option<String>, Header, description = "Only if this is the limit's revision"),
    ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is no such limit"),
), request_body = LimitDocument, responses(
    (status = 200, body = SystemLimitView, headers(("ETag" = String))),
    (status = 409, description = "It has changed since it was read, or there are as many as there may be \
        (`conflict`, `quota_reached`)")))]
async fn put(
    caller: Caller,
    Named(name): Named<LimitName>,
    headers: HeaderMap,
    Payload(document): Payload<LimitDocument>,
) -> Result<Response, Refusal> {
    may_change(&caller, Permission::Administer)?;
    let replaces = replaces(&caller, &name, &headers).await?;
    caller.app.stages.limits.save_for_system(&name, document, replaces).await?;
    tagged(&caller, &name).await
}

/// Deletes a limit of the system. Runs that wait for it are re-evaluated in each tenant.
#[utoipa::path(delete, path = "/api/v1/system/limits/{name}", params(
    ("If-Match" = Option<String>, Header, description = "Only if this is the limit's revision"),
), responses((status = 204, description = "Deleted"),
    (status = 409, description = "It has changed since it was read (`conflict`)")))]
async fn delete(caller: Caller, Named(name): Named<LimitName>, headers: HeaderMap) -> NoAnswer {
    may_change(&caller, Permission::Administer)?;
    let replaces = replaces(&caller, &name, &headers).await?;
    caller.app.stages.limits.delete_for_system(&name, replaces).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a limit of the system in every tenant: nothing starts in it until it is resumed. Live runs continue.
#[utoipa::path(post, path = "/api/v1/system/limits/{name}/pause", request_body(content = Option<PauseRequest>),
    responses((status = 200, body = SystemLimitView, headers(("ETag" = String)))))]
async fn pause(
    caller: Caller,
    Named(name): Named<LimitName>,
    OptionalPayload(PauseRequest { reason }): OptionalPayload<PauseRequest>,
) -> Result<Response, Refusal> {
    may_change(&caller, Permission::Queue)?;
    bounded_text("reason", reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX)?;
    let pause = Pause { by: caller.name.clone(), at: caller.app.clock.now(), reason };
    caller.app.stages.limits.pause_for_system(&name, Some(pause)).await?;
    tagged(&caller, &name).await
}

/// Resumes a limit of the system. Runs that wait for it start as far as it has slots.
#[utoipa::path(post, path = "/api/v1/system/limits/{name}/resume",
    request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 200, body = SystemLimitView, headers(("ETag" = String)))))]
async fn resume(
    caller: Caller,
    Named(name): Named<LimitName>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Result<Response, Refusal> {
    may_change(&caller, Permission::Queue)?;
    caller.app.stages.limits.pause_for_system(&name, None).await?;
    tagged(&caller, &name).await
}

/// What holds for every tenant is not one tenant's to change.
fn may_change(caller: &Caller, permission: Permission) -> Result<(), Refusal> {
    caller.may(permission)?;
    caller.covers_all()
}

async fn views(caller: &Caller) -> Result<Vec<SystemLimitView>, Refusal> {
    let book = caller.app.stages.limits.of_system().await?;
    Ok(book.limits.iter().filter_map(view).collect())
}

fn view(limit: &StoredLimit) -> Option<SystemLimitView> {
    let StoredLimit { name, document, revision, paused, .. } = limit;
    Some(SystemLimitView {
        name: name_at_system(name)?,
        name_in_tenants: name.clone(),
        document: document.clone(),
        revision: *revision,
        paused: paused.as_ref().map(pause_view),
    })
}

async fn tagged(caller: &Caller, name: &LimitName) -> Result<Response, Refusal> {
    let view = found(named(caller, name).await?, name)?;
    Ok(with_tag(view.revision, Json(view)))
}

async fn named(caller: &Caller, name: &LimitName) -> Result<Option<SystemLimitView>, Refusal> {
    Ok(views(caller).await?.into_iter().find(|view| view.name == *name))
}

async fn replaces(caller: &Caller, name: &LimitName, headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    match expected(headers)? {
        Expected::Anything => Ok(None),
        Expected::Revision(revision) => Ok(Some(revision)),
        Expected::Something => {
            let found = named(caller, name).await?.ok_or_else(|| Refusal::limit_changed(0))?;
            Ok(Some(found.revision))
        }
    }
}
