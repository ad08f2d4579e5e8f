//! Locks: asked for, renewed, given back, taken away; and looked at.

use interlock_backend::verbs::{ListLockHistory, ListLocks, ReadLock};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::locks::{
    AcquireRequest, ForceReleaseRequest, InventoryRow, LockEventView, LockGrant, LockHistoryQuery, LockQuery,
    LocksAnswer, ReleaseRequest, RenewRequest, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
};
use interlock_api::{Page, PageQuery, Problem};
use interlock_backend::StoreError;
use interlock_backend::locks::{Acquired, ForceReleaseLock};
use interlock_control::locks::UserLockRequest;
use interlock_model::Resource;
use interlock_model::lock::LockName;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::bounds::{bounded, bounded_text};
use crate::convert;
use crate::error::Refusal;
use crate::metrics::FencedWrite;
use crate::openapi::Refusals;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::{App, Shared};

const REASON_CHARS_MAX: usize = 1_024;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .post("/api/v1/locks/acquire", acquire)
        .post("/api/v1/locks/renew", renew)
        .post("/api/v1/locks/release", release)
        .post("/api/v1/locks/force-release", force_release)
        .get("/api/v1/locks", list)
        .get("/api/v1/locks/history", history)
        .get("/api/v1/locks/inventory", inventory)
}

/// Asks for a lock, standing in line for it. Whoever hangs up leaves the line.
#[utoipa::path(post, path = "/api/v1/locks/acquire", tag = "locks", request_body = AcquireRequest, responses(
    (status = 200, body = LockGrant, description = "It is the caller's; or was already, by its token or request id"),
    (status = 409, body = Problem, content_type = "application/problem+json",
        description = "Held by another (`lock_held`), the token's hold is over (`stale_fence`), or the token or the \
        request id is of something else (`conflict`)", headers(("Retry-After" = u64))),
    (status = 429, body = Problem, content_type = "application/problem+json",
        description = "The tenant has as much of locks as it may (`lock_quota`)", headers(("Retry-After" = u64))),
    Refusals,
))]
pub(crate) async fn acquire(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<AcquireRequest>,
) -> Answer<LockGrant> {
    caller.may(Permission::Lock)?;
    let AcquireRequest { resource, owner, mode, ttl_ms, wait_ms, request_id, token } = asked;
    let ttl = ttl(ttl_ms)?;
    bounded("wait_ms", wait_ms, (0, WAIT_MS_MAX))?;
    let has_name = request_id.is_some() || token.is_some();
    let asked = UserLockRequest {
        lock: LockName::Of(caller.tenant, resource.clone()),
        owner,
        mode,
        ttl,
        wait: Duration::from_millis(wait_ms),
        request: request_id,
        held: token,
    };
    let acquired = app.locks.acquire(asked, &app.closing).await;
    match acquired.map_err(|error| refused(&app, &resource, (FencedWrite::LockAcquire, has_name), error))? {
        Acquired::Granted(grant) => Ok(Json(convert::locks::grant(resource, grant))),
        Acquired::Waiting(busy) | Acquired::Refused(busy) => {
            Err(convert::locks::held(&resource, &busy, app.process.settings().retry_after_max))
        }
        Acquired::OverQuota { what, limit, current } => Err(convert::locks::over_quota(what, limit, current)),
    }
}

/// Extends the hold to so long from now. One that has come to its end cannot be revived.
#[utoipa::path(post, path = "/api/v1/locks/renew", tag = "locks", request_body = RenewRequest, responses(
    (status = 200, body = LockGrant), Refusals))]
pub(crate) async fn renew(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<RenewRequest>,
) -> Answer<LockGrant> {
    caller.may(Permission::Lock)?;
    let RenewRequest { resource, token, ttl_ms } = asked;
    let ttl = ttl(ttl_ms)?;
    let lock = LockName::Of(caller.tenant, resource.clone());
    let renewed = app.locks.renew(&lock, &token, ttl).await;
    let grant = renewed.map_err(|error| refused(&app, &resource, (FencedWrite::LockRenew, true), error))?;
    Ok(Json(convert::locks::grant(resource, grant)))
}

/// Ends the hold. Again: it is still released.
#[utoipa::path(post, path = "/api/v1/locks/release", tag = "locks", request_body = ReleaseRequest, responses(
    (status = 204, description = "Released"), Refusals))]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<ReleaseRequest>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Lock)?;
    let ReleaseRequest { resource, token } = asked;
    let lock = LockName::Of(caller.tenant, resource.clone());
    let shared = app.clone();
    // Also if its client has gone by then, as those do who clean up on their way out.
    let release = async move {
        let released = shared.locks.release(&lock, &token).await;
        released.map_err(|error| refused(&shared, &resource, (FencedWrite::LockRelease, true), error))
    };
    app.to_the_end(release).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends somebody's hold on an operator's word, which goes into the history with the reason.
#[utoipa::path(post, path = "/api/v1/locks/force-release", tag = "locks", request_body = ForceReleaseRequest, responses(
    (status = 204, description = "Released"), Refusals))]
pub(crate) async fn force_release(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<ForceReleaseRequest>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::ForceRelease)?;
    let ForceReleaseRequest { resource, expect_token, reason } = asked;
    bounded_text("reason", &reason, REASON_CHARS_MAX)?;
    if reason.trim().is_empty() {
        return Err(Refusal::invalid("reason: say why; whoever reads the history wants to know"));
    }
    let Caller { tenant, name, .. } = caller;
    let lock = LockName::Of(tenant, resource.clone());
    let forced = ForceReleaseLock { lock, expected: expect_token, by: name, reason };
    let shared = app.clone();
    let release = async move {
        let released = shared.locks.force_release(&forced).await;
        released.map_err(|error| refused(&shared, &resource, (FencedWrite::LockForceRelease, true), error))
    };
    app.to_the_end(release).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tenant's held locks, newest first; or the one whose resource is named, with the first of its line.
#[utoipa::path(get, path = "/api/v1/locks", tag = "locks", params(LockQuery, PageQuery), responses(
    (status = 200, body = LocksAnswer), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<LocksAnswer> {
    caller.may(Permission::ReadRest)?;
    let Some(resource) = resource(&parameters)? else {
        let page = app
            .store
            .call(ListLocks { tenant: caller.tenant.clone(), page: parameters.page()?.clone() })
            .await?;
        return Ok(Json(LocksAnswer::Page(convert::locks::page(page))));
    };
    let found = app.store.call(ReadLock { lock: LockName::Of(caller.tenant, resource.clone()) }).await?;
    let found = found.and_then(|detail| convert::locks::detail(detail, app.clock.now()));
    let found = found.ok_or_else(|| Refusal::not_found("held lock", resource.as_str()))?;
    Ok(Json(LocksAnswer::One(Box::new(found))))
}

/// Grants and ends of one lock, newest first, as far as they are remembered.
#[utoipa::path(get, path = "/api/v1/locks/history", tag = "locks", params(LockHistoryQuery, PageQuery), responses(
    (status = 200, body = Page<LockEventView>), Refusals))]
pub(crate) async fn history(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<LockEventView>> {
    caller.may(Permission::ReadRest)?;
    let resource = resource(&parameters)?;
    let resource = resource.ok_or_else(|| Refusal::invalid("resource is needed: whose history?"))?;
    let request = parameters.page()?;
    let page = app
        .store
        .call(ListLockHistory { lock: LockName::Of(caller.tenant, resource.clone()), page: request.clone() })
        .await?;
    if page.items.is_empty() && request.after.is_none() {
        return Err(Refusal::not_found("lock", resource.as_str()));
    }
    Ok(Json(convert::page(page, convert::locks::event)))
}

/// Every lock that there is, the control plane's own included, with the numbers of this installation.
#[utoipa::path(get, path = "/api/v1/locks/inventory", tag = "locks", responses(
    (status = 200, body = Page<InventoryRow>), Refusals))]
pub(crate) async fn inventory(State(app): State<App>, caller: Caller) -> Answer<Page<InventoryRow>> {
    caller.may(Permission::ReadRest)?;
    let locks = &app.process.settings().locks;
    Ok(Json(Page::new(interlock_api::locks::inventory(locks, &app.deployment.prefix), None)))
}

fn ttl(milliseconds: u64) -> Result<Duration, Refusal> {
    bounded("ttl_ms", milliseconds, (TTL_MS_MIN, TTL_MS_MAX))?;
    Ok(Duration::from_millis(milliseconds))
}

fn resource(parameters: &Parameters) -> Result<Option<Resource>, Refusal> {
    let read = |text: &str| text.parse().map_err(|error| Refusal::invalid(format!("resource: {error}")));
    parameters.given("resource")?.map(read).transpose()
}

fn refused(
    app: &Shared,
    resource: &Resource,
    (write, has_name): (FencedWrite, bool),
    error: StoreError,
) -> Refusal {
    if matches!(error, StoreError::Fenced { .. }) {
        app.metrics.fence_rejected(write);
    }
    Refusal::of_lock(error, resource, has_name)
}
