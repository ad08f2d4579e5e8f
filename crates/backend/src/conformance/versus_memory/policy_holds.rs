//! Held jobs.

use std::num::NonZeroU32;
use std::time::Duration;

use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::dispatch_policy::{HoldReason, Throttle};
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::{deploy, name};
use super::{Walk, sampled};
use crate::policy_holds::{Settled, Settlement};
use crate::verbs::{AcquireHeldJobs, SettleHeldJob};

sampled!(AcquireHeldJobs, 3, |walk| {
    let (ahead, in_progress) = (walk.millis(0..300), walk.millis(0..900));
    Some(AcquireHeldJobs { tenant: walk.tenant(), ahead, in_progress, limit: walk.limit() })
});

sampled!(
    SettleHeldJob,
    5,
    |walk| {
        let (tenant, job) = walk.pick(|known| &known.held)?;
        let settlement = walk.settlement(&job);
        Some(SettleHeldJob { tenant, job, settlement })
    },
    |asked, answer, known| {
        if *answer == Settled::Asked {
            known.approvals.push((asked.tenant.clone(), asked.job.clone()));
        }
    }
);

impl Walk {
    fn settlement(&mut self, job: &JobId) -> Settlement {
        let message = self.flip(0.5).then(|| "it may".to_owned());
        let detail = format!("because {}", self.random.random_range(0..3));
        match self.random.random_range(0..7) {
            0 => Settlement::Release { message },
            1 => Settlement::Deny { reason: detail },
            2 | 3 => {
                let reason = self.one_of(&[HoldReason::PolicyUnavailable, HoldReason::PolicyThrottled]);
                Settlement::Wait { reason, detail, wait: self.millis(0..900) }
            }
            4 | 5 => {
                let dispatches = NonZeroU32::new(self.random.random_range(1..3)).expect("it is not zero");
                let throttle = Throttle { dispatches, period: Duration::from_millis(500) };
                Settlement::ReleaseWithin { rule: name(self.one_of(&["r", "s"])), throttle, detail, message }
            }
            _ => {
                let (requested_at, state) = (self.now(), ApprovalState::Open);
                let input = json!({"what": [1.50, {}]});
                let approval = Approval { job: job.clone(), workflow: deploy(), requested_at, input, state };
                Settlement::Ask { approval, detail }
            }
        }
    }
}
