//! Retry policies: looked at, changed and taken back while the server runs.

use axum::Json;
use axum::extract::State;
use interlock_api::Page;
use interlock_api::retry_policies::{RetryPolicyDetail, RetryPolicyView, RollbackRequest, SetPolicyRequest};
use interlock_control::rollouts::TuningChange;
use interlock_model::contention::Scope;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::{OptionalPayload, Payload};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 512;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/retry-policies", list)
        .get("/api/v1/retry-policies/{scope}", get)
        .put("/api/v1/retry-policies/{scope}", set)
        .post("/api/v1/retry-policies/{scope}/rollback", roll_back)
}

/// What is in force, in the store's words.
#[utoipa::path(get, path = "/api/v1/retry-policies", tag = "retry policies", params(interlock_api::PageQuery), responses(
    (status = 200, body = Page<RetryPolicyView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<RetryPolicyView>> {
    caller.may(Permission::ReadRest)?;
    // There are two, which fit on any page.
    parameters.page()?;
    let book = app.rollouts.book().await?;
    let view = |scope| convert::retry_policies::view(&app.rollouts.tuning_of(&book, scope));
    Ok(Json(Page::new(Scope::ALL.map(view).to_vec(), None)))
}

/// What is in force for a scope, and the changes that led to it.
#[utoipa::path(get, path = "/api/v1/retry-policies/{scope}", tag = "retry policies", params(("scope" = String, Path)),
    responses((status = 200, body = RetryPolicyDetail), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(scope): Named<Scope>,
) -> Answer<RetryPolicyDetail> {
    caller.may(Permission::ReadRest)?;
    let book = app.rollouts.book().await?;
    let in_force = app.rollouts.tuning_of(&book, scope);
    Ok(Json(convert::retry_policies::detail(&in_force, book.versions(scope))))
}

/// Puts a policy in force: here with the answer, on every other replica within a second.
#[utoipa::path(put, path = "/api/v1/retry-policies/{scope}", tag = "retry policies", params(("scope" = String, Path)),
    request_body = SetPolicyRequest, responses((status = 200, body = RetryPolicyView), Refusals))]
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    Named(scope): Named<Scope>,
    Payload(asked): Payload<SetPolicyRequest>,
) -> Answer<RetryPolicyView> {
    may_tune(&caller)?;
    let SetPolicyRequest { policy, max_wait_ms, lock_ttl_ms, expected_version, reason } = asked;
    let change = TuningChange { scope, policy, max_wait_ms, lock_ttl_ms, expected: expected_version };
    let set = app.rollouts.set_tuning(change, &caller.name, checked_reason(reason)?).await?;
    Ok(Json(convert::retry_policies::view(&set)))
}

/// Puts what was in force before back in force. Said again, it goes one further back.
#[utoipa::path(post, path = "/api/v1/retry-policies/{scope}/rollback", tag = "retry policies",
    params(("scope" = String, Path)), request_body = Option<RollbackRequest>, responses(
    (status = 200, body = RetryPolicyView), Refusals))]
pub(crate) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Named(scope): Named<Scope>,
    OptionalPayload(asked): OptionalPayload<RollbackRequest>,
) -> Answer<RetryPolicyView> {
    may_tune(&caller)?;
    let RollbackRequest { expected_version, reason } = asked;
    let reason = checked_reason(reason)?;
    let restored = app.rollouts.roll_back_tuning(scope, expected_version, &caller.name, reason).await?;
    Ok(Json(convert::retry_policies::view(&restored)))
}

/// What holds for every tenant is changed only by those who may change it for every tenant.
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
