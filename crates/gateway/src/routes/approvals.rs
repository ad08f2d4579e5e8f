//! Approvals: listed, approved, rejected.

use std::collections::BTreeMap;

use interlock_api::Code;
use interlock_api::approvals::{ApprovalView, AskedBudgetView, ResolvedApproval, VerdictRequest};
use interlock_backend::verbs::ListApprovals;
use interlock_control::budget_questions::{BudgetQuestion, question};
use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState, Decision, Resolution, Verdict};

use super::{
    Answer, Caller, Json, Named, OptionalPayload, Page, PageQuery, Parameters, Permission, Refusal,
    bounded_text, endpoints, page_of,
};

const REASON_CHARS_MAX: usize = 4_096;

endpoints!("approvals": list, approve, reject);

/// The open ones, those of the newest runs first.
#[utoipa::path(get, path = "/api/v1/approvals", params(PageQuery),
    responses((status = 200, body = Page<ApprovalView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<ApprovalView>> {
    caller.may_list(Permission::ReadRest)?;
    let page = parameters.page()?;
    let found = caller.app.store.call(ListApprovals { tenant: caller.tenant.clone(), page }).await?;
    let seen = caller.seen(found, |approval| &approval.workflow);
    let mut budgets = BTreeMap::new();
    for approval in &seen.items {
        let asked = approval.because.as_ref().and_then(|because| because.budget.clone());
        let Some(asked) = asked else { continue };
        if let Some(question) = question(&caller.app.stages.process, &caller.tenant, asked).await? {
            budgets.insert(approval.job.clone(), question);
        }
    }
    Ok(page_of(seen, |approval| {
        let budget = budgets.remove(&approval.job);
        view(approval, budget)
    }))
}

fn view(approval: Approval, budget: Option<BudgetQuestion>) -> ApprovalView {
    let Approval { job, workflow, requested_at, input, state: _, because } = approval;
    let now = budget.as_ref().map(|question| question.sentence.clone());
    ApprovalView {
        detail: now.or_else(|| because.map(|because| because.detail)),
        budget: budget.map(budget_view),
        run_id: job.run,
        step_id: job.step.clone(),
        job_id: job,
        workflow_id: workflow,
        requested_at: requested_at.into(),
        input,
    }
}

fn budget_view(question: BudgetQuestion) -> AskedBudgetView {
    let BudgetQuestion { asked, unit, limit, remaining, resets_at, sentence: _ } = question;
    AskedBudgetView {
        key: asked.group.key(),
        name: asked.name,
        unit,
        reserve: asked.reserve.to_string(),
        remaining: remaining.to_string(),
        limit: limit.to_string(),
        resets_at: resets_at.map(Into::into),
    }
}

/// Lets the step continue. The same verdict again gets the same answer.
#[utoipa::path(post, path = "/api/v1/approvals/{job_id}/approve", request_body = Option<VerdictRequest>,
    responses((status = 200, body = ResolvedApproval),
    (status = 409, description = "Resolved otherwise before (`approval_already_resolved`)")))]
async fn approve(
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(request): OptionalPayload<VerdictRequest>,
) -> Answer<ResolvedApproval> {
    resolve(caller, job, Verdict::Approved, request.reason).await
}

/// Ends the run as `denied`.
#[utoipa::path(post, path = "/api/v1/approvals/{job_id}/reject", request_body = Option<VerdictRequest>,
    responses((status = 200, body = ResolvedApproval),
    (status = 409, description = "Resolved otherwise before (`approval_already_resolved`)")))]
async fn reject(
    caller: Caller,
    Named(job): Named<JobId>,
    OptionalPayload(request): OptionalPayload<VerdictRequest>,
) -> Answer<ResolvedApproval> {
    resolve(caller, job, Verdict::Rejected, request.reason).await
}

async fn resolve(
    caller: Caller,
    job: JobId,
    verdict: Verdict,
    reason: Option<String>,
) -> Answer<ResolvedApproval> {
    caller.may_for_run(Permission::Approve, job.run).await?;
    bounded_text("reason", reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX)?;
    let Caller { app, tenant, name, .. } = caller;
    let decision = Decision { verdict, by: name, reason };
    let (runs, id) = (app.stages.runs.clone(), job.clone());
    let resolve = async move { runs.resolve_approval(&tenant, &id, decision).await };
    match app.to_the_end(resolve).await? {
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
        ApprovalState::Withdrawn => "was withdrawn: its step or run has ended".to_owned(),
    }
}
