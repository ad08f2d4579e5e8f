//! Approvals.

use interlock_model::approval::{Decision, Verdict};

use super::sampled;
use crate::verbs::{ListApprovals, ResolveApproval};

sampled!(ResolveApproval, 4, |walk| {
    let (tenant, job) = walk.pick(|known| &known.approvals)?;
    let verdict = if walk.flip(0.5) { Verdict::Approved } else { Verdict::Rejected };
    let reason = walk.flip(0.5).then(|| "because".to_owned());
    Some(ResolveApproval { tenant, job, decision: Decision { verdict, by: walk.person(), reason } })
});

sampled!(
    ListApprovals,
    2,
    |walk| {
        let tenant = walk.tenant();
        let page = walk.page(&format!("approvals of {tenant}"));
        Some(ListApprovals { tenant, page })
    },
    |asked, answer, known| known.learn_page(format!("approvals of {}", asked.tenant), answer)
);
