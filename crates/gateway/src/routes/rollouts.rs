//! Rollouts of a policy for busy runs.

use std::time::Duration;

use interlock_api::rollouts::{
    ArmView, EndRolloutRequest, RolloutEventView, RolloutView, StartRolloutRequest,
};
use interlock_api::status::RolloutStatus;
use interlock_control::rollouts::{RolloutDetail, StartRollout};
use interlock_model::RolloutId;
use interlock_model::contention::RolloutEventKind::{Aborted, Promoted};
use interlock_model::contention::{Arm, ArmSummary, Rollout, RolloutEvent, Share};

use super::retry_policies::{checked_reason, may_tune};
use super::{
    Answer, Caller, Json, Named, OptionalPayload, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, endpoints, first_page, page_of,
};

endpoints!("rollouts": start, list, get, promote, abort);

/// Starts a rollout. Only one runs at a time.
#[utoipa::path(post, path = "/api/v1/rollouts", request_body = StartRolloutRequest,
    responses((status = 201, body = RolloutView),
    (status = 409, description = "Another rollout is running (`conflict`)")))]
async fn start(
    caller: Caller,
    Payload(request): Payload<StartRolloutRequest>,
) -> Result<(StatusCode, Json<RolloutView>), Refusal> {
    may_tune(&caller)?;
    let StartRolloutRequest { candidate, share_percent, duration_ms, guards, reason } = request;
    let start = StartRollout {
        candidate,
        share: Share::of_percent(share_percent).map_err(Refusal::invalid)?,
        duration: Duration::from_millis(duration_ms),
        guards,
    };
    let rollouts = &caller.app.stages.rollouts;
    let started = rollouts.start_rollout(start, &caller.name, checked_reason(reason)?).await?;
    Ok((StatusCode::CREATED, Json(view(started))))
}

/// The running rollout and the last ones that have ended, newest first.
#[utoipa::path(get, path = "/api/v1/rollouts", params(PageQuery), responses((status = 200, body = Page<RolloutView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<RolloutView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let rollouts = &caller.app.stages.rollouts;
    let book = rollouts.book().await?;
    // Their ids sort by the time of their start.
    let is_after =
        |rollout: &&Rollout| page.after.as_ref().is_none_or(|after| rollout.id.as_str() < after.as_str());
    let newest: Vec<Rollout> = book.rollouts_newest_first().filter(is_after).cloned().collect();
    let interlock_backend::Page { items, next } =
        first_page(newest, page.limit, |rollout| rollout.id.to_string());
    let mut details = Vec::with_capacity(items.len());
    for rollout in items {
        details.push(rollouts.with_figures(rollout).await?);
    }
    Ok(page_of(interlock_backend::Page { items: details, next }, view))
}

/// A rollout with its two arms side by side.
#[utoipa::path(get, path = "/api/v1/rollouts/{id}", responses((status = 200, body = RolloutView)))]
async fn get(caller: Caller, Named(id): Named<RolloutId>) -> Answer<RolloutView> {
    caller.may(Permission::ReadRest)?;
    Ok(Json(view(caller.app.stages.rollouts.rollout(&id).await?)))
}

/// Ends the rollout, and puts its candidate in force.
#[utoipa::path(post, path = "/api/v1/rollouts/{id}/promote", request_body = Option<EndRolloutRequest>,
    responses((status = 200, body = RolloutView),
    (status = 409, description = "It has ended (`conflict`)")))]
async fn promote(
    caller: Caller,
    Named(id): Named<RolloutId>,
    OptionalPayload(request): OptionalPayload<EndRolloutRequest>,
) -> Answer<RolloutView> {
    may_tune(&caller)?;
    let reason = checked_reason(request.reason)?;
    Ok(Json(view(caller.app.stages.rollouts.end_rollout(&id, Promoted, &caller.name, reason).await?)))
}

/// Ends the rollout, and leaves the control in force.
#[utoipa::path(post, path = "/api/v1/rollouts/{id}/abort", request_body = Option<EndRolloutRequest>,
    responses((status = 200, body = RolloutView),
    (status = 409, description = "It has ended (`conflict`)")))]
async fn abort(
    caller: Caller,
    Named(id): Named<RolloutId>,
    OptionalPayload(request): OptionalPayload<EndRolloutRequest>,
) -> Answer<RolloutView> {
    may_tune(&caller)?;
    let reason = checked_reason(request.reason)?;
    Ok(Json(view(caller.app.stages.rollouts.end_rollout(&id, Aborted, &caller.name, reason).await?)))
}

fn view(detail: RolloutDetail) -> RolloutView {
    let RolloutDetail { rollout, control, candidate, verdict, note } = detail;
    RolloutView {
        state: rollout.state,
        verdict,
        note: note.map(str::to_owned),
        share_percent: rollout.share.percent(),
        control_version: rollout.control_version,
        guards: rollout.guards,
        started_at: rollout.started_at.into(),
        ends_at: rollout.ends_at.into(),
        ended_at: rollout.ended_at.map(Into::into),
        by: starter(&rollout),
        arms: vec![
            arm_view(&rollout, Arm::Control, &control),
            arm_view(&rollout, Arm::Candidate, &candidate),
        ],
        id: rollout.id,
        history: rollout.history.into_iter().map(event_view).collect(),
    }
}

pub(super) fn status(rollout: &Rollout) -> RolloutStatus {
    RolloutStatus {
        id: rollout.id.to_string(),
        share_percent: rollout.share.percent(),
        candidate: rollout.candidate.policy.to_string(),
        by: starter(rollout),
        ends_at: rollout.ends_at.into(),
    }
}

fn starter(rollout: &Rollout) -> String {
    rollout.history.first().map(|event| event.by.clone()).unwrap_or_default()
}

fn arm_view(rollout: &Rollout, arm: Arm, summary: &ArmSummary) -> ArmView {
    ArmView {
        arm,
        policy: rollout.tuning(arm).policy,
        results: summary.results,
        retries: summary.retries,
        outstanding: summary.outstanding,
        has_enough_samples: summary.has_enough,
        retries_per_minute: summary.retries_per_minute,
        retries_per_result: summary.retries_per_result,
        lock_wait_p95_ms: summary.lock_wait_p95_ms,
        lock_wait_p99_ms: summary.lock_wait_p99_ms,
        result_latency_p95_ms: summary.result_latency_p95_ms,
        first_retry_success: summary.first_retry_success,
    }
}

fn event_view(event: RolloutEvent) -> RolloutEventView {
    let RolloutEvent { kind, at, by, why } = event;
    RolloutEventView { time: at.into(), event: kind, by, why }
}
