//! Roll-outs of a policy for busy runs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::Page;
use interlock_api::rollouts::{EndRolloutRequest, RolloutView, StartRolloutRequest};
use interlock_control::rollouts::StartRollout;
use interlock_model::RolloutId;
use interlock_model::contention::{Rollout, Share};

use super::Answer;
use super::retry_policies::{checked_reason, may_tune};
use crate::auth::{Caller, Permission};
use crate::body::{OptionalPayload, Payload};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .post("/api/v1/rollouts", start)
        .get("/api/v1/rollouts", list)
        .get("/api/v1/rollouts/{id}", get)
        .post("/api/v1/rollouts/{id}/promote", promote)
        .post("/api/v1/rollouts/{id}/abort", abort)
}

/// Begins one. Only one runs at a time.
#[utoipa::path(post, path = "/api/v1/rollouts", tag = "rollouts", request_body = StartRolloutRequest, responses(
    (status = 201, body = RolloutView), Refusals))]
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<StartRolloutRequest>,
) -> Result<(StatusCode, Json<RolloutView>), Refusal> {
    may_tune(&caller)?;
    let StartRolloutRequest { candidate, share_percent, duration_ms, guards, reason } = asked;
    let start = StartRollout {
        candidate,
        share: Share::of_percent(share_percent).map_err(Refusal::invalid)?,
        duration: Duration::from_millis(duration_ms),
        guards,
    };
    let started = app.rollouts.start_rollout(start, &caller.name, checked_reason(reason)?).await?;
    Ok((StatusCode::CREATED, Json(convert::rollouts::view(started))))
}

/// The one that runs and the last that have ended, newest first.
#[utoipa::path(get, path = "/api/v1/rollouts", tag = "rollouts", params(interlock_api::PageQuery), responses(
    (status = 200, body = Page<RolloutView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<RolloutView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let book = app.rollouts.book().await?;
    // Their ids sort by the time of their start.
    let is_after =
        |rollout: &&Rollout| page.after.as_ref().is_none_or(|after| rollout.id.as_str() < after.as_str());
    let mut wanted: Vec<Rollout> =
        book.rollouts_newest_first().filter(is_after).take(page.limit.saturating_add(1)).cloned().collect();
    let has_more = wanted.len() > page.limit;
    wanted.truncate(page.limit);
    let next = wanted.last().filter(|_| has_more).map(|rollout| rollout.id.to_string());
    let mut items = Vec::with_capacity(wanted.len());
    for rollout in wanted {
        items.push(app.rollouts.with_figures(rollout).await?);
    }
    Ok(Json(convert::page(interlock_backend::Page { items, next }, convert::rollouts::view)))
}

/// One, with its two arms side by side.
#[utoipa::path(get, path = "/api/v1/rollouts/{id}", tag = "rollouts", params(("id" = String, Path)), responses(
    (status = 200, body = RolloutView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RolloutId>,
) -> Answer<RolloutView> {
    caller.may(Permission::ReadRest)?;
    Ok(Json(convert::rollouts::view(app.rollouts.rollout(&id).await?)))
}

/// Ends it, and puts its candidate in force.
#[utoipa::path(post, path = "/api/v1/rollouts/{id}/promote", tag = "rollouts", params(("id" = String, Path)),
    request_body = Option<EndRolloutRequest>, responses((status = 200, body = RolloutView), Refusals))]
pub(crate) async fn promote(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RolloutId>,
    OptionalPayload(asked): OptionalPayload<EndRolloutRequest>,
) -> Answer<RolloutView> {
    may_tune(&caller)?;
    let ended = app.rollouts.promote_rollout(&id, &caller.name, checked_reason(asked.reason)?).await?;
    Ok(Json(convert::rollouts::view(ended)))
}

/// Ends it, and leaves the control in force.
#[utoipa::path(post, path = "/api/v1/rollouts/{id}/abort", tag = "rollouts", params(("id" = String, Path)),
    request_body = Option<EndRolloutRequest>, responses((status = 200, body = RolloutView), Refusals))]
pub(crate) async fn abort(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RolloutId>,
    OptionalPayload(asked): OptionalPayload<EndRolloutRequest>,
) -> Answer<RolloutView> {
    may_tune(&caller)?;
    let ended = app.rollouts.abort_rollout(&id, &caller.name, checked_reason(asked.reason)?).await?;
    Ok(Json(convert::rollouts::view(ended)))
}
