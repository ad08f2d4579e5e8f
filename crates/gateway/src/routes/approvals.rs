//! Approvals: looked at, answered.

use axum::Json;
use axum::extract::State;
use interlock_api::approvals::{ApprovalView, ResolvedApproval, VerdictRequest};
use interlock_api::{Code, Page, PageQuery};
use interlock_backend::verbs::ListApprovals;
use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState, Decision, Resolution, Verdict};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::OptionalPayload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

const REASON_CHARS_MAX: usize = 4_096;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/approvals", list)
        .post("/api/v1/approvals/{job_id}/approve", approve)
        .post("/api/v1/approvals/{job_id}/reject", reject)
}

/// The open ones, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", params(PageQuery), responses(
    (status = 200, body = Page<ApprovalView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<ApprovalView>> {
    caller.may(Permission::ReadRest)?;
    let page = app
        .store
        .call(ListApprovals { tenant: caller.tenant.clone(), page: parameters.page()?.clone() })
        .await?;
    Ok(Json(convert::page(page, view)))
}

fn view(approval: Approval) -> ApprovalView {
    let Approval { job, workflow, requested_at, input, state: _ } = approval;
    ApprovalView {
        run_id: job.run,
        step_id: job.step.clone(),
        job_id: job,
        workflow_id: workflow,
        requested_at: requested_at.into(),
        input,
    }
}

/// Lets the step go on. The same verdict again: the same answer.
#[utoipa::path(post, path = "/api/v1/approvals/{job_id}/approve", tag = "approvals",
    params(("job_id" = String, Path)), request_body = Option<VerdictRequest>,
    responses((status = 200, body = ResolvedApproval), Refusals))]
pub(crate) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(said): OptionalPayload<VerdictRequest>,
) -> Answer<ResolvedApproval> {
    resolve(&app, caller, job, (Verdict::Approved, said)).await
}

/// Ends the run as `denied`.
#[utoipa::path(post, path = "/api/v1/approvals/{job_id}/reject", tag = "approvals",
    params(("job_id" = String, Path)), request_body = Option<VerdictRequest>,
    responses((status = 200, body = ResolvedApproval), Refusals))]
pub(crate) async fn reject(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(said): OptionalPayload<VerdictRequest>,
) -> Answer<ResolvedApproval> {
    resolve(&app, caller, job, (Verdict::Rejected, said)).await
}

async fn resolve(
    app: &App,
    caller: Caller,
    job: JobId,
    (verdict, said): (Verdict, VerdictRequest),
) -> Answer<ResolvedApproval> {
    caller.may(Permission::Approve)?;
    if said.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Refusal::invalid(format!("reason is too long: at most {REASON_CHARS_MAX} characters")));
    }
    let Caller { tenant, name, .. } = caller;
    let decision = Decision { verdict, by: name, reason: said.reason };
    let (runs, asked) = (app.runs.clone(), job.clone());
    let resolution =
        app.to_the_end(async move { Ok(runs.resolve_approval(&tenant, &asked, decision).await?) }).await?;
    match resolution {
        Resolution::Recorded | Resolution::AlreadySo => Ok(Json(ResolvedApproval { job_id: job })),
        Resolution::AlreadyOtherwise(state) => {
            Err(Refusal::new(Code::ApprovalAlreadyResolved, format!("{job} {}", so_far(&state))))
        }
    }
}

fn so_far(state: &ApprovalState) -> String {
    match state {
        ApprovalState::Open => "is still open".to_owned(),
        ApprovalState::Resolved(Decision { verdict: Verdict::Approved, by, .. }) => {
            format!("was approved by {by}")
        }
        ApprovalState::Resolved(Decision { verdict: Verdict::Rejected, by, .. }) => {
            format!("was rejected by {by}")
        }
        ApprovalState::Withdrawn => "is no longer asked: its step or run has ended".to_owned(),
    }
}
