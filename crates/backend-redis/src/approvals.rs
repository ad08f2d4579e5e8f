//! Approvals: requested by a run, resolved by a person.

use interlock_backend::Page;
use interlock_backend::verbs::{ListApprovals, ResolveApproval};
use interlock_model::approval::{Approval, ApprovalState, Resolution, Verdict};
use interlock_model::run::InboxEvent;

use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for ResolveApproval {
    fn script() -> &'static Script {
        script!("resolve_approval")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let (job, decision) = (&self.job, &self.decision);
        let verdict = match decision.verdict {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
        };
        let event = InboxEvent::Approval { job: job.clone(), decision: decision.clone() };
        Call::to::<Self>(&self.tenant)
            .of("approval", job)
            .with("job", job)
            .with("run", job.run)
            .with("verdict", verdict)
            .with("state", encode::json(&ApprovalState::Resolved(decision.clone())))
            .with("event", encode::json(&event))
    }

    fn read(&self, mut reply: Reply) -> Result<Resolution, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "recorded" => Ok(Resolution::Recorded),
            "already" => Ok(Resolution::AlreadySo),
            "otherwise" => Ok(Resolution::AlreadyOtherwise(reply.json("state")?)),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for ListApprovals {
    fn script() -> &'static Script {
        script!("list_approvals")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).page(&self.page)
    }

    fn read(&self, reply: Reply) -> Result<Page<Approval>, Unreadable> {
        reply.page(|item| item.into_json("approval"))
    }
}
