//! Retry policies: shown, changed and rolled back while the server runs.

use interlock_api::retry_policies::{
    PolicyVersion, RetryPolicyDetail, RetryPolicyView, RollbackRequest, SetPolicyRequest, TuningView,
};
use interlock_control::contention::InForceView;
use interlock_control::rollouts::TuningChange;
use interlock_model::contention::{Scope, Tuning, Version};

use super::{
    Answer, Caller, Json, Named, OptionalPayload, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    endpoints,
};

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 512;

endpoints!("retry policies": list, get, set, roll_back);

/// The policies in force, as the store has them.
#[utoipa::path(get, path = "/api/v1/retry-policies", params(PageQuery),
    responses((status = 200, body = Page<RetryPolicyView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<RetryPolicyView>> {
    caller.may(Permission::ReadRest)?;
    // There are two, which fit on any page.
    parameters.page()?;
    let rollouts = &caller.app.stages.rollouts;
    let book = rollouts.book().await?;
    Ok(Json(Page::new(Scope::ALL.map(|scope| view(&rollouts.tuning_of(&book, scope))).to_vec(), None)))
}

/// The policy in force for a scope, and the changes that led to it.
#[utoipa::path(get, path = "/api/v1/retry-policies/{scope}", responses((status = 200, body = RetryPolicyDetail)))]
async fn get(caller: Caller, Named(scope): Named<Scope>) -> Answer<RetryPolicyDetail> {
    caller.may(Permission::ReadRest)?;
    let rollouts = &caller.app.stages.rollouts;
    let book = rollouts.book().await?;
    let versions = book.versions(scope).newest_first().cloned().map(version_view).collect();
    Ok(Json(RetryPolicyDetail { in_force: view(&rollouts.tuning_of(&book, scope)), versions }))
}

pub(super) fn view(in_force: &InForceView) -> RetryPolicyView {
    let Tuning { policy, max_wait_ms, lock_ttl_ms } = in_force.tuning;
    let version = in_force.version.as_ref();
    RetryPolicyView {
        scope: in_force.scope,
        policy,
        max_wait_ms,
        lock_ttl_ms,
        version: version.map_or(0, |version| version.number),
        by: version.map(|version| version.by.clone()),
        at: version.map(|version| version.at.into()),
        reason: version.and_then(|version| version.reason.clone()),
        restores: version.and_then(|version| version.restores),
    }
}

fn version_view(version: Version) -> PolicyVersion {
    let Version { number, tuning, by, at, reason, restores } = version;
    let tuning = tuning.map(|Tuning { policy, max_wait_ms, lock_ttl_ms }| TuningView {
        policy,
        max_wait_ms,
        lock_ttl_ms,
    });
    PolicyVersion { version: number, tuning, by, at: at.into(), reason, restores }
}

/// Puts a policy in force: here with the answer, on every other replica within a second.
#[utoipa::path(put, path = "/api/v1/retry-policies/{scope}", request_body = SetPolicyRequest,
    responses((status = 200, body = RetryPolicyView),
    (status = 409, description = "Another version is in force, or a rollout is running (`conflict`)")))]
async fn set(
    caller: Caller,
    Named(scope): Named<Scope>,
    Payload(request): Payload<SetPolicyRequest>,
) -> Answer<RetryPolicyView> {
    may_tune(&caller)?;
    let SetPolicyRequest { policy, max_wait_ms, lock_ttl_ms, expected_version, reason } = request;
    let change = TuningChange { scope, policy, max_wait_ms, lock_ttl_ms, expected: expected_version };
    let reason = checked_reason(reason)?;
    Ok(Json(view(&caller.app.stages.rollouts.set_tuning(change, &caller.name, reason).await?)))
}

/// Restores the policy that was in force before. Repeated, it goes one further back.
#[utoipa::path(post, path = "/api/v1/retry-policies/{scope}/rollback", request_body = Option<RollbackRequest>,
    responses((status = 200, body = RetryPolicyView),
    (status = 409, description = "Another version is in force, none was before, or a rollout is running (`conflict`)")))]
async fn roll_back(
    caller: Caller,
    Named(scope): Named<Scope>,
    OptionalPayload(request): OptionalPayload<RollbackRequest>,
) -> Answer<RetryPolicyView> {
    may_tune(&caller)?;
    let reason = checked_reason(request.reason)?;
    let rollouts = &caller.app.stages.rollouts;
    let restored = rollouts.roll_back_tuning(scope, request.expected_version, &caller.name, reason).await?;
    Ok(Json(view(&restored)))
}

/// A policy holds for every tenant: the caller's key must cover all of them.
pub(super) fn may_tune(caller: &Caller) -> Result<(), Refusal> {
    caller.may(Permission::Tune)?;
    caller.covers_all()
}

pub(super) fn checked_reason(reason: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(reason) = reason else { return Ok(None) };
    if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) {
        return Err(Refusal::invalid(format!("reason: 1 to {REASON_CHARS_MAX} characters")));
    }
    Ok(Some(reason))
}
