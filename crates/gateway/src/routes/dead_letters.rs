//! Dead letters: listed, retried, deleted.

use interlock_api::Code;
use interlock_api::dead_letters::{
    DeadLetterView, DeadLettersAnswer, DeadLettersRequest, RefusedDeadLetter, RetriedDeadLetter,
};
use interlock_backend::dead_letters::DeadLetterRetry;
use interlock_backend::verbs::{ListDeadLetters, ReadDeadLetter};
use interlock_control::dead_letters::{Sweep, SweepAction, Swept, why_not_retried};
use interlock_model::JobId;
use interlock_model::dead_letter::{DeadLetter, LetterCode, LetterFilter};
use interlock_model::job::JobOutcome;
use serde_json::{Value, json};

use super::{
    Answer, Caller, Json, Named, NoAnswer, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, bounded, endpoints, page_of,
};

/// Dead letters that one call handles by default, and at most.
const BATCH_DEFAULT: u32 = 100;
const BATCH_MAX: u64 = 500;

endpoints!("dead letters": list, get, delete, retry, retry_many, delete_many);

/// Jobs that failed for the last time, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/dlq", params(PageQuery), responses((status = 200, body = Page<DeadLetterView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<DeadLetterView>> {
    caller.may(Permission::ReadRest)?;
    let page = parameters.page()?;
    let found = caller.app.store.call(ListDeadLetters { tenant: caller.tenant, page }).await?;
    // A result may be long.
    Ok(page_of(found, |dead_letter| view(DeadLetter { result: None, ..dead_letter })))
}

#[utoipa::path(get, path = "/api/v1/dlq/{job_id}", responses((status = 200, body = DeadLetterView)))]
async fn get(caller: Caller, Named(job): Named<JobId>) -> Answer<DeadLetterView> {
    caller.may_for_run(Permission::ReadRest, job.run).await?;
    let Caller { app, tenant, .. } = caller;
    let found = app.store.call(ReadDeadLetter { tenant: tenant.clone(), job: job.clone() }).await?;
    let found = found.ok_or_else(|| Refusal::not_found("dead letter", &job.to_string()))?;
    let retry = app.stages.dead_letters.may_retry(&tenant, job.run).await?;
    Ok(Json(DeadLetterView { how_to_retry: Some(how_to_retry(&job, retry)), ..view(found) }))
}

fn view(dead_letter: DeadLetter) -> DeadLetterView {
    let DeadLetter { job, topic, code, reason, attempts, last_error, buried_at, result } = dead_letter;
    DeadLetterView {
        run_id: job.run,
        job_id: job,
        topic,
        reason,
        reason_code: code.name().to_owned(),
        attempts,
        last_error,
        created_at: buried_at.into(),
        result: result.and_then(result_view),
        how_to_retry: None,
    }
}

/// The result as the worker sent it.
fn result_view(result: JobOutcome) -> Option<Value> {
    match result {
        JobOutcome::Completed { output, .. } => Some(json!({"output": output})),
        JobOutcome::Failed { error, retryable, .. } => Some(json!({"error": error, "retryable": retryable})),
        JobOutcome::Lost
        | JobOutcome::TimedOut
        | JobOutcome::Unclaimed
        | JobOutcome::Released { .. }
        | JobOutcome::Cancelled { .. }
        | JobOutcome::Denied { .. }
        | JobOutcome::Exhausted { .. } => None,
    }
}

/// What an operator can do for another attempt.
fn how_to_retry(job: &JobId, retry: DeadLetterRetry) -> String {
    match retry {
        DeadLetterRetry::Posted => format!("interlock dlq retry '{job}'"),
        DeadLetterRetry::RunEnded => format!(
            "the run has ended: interlock run rerun {} (with --from-step {}, what came before is kept)",
            job.run, job.step.step
        ),
        DeadLetterRetry::RunGone => "the run is deleted: start another".to_owned(),
    }
}

/// Deletes the dead letter. The job and its run stay as they are.
#[utoipa::path(delete, path = "/api/v1/dlq/{job_id}", responses((status = 204, description = "Deleted")))]
async fn delete(caller: Caller, Named(job): Named<JobId>) -> NoAnswer {
    caller.may_for_run(Permission::HandleDeadLetters, job.run).await?;
    caller.app.stages.dead_letters.delete(&caller.tenant, &job).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts another attempt of the step in the same run: a new job with a larger fence. That deletes the dead letter, so a
/// second request is answered with 404.
#[utoipa::path(post, path = "/api/v1/dlq/{job_id}/retry", responses((status = 200, body = RetriedDeadLetter),
    (status = 409, description = "The run has ended or was deleted (`conflict`)")))]
async fn retry(caller: Caller, Named(job): Named<JobId>) -> Answer<RetriedDeadLetter> {
    caller.may_for_run(Permission::HandleDeadLetters, job.run).await?;
    let retry = caller.app.stages.dead_letters.retry(&caller.tenant, &job, &caller.name).await?;
    match why_not_retried(retry, job.run) {
        None => Ok(Json(RetriedDeadLetter { job_id: job })),
        Some(reason) => Err(Refusal::new(Code::Conflict, reason)),
    }
}

/// Retries all dead letters that match. One that is refused does not stop the others.
#[utoipa::path(post, path = "/api/v1/dlq/retry", request_body = DeadLettersRequest,
    responses((status = 200, body = DeadLettersAnswer)))]
async fn retry_many(
    caller: Caller,
    Payload(request): Payload<DeadLettersRequest>,
) -> Answer<DeadLettersAnswer> {
    let action = SweepAction::Retry { by: caller.name.clone() };
    sweep(caller, action, request).await
}

/// Deletes all dead letters that match.
#[utoipa::path(post, path = "/api/v1/dlq/delete", request_body = DeadLettersRequest,
    responses((status = 200, body = DeadLettersAnswer)))]
async fn delete_many(
    caller: Caller,
    Payload(request): Payload<DeadLettersRequest>,
) -> Answer<DeadLettersAnswer> {
    sweep(caller, SweepAction::Delete, request).await
}

/// To the end, even if the client disconnects: half of it would be done, and nothing would say which half.
async fn sweep(
    caller: Caller,
    action: SweepAction,
    request: DeadLettersRequest,
) -> Answer<DeadLettersAnswer> {
    caller.may(Permission::HandleDeadLetters)?;
    let limit = request.limit.unwrap_or(BATCH_DEFAULT);
    bounded("limit", limit.into(), (1, BATCH_MAX))?;
    let is_dry = request.dry_run;
    let sweep = Sweep { action, limit: limit as usize, is_dry, filter: filter(request)? };
    let Caller { app, tenant, .. } = caller;
    let dead_letters = app.stages.dead_letters.clone();
    let swept = app.to_the_end(async move { dead_letters.sweep(&tenant, &sweep).await }).await?;
    let Swept { done, refused, has_more } = swept;
    let refused: Vec<_> =
        refused.into_iter().map(|(job_id, reason)| RefusedDeadLetter { job_id, reason }).collect();
    let matched = (done.len() + refused.len()) as u64;
    Ok(Json(DeadLettersAnswer { matched, done, refused, dry_run: is_dry, more: has_more }))
}

/// An empty filter would match everything: that needs `all`.
fn filter(request: DeadLettersRequest) -> Result<LetterFilter, Refusal> {
    let DeadLettersRequest { reason_code, topic, run_id, before, all, dry_run: _, limit: _ } = request;
    let code = reason_code.map(|name| {
        let found = LetterCode::ALL.into_iter().find(|code| code.name() == name);
        let known = LetterCode::ALL.map(LetterCode::name).join(" or ");
        found.ok_or_else(|| Refusal::invalid(format!("reason_code must be {known}")))
    });
    let filter =
        LetterFilter { code: code.transpose()?, topic, run: run_id, before: before.map(|before| before.0) };
    if all == (filter != LetterFilter::default()) {
        return Err(Refusal::invalid(
            "name the dead letters by reason_code, topic, run_id or before; or all of them by \"all\": true alone",
        ));
    }
    Ok(filter)
}
