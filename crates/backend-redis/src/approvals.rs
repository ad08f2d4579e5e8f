//! Approvals: asked by a run, answered by a person.

use async_trait::async_trait;
use interlock_backend::approvals::ApprovalStore;
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::approval::{Approval, ApprovalState, Decision, Resolution, Verdict};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, TenantId};

use crate::script::Call;
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl ApprovalStore for RedisStore {
    async fn resolve(
        &self,
        tenant: &TenantId,
        job: &JobId,
        decision: Decision,
    ) -> Result<Resolution, StoreError> {
        let verdict = match decision.verdict {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
        };
        let state = encode::json(&ApprovalState::Resolved(decision.clone()));
        let event = encode::json(&InboxEvent::Approval { job: job.clone(), decision });
        let call = Call::write(&scripts::RESOLVE, "resolve an approval", tenant).of("approval", job);
        let call = call.with(job.to_string()).with(job.run.to_string()).with(verdict).with(state).with(event);
        self.ask(call, |mut fields| match fields.text()?.as_str() {
            "recorded" => Ok(Resolution::Recorded),
            "already" => Ok(Resolution::AlreadySo),
            "otherwise" => Ok(Resolution::AlreadyOtherwise(fields.json("state of an approval")?)),
            _ => Err(fields.unreadable("resolution")),
        })
        .await
    }

    async fn approvals(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<Approval>, StoreError> {
        let call = Call::read(&scripts::APPROVALS, "list approvals", tenant);
        let call = call.with(page.after.as_deref()).with(page.limit);
        self.ask(call, |fields| fields.page(|item| item.json("approval"))).await
    }
}
