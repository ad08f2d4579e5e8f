//! Dead letters: looked at, retried, deleted.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::dead_letters::{
    DeadLetterView, DeadLettersAnswer, DeadLettersRequest, RefusedDeadLetter, RetriedDeadLetter,
};
use interlock_api::{Code, Page, PageQuery};
use interlock_backend::verbs::{ListDeadLetters, ReadDeadLetter};
use interlock_control::dead_letters::{Sweep, SweepAction, Swept, why_not_retried};
use interlock_model::JobId;
use interlock_model::dead_letter::{LetterCode, LetterFilter};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::bounds::bounded;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

/// Letters that one call handles, where it does not say, and at most.
const LETTERS_DEFAULT: u32 = 100;
const LETTERS_MAX: u64 = 500;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/dlq", list)
        .get("/api/v1/dlq/{job_id}", get)
        .delete("/api/v1/dlq/{job_id}", delete)
        .post("/api/v1/dlq/{job_id}/retry", retry)
        .post("/api/v1/dlq/retry", retry_many)
        .post("/api/v1/dlq/delete", delete_many)
}

/// Jobs that were given up on, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/dlq", tag = "dead letters", params(PageQuery), responses(
    (status = 200, body = Page<DeadLetterView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<DeadLetterView>> {
    caller.may(Permission::ReadRest)?;
    let page = app
        .store
        .call(ListDeadLetters { tenant: caller.tenant.clone(), page: parameters.page()?.clone() })
        .await?;
    Ok(Json(convert::page(page, convert::dead_letters::summary)))
}

#[utoipa::path(get, path = "/api/v1/dlq/{job_id}", tag = "dead letters", params(("job_id" = String, Path)),
    responses((status = 200, body = DeadLetterView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
) -> Answer<DeadLetterView> {
    caller.may(Permission::ReadRest)?;
    let found = app.store.call(ReadDeadLetter { tenant: caller.tenant.clone(), job: job.clone() }).await?;
    let found = found.ok_or_else(|| Refusal::not_found("dead letter", &job.to_string()))?;
    let retry = app.dead_letters.may_retry(&caller.tenant, job.run).await?;
    let how_to_retry = Some(convert::dead_letters::how_to_retry(&job, retry));
    Ok(Json(DeadLetterView { how_to_retry, ..convert::dead_letters::view(found) }))
}

/// Forgets the letter. The job and its run stay as they are.
#[utoipa::path(delete, path = "/api/v1/dlq/{job_id}", tag = "dead letters", params(("job_id" = String, Path)),
    responses((status = 204, description = "Deleted"), Refusals))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::HandleLetters)?;
    app.dead_letters.delete(&caller.tenant, &job).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Another attempt of the letter's step in the same run: a new job with a larger fence. The letter is gone then, so asking
/// twice is one attempt; the second is answered with 404.
#[utoipa::path(post, path = "/api/v1/dlq/{job_id}/retry", tag = "dead letters", params(("job_id" = String, Path)),
    responses((status = 200, body = RetriedDeadLetter), Refusals))]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
) -> Answer<RetriedDeadLetter> {
    caller.may(Permission::HandleLetters)?;
    let retry = app.dead_letters.retry(&caller.tenant, &job, &caller.name).await?;
    match why_not_retried(retry, job.run) {
        None => Ok(Json(RetriedDeadLetter { job_id: job })),
        Some(reason) => Err(Refusal::new(Code::Conflict, reason)),
    }
}

/// Retries all letters that fit. One that is refused does not stop the others.
#[utoipa::path(post, path = "/api/v1/dlq/retry", tag = "dead letters", request_body = DeadLettersRequest,
    responses((status = 200, body = DeadLettersAnswer), Refusals))]
pub(crate) async fn retry_many(
    State(app): State<App>,
    caller: Caller,
    Payload(which): Payload<DeadLettersRequest>,
) -> Answer<DeadLettersAnswer> {
    let action = SweepAction::Retry { by: caller.name.clone() };
    sweep(&app, caller, action, which).await
}

/// Deletes all letters that fit.
#[utoipa::path(post, path = "/api/v1/dlq/delete", tag = "dead letters", request_body = DeadLettersRequest,
    responses((status = 200, body = DeadLettersAnswer), Refusals))]
pub(crate) async fn delete_many(
    State(app): State<App>,
    caller: Caller,
    Payload(which): Payload<DeadLettersRequest>,
) -> Answer<DeadLettersAnswer> {
    sweep(&app, caller, SweepAction::Delete, which).await
}

/// To its end, even if the client hangs up: what was done would be told to nobody.
async fn sweep(
    app: &App,
    caller: Caller,
    action: SweepAction,
    which: DeadLettersRequest,
) -> Answer<DeadLettersAnswer> {
    caller.may(Permission::HandleLetters)?;
    let limit = which.limit.unwrap_or(LETTERS_DEFAULT);
    bounded("limit", limit.into(), (1, LETTERS_MAX))?;
    let sweep = Sweep { action, limit: limit as usize, is_dry: which.dry_run, filter: filter(which)? };
    let dead_letters = app.dead_letters.clone();
    let is_dry = sweep.is_dry;
    let swept = app.to_the_end(async move { Ok(dead_letters.sweep(&caller.tenant, &sweep).await?) }).await?;
    let Swept { done, refused, has_more } = swept;
    let refused: Vec<_> =
        refused.into_iter().map(|(job_id, reason)| RefusedDeadLetter { job_id, reason }).collect();
    let matched = (done.len() + refused.len()) as u64;
    Ok(Json(DeadLettersAnswer { matched, done, refused, dry_run: is_dry, more: has_more }))
}

/// An empty filter would mean everything: that has to be said.
fn filter(which: DeadLettersRequest) -> Result<LetterFilter, Refusal> {
    let DeadLettersRequest { reason_code, topic, run_id, before, all, dry_run: _, limit: _ } = which;
    let code = reason_code.map(|name| {
        let found = LetterCode::ALL.into_iter().find(|code| code.name() == name);
        let known = LetterCode::ALL.map(LetterCode::name).join(" or ");
        found.ok_or_else(|| Refusal::invalid(format!("reason_code must be {known}")))
    });
    let filter =
        LetterFilter { code: code.transpose()?, topic, run: run_id, before: before.map(|before| before.0) };
    if all == (filter != LetterFilter::default()) {
        return Err(Refusal::invalid(
            "say which letters: reason_code, topic, run_id or before; or \"all\": true, alone",
        ));
    }
    Ok(filter)
}
