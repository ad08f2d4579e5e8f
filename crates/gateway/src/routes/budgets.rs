//! Budgets: their documents, permits that reserve from them, and adjustments.

use std::time::Duration;

use http::HeaderMap;
use http::header::IF_MATCH;
use interlock_api::Problem;
use interlock_api::budgets::{
    self as wire, AdjustRequest, BudgetAnswer, BudgetDetail, BudgetEventKind, BudgetEventView,
    BudgetGroupView, BudgetQuery, BudgetUsage, BudgetView, EndedPermitView, PermitView, ReleasePermitRequest,
    RenewPermitRequest, ReserveRequest, SettleRequest, TTL_MS_MAX, TTL_MS_MIN,
};
use interlock_backend::budgets as store;
use interlock_backend::verbs::{ListBudgetEvents, ListBudgets, ReadBudget};
use interlock_control::budgets::{self as stage, CurrentUsage, PermitGrant, PermitRequest};
use interlock_model::BudgetName;
use interlock_model::budget::{BudgetDocument, BudgetGroup, Ledger, LedgerState, Permit};

use super::{
    Answer, Caller, Json, Named, NoAnswer, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, bounded, bounded_text, endpoints, first_page, found, page_of,
};

const REASON_CHARS_MAX: usize = 1_024;

endpoints!("budgets": list, get, put, delete, reserve, renew, settle, release, adjust);

/// The tenant's budgets, by name, with what is counted now.
#[utoipa::path(get, path = "/api/v1/budgets", params(PageQuery),
    responses((status = 200, body = Page<BudgetView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<BudgetView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let mut budgets = caller.app.store.call(ListBudgets { tenant: caller.tenant.clone() }).await?;
    let place = |view: &store::BudgetView| view.budget.name.to_string();
    if let Some(after) = &page.after {
        budgets.retain(|view| place(view) > *after);
    }
    let mut views = Vec::new();
    for budget in budgets {
        views.push(view(&caller, budget)?);
    }
    Ok(page_of(first_page(views, page.limit, |view| view.name.to_string()), |view| view))
}

/// A budget with its busiest keys or runs, or with one of them, and with what happened to it.
#[utoipa::path(get, path = "/api/v1/budgets/{name}", params(BudgetQuery),
    responses((status = 200, body = BudgetDetail)))]
async fn get(caller: Caller, Named(name): Named<BudgetName>, parameters: Parameters) -> Answer<BudgetDetail> {
    caller.may(Permission::ReadRest)?;
    let (run, key) = (parameters.parsed("run_id")?, parameters.given("key")?);
    let tenant = caller.tenant.clone();
    let read = ReadBudget { tenant: tenant.clone(), name: name.clone() };
    let budget = found(caller.app.store.call(read).await?, &name)?;
    let groups = caller.app.stages.budgets.groups((&tenant, &budget.budget), run, key).await?;
    let events = caller.app.store.call(ListBudgetEvents { tenant, name }).await?;
    let groups = groups.into_iter().map(|store::GroupLedger { group, state }| BudgetGroupView {
        key: group.key(),
        run_id: group.run(),
        usage: usage(&state.ledger, Some(&state)),
    });
    Ok(Json(BudgetDetail {
        view: view(&caller, budget)?,
        groups: groups.collect(),
        events: events.into_iter().map(event).collect(),
    }))
}

/// Creates the budget, or replaces its document; what was reserved and spent stays.
#[utoipa::path(put, path = "/api/v1/budgets/{name}", params(
    ("If-Match" = Option<String>, Header, description = "The revision that is replaced; without it, whatever there is")),
    request_body = wire::BudgetDocument, responses((status = 200, body = BudgetView, description = "In force"),
    (status = 409, description = "It has another revision, or is one too many (`conflict`)")))]
async fn put(
    caller: Caller,
    Named(name): Named<BudgetName>,
    headers: HeaderMap,
    Payload(request): Payload<wire::BudgetDocument>,
) -> Answer<BudgetView> {
    caller.may(Permission::Administer)?;
    let expected = revision(&headers)?;
    let wire::BudgetDocument { unit, amount, per, timezone, key, warn_at, on_exhausted } = request;
    let document = BudgetDocument { unit, amount: amount.0, per, timezone, key, warn_at, on_exhausted };
    let place = (caller.tenant.clone(), name.clone());
    caller.app.stages.budgets.save(place, document, expected).await?;
    let read = ReadBudget { tenant: caller.tenant.clone(), name: name.clone() };
    let budget = found(caller.app.store.call(read).await?, &name)?;
    view(&caller, budget).map(Json)
}

/// Deletes the budget with its ledger and permits.
#[utoipa::path(delete, path = "/api/v1/budgets/{name}", params(
    ("If-Match" = Option<String>, Header, description = "The revision that is deleted; without it, whatever there is")),
    responses((status = 204, description = "Deleted"),
    (status = 409, description = "It has another revision (`conflict`)")))]
async fn delete(caller: Caller, Named(name): Named<BudgetName>, headers: HeaderMap) -> NoAnswer {
    caller.may(Permission::Administer)?;
    let expected = revision(&headers)?;
    caller.app.stages.budgets.delete((caller.tenant.clone(), name), expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reserves a part of the budget, or says at once that too little is left. It never waits.
#[utoipa::path(post, path = "/api/v1/budgets/{name}/reserve",
    request_body = ReserveRequest, responses(
    (status = 200, body = PermitView, description = "Granted, now or before for the same request"),
    (status = 409, description = "The request id was used for something else or its permit has ended, or the run has ended \
        (`conflict`); or there are as many open permits or keys as there may be (`quota_reached`)"),
    (status = 429, body = Problem, content_type = "application/problem+json",
        description = "Too little is left (`budget_exhausted`)", headers(("Retry-After" = u64)))))]
async fn reserve(
    caller: Caller,
    Named(name): Named<BudgetName>,
    Payload(request): Payload<ReserveRequest>,
) -> Answer<PermitView> {
    caller.may(Permission::Spend)?;
    let ReserveRequest { amount, min_amount, ttl_ms, request_id, run_id, key } = request;
    let ttl = ttl(ttl_ms)?;
    let least = min_amount.unwrap_or(amount);
    if amount.0.is_zero() {
        return Err(Refusal::invalid("amount: more than 0"));
    }
    if least.0.is_zero() || least > amount {
        return Err(Refusal::invalid("min_amount: more than 0, and at most the amount"));
    }
    let request = PermitRequest {
        tenant: caller.tenant.clone(),
        name,
        amount: amount.0,
        least: least.0,
        ttl,
        request: request_id,
        run: run_id,
        key,
    };
    let granted = caller.app.stages.budgets.reserve(request).await.map_err(Refusal::of_permit)?;
    let PermitGrant { permit, state, is_replay } = granted;
    Ok(Json(permit_view(permit, &state, is_replay)))
}

/// Extends an open permit to `ttl_ms` from now. One that has expired is not extended: settle or release it.
#[utoipa::path(post, path = "/api/v1/budgets/{name}/renew",
    request_body = RenewPermitRequest, responses((status = 200, body = PermitView),
    (status = 409, description = "It has expired, or was settled or released (`conflict`)")))]
async fn renew(
    caller: Caller,
    Named(name): Named<BudgetName>,
    Payload(request): Payload<RenewPermitRequest>,
) -> Answer<PermitView> {
    caller.may(Permission::Spend)?;
    let RenewPermitRequest { permit, ttl_ms } = request;
    let (ttl, place) = (ttl(ttl_ms)?, (caller.tenant.clone(), name));
    let renewed = caller.app.stages.budgets.renew(place, permit, ttl).await.map_err(Refusal::of_permit)?;
    Ok(Json(permit_view(renewed.permit, &renewed.state, false)))
}

/// Counts what was spent, and ends the permit. Repeated, it counts once; after the permit has expired, it corrects what was
/// counted.
#[utoipa::path(post, path = "/api/v1/budgets/{name}/settle",
    request_body = SettleRequest, responses((status = 200, body = EndedPermitView),
    (status = 409, description = "It was settled with another amount (`conflict`)")))]
async fn settle(
    caller: Caller,
    Named(name): Named<BudgetName>,
    Payload(request): Payload<SettleRequest>,
) -> Answer<EndedPermitView> {
    caller.may(Permission::Spend)?;
    let SettleRequest { permit, amount } = request;
    let Caller { app, tenant, .. } = caller;
    let shared = app.clone();
    // Clients that settle while they shut down may disconnect first.
    let settle = async move {
        let settled = shared.stages.budgets.settle((tenant, name), permit, amount.0).await;
        settled.map_err(Refusal::of_permit)
    };
    app.to_the_end(settle).await.map(ended)
}

/// Ends a permit of which nothing was spent. Repeated, or after a settlement, it changes nothing.
#[utoipa::path(post, path = "/api/v1/budgets/{name}/release",
    request_body = ReleasePermitRequest, responses((status = 200, body = EndedPermitView)))]
async fn release(
    caller: Caller,
    Named(name): Named<BudgetName>,
    Payload(request): Payload<ReleasePermitRequest>,
) -> Answer<EndedPermitView> {
    caller.may(Permission::Spend)?;
    let Caller { app, tenant, .. } = caller;
    let shared = app.clone();
    let release = async move {
        let released = shared.stages.budgets.release((tenant, name), request.permit).await;
        released.map_err(Refusal::of_permit)
    };
    app.to_the_end(release).await.map(ended)
}

/// Adds to what may be spent in this window, takes from it, or raises it until a time. Kept with the budget.
#[utoipa::path(post, path = "/api/v1/budgets/{name}/adjust",
    request_body = AdjustRequest, responses((status = 200, body = BudgetUsage),
    (status = 409, description = "As many increases are in force as may be (`conflict`), or there are as many keys as \
        there may be (`quota_reached`)")))]
async fn adjust(
    caller: Caller,
    Named(name): Named<BudgetName>,
    Payload(request): Payload<AdjustRequest>,
) -> Answer<BudgetUsage> {
    caller.may(Permission::AdjustBudget)?;
    let AdjustRequest { delta, reason, until, key, run_id, request_id } = request;
    bounded_text("reason", &reason, REASON_CHARS_MAX)?;
    if reason.trim().is_empty() {
        return Err(Refusal::invalid("reason: required; it is kept with the budget"));
    }
    let request = stage::AdjustRequest {
        tenant: caller.tenant.clone(),
        name,
        by: caller.name.clone(),
        delta: delta.0,
        reason,
        until: until.map(|until| until.0),
        run: run_id,
        key,
        request: request_id,
    };
    let state = caller.app.stages.budgets.adjust(request).await?;
    Ok(Json(usage(&state.ledger, Some(&state))))
}

fn ttl(milliseconds: u64) -> Result<Duration, Refusal> {
    bounded("ttl_ms", milliseconds, (TTL_MS_MIN, TTL_MS_MAX))?;
    Ok(Duration::from_millis(milliseconds))
}

/// The revision in `If-Match`, quoted or bare.
fn revision(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let revision = bare.parse().map(Some);
    revision.map_err(|_| Refusal::invalid("If-Match: the revision of the budget, such as \"3\""))
}

fn view(caller: &Caller, view: store::BudgetView) -> Result<BudgetView, Refusal> {
    let CurrentUsage { window, total, state } = caller.app.stages.budgets.current(&view)?;
    let store::Budget { name, document, revision, created_at, updated_at, .. } = view.budget;
    let BudgetDocument { unit, amount, per, timezone, key, warn_at, on_exhausted } = document;
    let amount = amount.into();
    Ok(BudgetView {
        name,
        document: BudgetAnswer { unit, amount, per, timezone, key, warn_at, on_exhausted },
        revision,
        created_at: created_at.into(),
        updated_at: updated_at.into(),
        window_from: per.is_calendar().then_some(window.from.into()),
        resets_at: window.until.map(Into::into),
        usage: usage(&total, state.as_ref()),
    })
}

fn usage(ledger: &Ledger, state: Option<&LedgerState>) -> BudgetUsage {
    BudgetUsage {
        spent: ledger.spent.into(),
        reserved: ledger.reserved.into(),
        unsettled: ledger.unsettled.into(),
        overdraft: ledger.overdraft.into(),
        adjusted: ledger.adjusted.into(),
        open_permits: ledger.open,
        limit: state.map(|state| state.limit.into()),
        remaining: state.map(|state| state.remaining.into()),
    }
}

fn permit_view(permit: Permit, state: &LedgerState, replayed: bool) -> PermitView {
    PermitView {
        permit: permit.id,
        fence: permit.fence.number(),
        state: permit.state,
        granted: permit.granted.into(),
        remaining: state.remaining.into(),
        expires_at: permit.expires_at.map(Into::into),
        resets_at: permit.window.until.map(Into::into),
        replayed,
    }
}

fn ended(change: store::PermitChange) -> Json<EndedPermitView> {
    let store::PermitChange { permit, state, .. } = change;
    Json(EndedPermitView {
        overdraft: permit.overdraft().into(),
        permit: permit.id,
        state: permit.state,
        granted: permit.granted.into(),
        settled: permit.settled.into(),
        remaining: state.remaining.into(),
    })
}

fn event(event: store::BudgetEvent) -> BudgetEventView {
    let view = |kind| BudgetEventView {
        time: event.at.into(),
        event: kind,
        key: None,
        run_id: None,
        by: None,
        delta: None,
        reason: None,
        until: None,
        percent: None,
        used: None,
    };
    match event.kind {
        store::BudgetEventKind::Adjusted(adjusted) => BudgetEventView {
            key: adjusted.group.as_ref().and_then(BudgetGroup::key),
            run_id: adjusted.group.as_ref().and_then(BudgetGroup::run),
            by: Some(adjusted.by),
            delta: Some(adjusted.delta.into()),
            reason: Some(adjusted.reason),
            until: adjusted.until.map(Into::into),
            ..view(BudgetEventKind::Adjusted)
        },
        store::BudgetEventKind::Warned(warning) => BudgetEventView {
            key: warning.group.key(),
            run_id: warning.group.run(),
            percent: Some(warning.percent),
            used: Some(warning.used.into()),
            ..view(BudgetEventKind::Warned)
        },
    }
}
