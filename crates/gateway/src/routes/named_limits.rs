//! Named limits: what may run at once, how fast, and who waits.

use std::cmp::Reverse;

use axum::response::Response;
use http::HeaderMap;
use interlock_api::Code;
use interlock_api::limits::ConfigScope;
use interlock_api::named_limits::{
    ExplainRequest, ExplainView, LimitView, PauseRequest, QueueQuery, QueuedRunView, SavedLimit,
};
use interlock_backend::limits::StoredLimit;
use interlock_backend::verbs::{ListQueuedRuns, ReadLimitUsage, ReadWorkflow};
use interlock_control::limit_usage::{TenantLimits, is_built_in};
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::owner::{is_of_system, name_at_system};
use interlock_model::limit::place::QueuedRun;
use interlock_model::limit::rule::{SlotClaim, StartFacts};
use interlock_model::{LimitName, TenantId};
use serde_json::{Map, Value};

use super::limit_revisions::{Expected, expected, with_tag};
use super::limit_views::{explain_view, limit_view};
use super::{
    Answer, App, Caller, Json, Named, NoAnswer, OptionalPayload, Page, PageQuery, Parameters, Payload,
    Permission, Refusal, StatusCode, bounded_text, endpoints, found, limits, page_of,
};
use crate::start_headers;

/// Groups that are named to someone who named none.
const GROUPS_NAMED: usize = 5;

/// Characters of a reason.
pub(super) const REASON_CHARS_MAX: usize = 512;

endpoints!("named limits": list, get, put, delete, pause, resume, queue, explain);

/// All limits, by name, the tenant's own (`tenant-runs`) first, with their usage.
#[utoipa::path(get, path = "/api/v1/limits", params(PageQuery), responses((status = 200, body = Page<LimitView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<LimitView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let Caller { app, tenant, .. } = &caller;
    let all = TenantLimits::read(&app.store, tenant).await?;
    let built_in = SlotClaim::tenant_runs().limit;
    let named = all.book.limits.iter().map(|limit| limit.name.clone());
    let is_behind = |name: &LimitName| {
        page.after
            .as_deref()
            .is_none_or(|after| !is_built_in(name) && (is_first(after) || name.as_str() > after))
    };
    let mut shown: Vec<LimitName> = [built_in].into_iter().chain(named).filter(is_behind).collect();
    let has_more = shown.len() > page.limit;
    shown.truncate(page.limit);
    let next = shown.last().filter(|_| has_more).map(ToString::to_string);
    let mut items = Vec::new();
    for name in shown {
        items.extend(read_view(app, tenant, &all, &name).await?);
    }
    Ok(page_of(interlock_backend::Page { items, next }, |view| view))
}

/// The cursor behind the tenant's own limit, which stands before all others.
fn is_first(after: &str) -> bool {
    after == interlock_model::limit::TENANT_RUNS
}

/// One limit with its usage. Its `ETag` is the revision.
#[utoipa::path(get, path = "/api/v1/limits/{name}",
    responses((status = 200, body = LimitView, headers(("ETag" = String)))))]
async fn get(caller: Caller, Named(name): Named<LimitName>) -> Result<Response, Refusal> {
    caller.may(Permission::ReadRest)?;
    Ok(tagged(view(&caller, &name).await?))
}

/// Saves a limit. In force with the answer: runs that it lets start have their slots, and a lower limit cancels none.
#[utoipa::path(put, path = "/api/v1/limits/{name}", params(
    ("If-Match" = Option<String>, Header, description = "Only if this is the limit's revision"),
    ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is no such limit"),
), request_body = LimitDocument, responses(
    (status = 200, body = SavedLimit, headers(("ETag" = String))),
    (status = 409, description = "It has changed since it was read, or there are as many as there may be \
        (`conflict`, `quota_reached`)")))]
async fn put(
    caller: Caller,
    Named(name): Named<LimitName>,
    headers: HeaderMap,
    Payload(document): Payload<LimitDocument>,
) -> Result<Response, Refusal> {
    caller.may(Permission::Administer)?;
    let replaces = replaces(&caller, &name, &headers).await?;
    let Caller { app, tenant, .. } = &caller;
    let revision = if is_built_in(&name) {
        limits::put_tenant_runs(app, tenant, &document, replaces).await?
    } else {
        app.stages.limits.save(tenant, name.clone(), document.clone(), replaces).await?
    };
    Ok(with_tag(revision, Json(SavedLimit { name, document, revision })))
}

/// Deletes a limit. Runs that wait for it are re-evaluated.
#[utoipa::path(delete, path = "/api/v1/limits/{name}", params(
    ("If-Match" = Option<String>, Header, description = "Only if this is the limit's revision"),
), responses((status = 204, description = "Deleted"),
    (status = 409, description = "It has changed since it was read, or is built in (`conflict`)")))]
async fn delete(caller: Caller, Named(name): Named<LimitName>, headers: HeaderMap) -> NoAnswer {
    caller.may(Permission::Administer)?;
    if is_built_in(&name) {
        let sentence = "tenant-runs is built in and cannot be deleted; nothing was changed. Set it: PUT /limits/tenant-runs";
        return Err(Refusal::new(Code::Conflict, sentence));
    }
    check_own(&name)?;
    let replaces = replaces(&caller, &name, &headers).await?;
    caller.app.stages.limits.delete(&caller.tenant, name, replaces).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a limit: nothing starts in it until it is resumed. Live runs continue. `tenant-runs` pauses the tenant.
#[utoipa::path(post, path = "/api/v1/limits/{name}/pause", request_body(content = Option<PauseRequest>),
    responses((status = 200, body = LimitView, headers(("ETag" = String)))))]
async fn pause(
    caller: Caller,
    Named(name): Named<LimitName>,
    OptionalPayload(PauseRequest { reason }): OptionalPayload<PauseRequest>,
) -> Result<Response, Refusal> {
    caller.may(Permission::Queue)?;
    check_own(&name)?;
    bounded_text("reason", reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX)?;
    let pause = Pause { by: caller.name.clone(), at: caller.app.clock.now(), reason };
    caller.app.stages.limits.pause(&caller.tenant, name.clone(), Some(pause)).await?;
    Ok(tagged(view(&caller, &name).await?))
}

/// Resumes a limit. Runs that wait for it start as far as it has slots.
#[utoipa::path(post, path = "/api/v1/limits/{name}/resume",
    request_body(content = Option<Object>, description = "Ignored"),
    responses((status = 200, body = LimitView, headers(("ETag" = String)))))]
async fn resume(
    caller: Caller,
    Named(name): Named<LimitName>,
    OptionalPayload(_): OptionalPayload<Value>,
) -> Result<Response, Refusal> {
    caller.may(Permission::Queue)?;
    check_own(&name)?;
    caller.app.stages.limits.pause(&caller.tenant, name.clone(), None).await?;
    Ok(tagged(view(&caller, &name).await?))
}

/// The runs that wait in a group of a limit, in the order in which they start.
#[utoipa::path(get, path = "/api/v1/limits/{name}/queue", params(QueueQuery),
    responses((status = 200, body = Page<QueuedRunView>)))]
async fn queue(
    caller: Caller,
    Named(name): Named<LimitName>,
    parameters: Parameters,
) -> Answer<Page<QueuedRunView>> {
    caller.may(Permission::ReadRest)?;
    let (group, page) = (parameters.parsed("group")?, parameters.page()?);
    let Caller { app, tenant, .. } = &caller;
    let all = TenantLimits::read(&app.store, tenant).await?;
    if !is_built_in(&name) {
        let limit = found(all.named(&name), &name)?;
        if group.is_none() && limit.document.key.is_some() {
            return Err(which_group(app, tenant, name).await?);
        }
    }
    let group = group.unwrap_or_default();
    let found = app.store.call(ListQueuedRuns { tenant: tenant.clone(), name, group, page }).await?;
    Ok(page_of(found, |QueuedRun { run, waiting, position, .. }| QueuedRunView {
        run_id: run,
        position,
        since: waiting.place.at.into(),
        priority: waiting.place.priority.into(),
        fair_group: waiting.fair.map(String::from),
    }))
}

/// A limit with a key has a queue per group.
async fn which_group(app: &App, tenant: &TenantId, name: LimitName) -> Result<Refusal, Refusal> {
    let read = ReadLimitUsage { tenant: tenant.clone(), name: name.clone(), group: None };
    let mut groups = app.store.call(read).await?.groups;
    groups.sort_by_key(|usage| Reverse(usage.state.queued));
    let waiting = groups.iter().filter(|usage| usage.state.queued > 0).take(GROUPS_NAMED);
    let named: Vec<_> =
        waiting.map(|usage| format!("`{}` ({} waiting)", usage.group, usage.state.queued)).collect();
    let groups = if named.is_empty() { "none has a queue now".to_owned() } else { named.join(", ") };
    Ok(Refusal::invalid(format!(
        "group: limit {name} has a key, and so a queue per group. Name one: {groups}"
    )))
}

/// Which limits a start would count in, and what they would do to it now. Starts nothing.
#[utoipa::path(post, path = "/api/v1/limits/explain", request_body = ExplainRequest, responses(
    (status = 200, body = ExplainView),
    (status = 404, description = "There is no such workflow (`not_found`)")))]
async fn explain(caller: Caller, Payload(request): Payload<ExplainRequest>) -> Answer<ExplainView> {
    let ExplainRequest { workflow, input, labels } = request;
    caller.may_for(Permission::ReadRest, &workflow)?;
    let input = input.unwrap_or_else(|| Value::Object(Map::new()));
    if !input.is_object() {
        return Err(Refusal::invalid("input: it is the run's input and must be a JSON object"));
    }
    let labels = start_headers::checked(&labels)?;
    let Caller { app, tenant, .. } = &caller;
    let read = ReadWorkflow { tenant: tenant.clone(), id: workflow.clone() };
    found(app.store.call(read).await?, &workflow)?;
    let facts = StartFacts { workflow: &workflow, input: &input, labels: &labels };
    let explained = app.stages.limits.explain(tenant, &facts).await?;
    let explanation = explained.map_err(|no_group| Refusal::no_group(&no_group))?;
    Ok(Json(explain_view(workflow, &explanation)))
}

async fn view(caller: &Caller, name: &LimitName) -> Result<LimitView, Refusal> {
    let Caller { app, tenant, .. } = caller;
    let all = TenantLimits::read(&app.store, tenant).await?;
    found(read_view(app, tenant, &all, name).await?, name)
}

/// None: there is no such limit.
async fn read_view(
    app: &App,
    tenant: &TenantId,
    all: &TenantLimits,
    name: &LimitName,
) -> Result<Option<LimitView>, Refusal> {
    let (document, revision) = match all.named(name) {
        Some(StoredLimit { document, revision, .. }) => (document.clone(), *revision),
        None if is_built_in(name) => (all.built_in(), all.written.revision),
        None => return Ok(None),
    };
    let read = ReadLimitUsage { tenant: tenant.clone(), name: name.clone(), group: None };
    let usage = app.store.call(read).await?;
    let scope = if is_of_system(name) { ConfigScope::System } else { ConfigScope::Org };
    let document = (document, all.rule(name).runs_max);
    Ok(Some(limit_view((name.clone(), scope, revision), document, all.pause(name), usage)))
}

/// The revision that a change must find; 0: none.
async fn replaces(caller: &Caller, name: &LimitName, headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    match expected(headers)? {
        Expected::Anything => Ok(None),
        Expected::Revision(revision) => Ok(Some(revision)),
        Expected::Something => match view(caller, name).await {
            Ok(view) => Ok(Some(view.revision)),
            Err(refusal) if refusal.code() == Code::NotFound => Err(Refusal::limit_changed(0)),
            Err(refusal) => Err(refusal),
        },
    }
}

fn tagged(view: LimitView) -> Response {
    with_tag(view.revision, Json(view))
}

/// A limit of the system is not the tenant's to change.
fn check_own(name: &LimitName) -> Result<(), Refusal> {
    let Some(at_system) = name_at_system(name) else { return Ok(()) };
    Err(Refusal::new(
        Code::Conflict,
        format!(
            "{name} is a limit of the system and applies to every tenant; nothing was changed. \
             A key for all tenants changes it: /system/limits/{at_system}"
        ),
    ))
}
