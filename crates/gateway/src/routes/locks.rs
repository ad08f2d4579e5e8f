//! Locks: acquired, renewed, released, also by force; listed with their history.

use std::time::Duration;

use interlock_api::locks::{
    AcquireRequest, ForceReleaseRequest, HolderView, InventoryRow, LockCause, LockDetail, LockEventKind,
    LockEventView, LockGrant, LockHistoryQuery, LockQuery, LockView, LocksAnswer, ReleaseRequest,
    RenewRequest, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX, WaiterView,
};
use interlock_api::problem::RefusedBy;
use interlock_api::{Code, Problem};
use interlock_backend::StoreError;
use interlock_backend::locks::{self, Acquired, Busy, ForceReleaseLock, LockQuota};
use interlock_backend::verbs::{ListLockHistory, ListLocks, ReadLock};
use interlock_control::locks::UserLockRequest;
use interlock_model::lock::{Grant, LockEnd, LockEvent, LockName, Waiter};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockToken, Resource, Timestamp, why};

use super::{
    Answer, App, Caller, Json, NoAnswer, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, bounded, bounded_text, endpoints, page_of,
};
use crate::error::spread;
use crate::metrics::FencedWrite;

const REASON_CHARS_MAX: usize = 1_024;

/// A refused client waits at least this long, however short leases are.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);

endpoints!("locks": acquire, renew, release, force_release, list, history, inventory);

/// Acquires a lock, and waits in its queue. A client that disconnects leaves the queue.
#[utoipa::path(post, path = "/api/v1/locks/acquire", request_body = AcquireRequest, responses(
    (status = 200, body = LockGrant, description = "Granted, now or before under the same token or request id"),
    (status = 409, body = Problem, content_type = "application/problem+json",
        description = "Held by another owner (`lock_held`), the token's lease has ended (`stale_fence`), or the token or \
        the request id belongs to something else (`conflict`)", headers(("Retry-After" = u64))),
    (status = 429, body = Problem, content_type = "application/problem+json",
        description = "The tenant holds or waits for as many locks as it may (`lock_quota`)",
        headers(("Retry-After" = u64))),
    (status = 404, description = "The token names a lock that there never was (`not_found`)")))]
async fn acquire(caller: Caller, Payload(request): Payload<AcquireRequest>) -> Answer<LockGrant> {
    caller.may(Permission::Lock)?;
    let AcquireRequest { resource, owner, mode, ttl_ms, wait_ms, request_id, token } = request;
    let ttl = ttl(ttl_ms)?;
    bounded("wait_ms", wait_ms, (0, WAIT_MS_MAX))?;
    let is_repeatable = request_id.is_some() || token.is_some();
    let request = UserLockRequest {
        lock: LockName::Of(caller.tenant, resource.clone()),
        owner,
        mode,
        ttl,
        wait: Duration::from_millis(wait_ms),
        request: request_id,
        held: token,
    };
    let app = &caller.app;
    let acquired = app.stages.locks.acquire(request, &app.closing).await;
    match checked(app, (FencedWrite::LockAcquire, is_repeatable), &resource, acquired)? {
        Acquired::Granted(grant) => Ok(Json(granted(resource, grant))),
        Acquired::Waiting(busy) | Acquired::Refused(busy) => {
            Err(held(&resource, &busy, app.stages.process.settings().retry_after_max))
        }
        Acquired::OverQuota { what, limit, current } => Err(over_quota(what, limit, current)),
    }
}

/// Renews the lease for `ttl_ms` from now. One that has ended cannot be renewed.
#[utoipa::path(post, path = "/api/v1/locks/renew", request_body = RenewRequest,
    responses((status = 200, body = LockGrant),
    (status = 404, description = "There never was such a lock (`not_found`)"),
    (status = 409, description = "The token's lease has ended (`stale_fence`)")))]
async fn renew(caller: Caller, Payload(request): Payload<RenewRequest>) -> Answer<LockGrant> {
    caller.may(Permission::Lock)?;
    let RenewRequest { resource, token, ttl_ms } = request;
    let ttl = ttl(ttl_ms)?;
    let lock = LockName::Of(caller.tenant, resource.clone());
    let renewed = caller.app.stages.locks.renew(&lock, &token, ttl).await;
    let grant = checked(&caller.app, (FencedWrite::LockRenew, true), &resource, renewed)?;
    Ok(Json(granted(resource, grant)))
}

/// Releases the lock. Repeated, it gets the same answer.
#[utoipa::path(post, path = "/api/v1/locks/release", request_body = ReleaseRequest,
    responses((status = 204, description = "Released"),
    (status = 404, description = "There never was such a lock (`not_found`)"),
    (status = 409, description = "The token's lease has ended (`stale_fence`)")))]
async fn release(caller: Caller, Payload(request): Payload<ReleaseRequest>) -> NoAnswer {
    caller.may(Permission::Lock)?;
    let ReleaseRequest { resource, token } = request;
    let Caller { app, tenant, .. } = caller;
    let lock = LockName::Of(tenant, resource.clone());
    let shared = app.clone();
    // Clients that release while they shut down may disconnect first.
    let release = async move {
        let released = shared.stages.locks.release(&lock, &token).await;
        checked(&shared, (FencedWrite::LockRelease, true), &resource, released)
    };
    app.to_the_end(release).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the lease of any owner. The history records who did it and why.
#[utoipa::path(post, path = "/api/v1/locks/force-release", request_body = ForceReleaseRequest,
    responses((status = 204, description = "Released"),
    (status = 404, description = "There never was such a lock (`not_found`)"),
    (status = 409, description = "The token's lease has ended (`stale_fence`)")))]
async fn force_release(caller: Caller, Payload(request): Payload<ForceReleaseRequest>) -> NoAnswer {
    caller.may(Permission::ForceRelease)?;
    let ForceReleaseRequest { resource, expect_token, reason } = request;
    bounded_text("reason", &reason, REASON_CHARS_MAX)?;
    if reason.trim().is_empty() {
        return Err(Refusal::invalid("reason: required; it is recorded in the lock's history"));
    }
    let Caller { app, tenant, name, .. } = caller;
    let lock = LockName::Of(tenant, resource.clone());
    let forced = ForceReleaseLock { lock, expected: expect_token, by: name, reason };
    let shared = app.clone();
    let release = async move {
        let released = shared.stages.locks.force_release(&forced).await;
        checked(&shared, (FencedWrite::LockForceRelease, true), &resource, released)
    };
    app.to_the_end(release).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tenant's held locks, newest first; or the lock of `resource`, with the first requests in its queue.
#[utoipa::path(get, path = "/api/v1/locks", params(LockQuery, PageQuery),
    responses((status = 200, body = LocksAnswer),
    (status = 404, description = "The lock is not held (`not_found`)")))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<LocksAnswer> {
    caller.may(Permission::ReadRest)?;
    let tokens = Tokens::for_caller(&caller);
    let Caller { app, tenant, .. } = caller;
    let Some(resource) = resource(&parameters)? else {
        let found = app.store.call(ListLocks { tenant, page: parameters.page()? }).await?;
        let Json(Page { items, next_cursor }) = page_of(found, |lock| view(lock, tokens));
        return Ok(Json(LocksAnswer::Page(Page::new(items.into_iter().flatten().collect(), next_cursor))));
    };
    let found = app.store.call(ReadLock { lock: LockName::Of(tenant, resource.clone()) }).await?;
    let found = found.and_then(|lock| detail(lock, tokens, app.clock.now()));
    let found = found.ok_or_else(|| Refusal::not_found("held lock", resource.as_str()))?;
    Ok(Json(LocksAnswer::One(Box::new(found))))
}

/// Grants and ends of one lock, newest first, as far as the store keeps them.
#[utoipa::path(get, path = "/api/v1/locks/history", params(LockHistoryQuery, PageQuery),
    responses((status = 200, body = Page<LockEventView>),
    (status = 404, description = "There never was such a lock (`not_found`)")))]
async fn history(caller: Caller, parameters: Parameters) -> Answer<Page<LockEventView>> {
    caller.may(Permission::ReadRest)?;
    let resource = resource(&parameters)?;
    let resource = resource.ok_or_else(|| Refusal::invalid("resource is required"))?;
    let page = parameters.page()?;
    let is_first = page.after.is_none();
    let tokens = Tokens::for_caller(&caller);
    let lock = LockName::Of(caller.tenant, resource.clone());
    let found = caller.app.store.call(ListLockHistory { lock, page }).await?;
    if found.items.is_empty() && is_first {
        return Err(Refusal::not_found("lock", resource.as_str()));
    }
    Ok(page_of(found, |event| event_view(event, tokens)))
}

/// Every lock, those of the control plane included, with the durations of this installation.
#[utoipa::path(get, path = "/api/v1/locks/inventory", responses((status = 200, body = Page<InventoryRow>)))]
async fn inventory(caller: Caller) -> Answer<Page<InventoryRow>> {
    caller.may(Permission::ReadRest)?;
    let (locks, prefix) = (&caller.app.stages.process.settings().locks, &caller.app.deployment.prefix);
    Ok(Json(Page::new(interlock_api::locks::inventory(locks, prefix), None)))
}

fn ttl(milliseconds: u64) -> Result<Duration, Refusal> {
    bounded("ttl_ms", milliseconds, (TTL_MS_MIN, TTL_MS_MAX))?;
    Ok(Duration::from_millis(milliseconds))
}

fn resource(parameters: &Parameters) -> Result<Option<Resource>, Refusal> {
    let read = |text: &str| text.parse().map_err(|error| Refusal::invalid(format!("resource: {error}")));
    parameters.given("resource")?.map(read).transpose()
}

/// The store's answer to a write, and whether the client can repeat it.
fn checked<T>(
    app: &App,
    (write, is_repeatable): (FencedWrite, bool),
    resource: &Resource,
    answer: Result<T, StoreError>,
) -> Result<T, Refusal> {
    app.metrics.fenced(write, answer).map_err(|error| Refusal::of_lock(error, resource, is_repeatable))
}

fn granted(resource: Resource, grant: Grant) -> LockGrant {
    let Grant { owner, mode, token, fence, expires_at, .. } = grant;
    LockGrant { resource, mode, owner, token, fence: fence.number(), expires_at: expires_at.into() }
}

/// Whether the caller sees tokens. A token is the right to renew and release its lock.
#[derive(Clone, Copy)]
enum Tokens {
    Shown,
    Hidden,
}

impl Tokens {
    fn for_caller(caller: &Caller) -> Self {
        if caller.may(Permission::ForceRelease).is_ok() { Self::Shown } else { Self::Hidden }
    }

    fn show(self, token: LockToken) -> Option<LockToken> {
        match self {
            Self::Shown => Some(token),
            Self::Hidden => None,
        }
    }
}

/// None: it is not held.
fn view(view: locks::LockView, tokens: Tokens) -> Option<LockView> {
    let locks::LockView { resource, holders, waiting } = view;
    let Grant { owner, mode, token, fence, acquired_at, expires_at, .. } = holders.first()?.clone();
    Some(LockView {
        resource,
        mode,
        owner,
        token: tokens.show(token),
        fence: fence.number(),
        acquired_at: acquired_at.into(),
        expires_at: expires_at.into(),
        holders: holders.into_iter().map(|holder| holder_view(holder, tokens)).collect(),
        waiting,
    })
}

fn holder_view(grant: Grant, tokens: Tokens) -> HolderView {
    let Grant { owner, token, fence, acquired_at, expires_at, .. } = grant;
    HolderView {
        owner,
        token: tokens.show(token),
        fence: fence.number(),
        acquired_at: acquired_at.into(),
        expires_at: expires_at.into(),
    }
}

fn detail(detail: locks::LockDetail, tokens: Tokens, now: Timestamp) -> Option<LockDetail> {
    let line = (1..).zip(detail.line).map(|(position, waiter)| {
        let Waiter { owner, mode, since, .. } = waiter;
        WaiterView { owner, mode, position, waiting_ms: millis(now.since(since)) }
    });
    Some(LockDetail { view: view(detail.view, tokens)?, line: line.collect() })
}

fn event_view(event: LockEvent, tokens: Tokens) -> LockEventView {
    let LockEvent { at, owner, mode, token, fence, end } = event;
    let (cause, by, reason) = match end {
        None => (LockCause::Acquired, None, None),
        Some(LockEnd::Released) => (LockCause::Released, None, None),
        Some(LockEnd::Expired) => (LockCause::Expired, None, None),
        Some(LockEnd::ForceReleased { by, reason }) => (LockCause::ForceReleased, Some(by), Some(reason)),
        Some(LockEnd::Withdrawn) => (LockCause::Withdrawn, None, None),
    };
    let kind = if cause == LockCause::Acquired { LockEventKind::Granted } else { LockEventKind::Ended };
    LockEventView {
        time: at.into(),
        event: kind,
        cause,
        owner,
        mode,
        token: tokens.show(token),
        fence: fence.number(),
        by,
        reason,
    }
}

/// Another owner holds the lock, or another request comes first.
fn held(resource: &Resource, busy: &Busy, wait_max: Duration) -> Refusal {
    let Busy { holder, held_for, position, is_line_full, .. } = busy;
    let state = why::lock(resource.as_str(), holder.as_ref().map(LockOwner::as_str), *held_for);
    let line = why::queue_position(*position, *is_line_full);
    let refusal = Refusal::new(Code::LockHeld, format!("{state}, and {line}"));
    refusal.retry_after(retry_after(busy, wait_max)).with(|problem| {
        problem.holder =
            Some(holder.as_ref().map_or(RefusedBy::Unknown, |owner| RefusedBy::Owner(owner.to_string())));
        problem.held_ms = Some(millis(*held_for));
        problem.position = Some(u64::from(*position));
    })
}

/// A lease that has lasted for a while may last as long again, and so may those of the requests before the caller's; but no
/// longer than until the lease expires. Jittered, so that not all clients retry at once.
fn retry_after(busy: &Busy, wait_max: Duration) -> Duration {
    let guess = busy.held_for.saturating_mul(busy.position);
    let known = busy.may_change_in.unwrap_or(wait_max);
    let wait = guess.min(known).max(RETRY_AFTER_MIN);
    wait.mul_f64(rand::random_range(1.0..=1.5)).min(wait_max)
}

fn over_quota(what: LockQuota, limit: u32, current: u32) -> Refusal {
    let sentence = match what {
        LockQuota::Held => format!("the tenant already holds {limit} locks, the maximum"),
        LockQuota::Waiting => {
            format!("the tenant already has {limit} waiting lock requests, the maximum")
        }
    };
    Refusal::new(Code::LockQuota, sentence).retry_after(spread()).with(|problem| {
        problem.limit = Some(interlock_api::problem::ReachedLimit::Cap(limit.into()));
        problem.current = Some(u64::from(current));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(held_for: u64, position: u32, may_change_in: Option<u64>) -> Busy {
        Busy {
            holder: None,
            held_for: Duration::from_millis(held_for),
            position,
            may_change_in: may_change_in.map(Duration::from_millis),
            is_line_full: false,
        }
    }

    #[test]
    fn the_retry_delay_follows_the_lease_and_the_queue_and_is_bounded() {
        let most = Duration::from_mins(1);
        let table = [
            // It was acquired just now.
            (busy(0, 1, Some(30_000)), 100..=150),
            // It may last as long again; three such before the caller.
            (busy(2_000, 3, None), 6_000..=9_000),
            // It expires before that.
            (busy(20_000, 1, Some(4_000)), 4_000..=6_000),
            // The wait is bounded.
            (busy(80_000_000, 2_000, None), 60_000..=60_000),
        ];
        for (busy, expected) in table {
            let wait = millis(retry_after(&busy, most));
            assert!(expected.contains(&wait), "{busy:?}: {wait}");
        }
    }
}
