//! Held jobs.

use std::num::NonZeroU32;
use std::time::Duration;

use interlock_model::approval::{Approval, ApprovalState, AskedBecause};
use interlock_model::budget::{Period, job_permit_id};
use interlock_model::dispatch_policy::{HoldReason, Throttle};
use interlock_model::{JobId, TenantId};
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::{deploy, name};
use super::{Walk, sampled};
use crate::policy_holds::{JobReservation, Settled, Settlement};
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
        let settlement = walk.reservation(&tenant, &job).unwrap_or_else(|| walk.settlement(&job));
        Some(SettleHeldJob { tenant, job, settlement })
    },
    |asked, answer, known| {
        if *answer == Settled::Asked {
            known.approvals.push((asked.tenant.clone(), asked.job.clone()));
        }
        if let (Settled::Released, Settlement::Reserve { reservation, .. }) = (answer, &asked.settlement) {
            let JobReservation { name, permit, .. } = reservation;
            known.permits.push((asked.tenant.clone(), name.clone(), permit.clone()));
        }
    }
);

impl Walk {
    /// Now and then a job reserves, mostly as its step and the budget say.
    fn reservation(&mut self, tenant: &TenantId, job: &JobId) -> Option<Settlement> {
        let (of, name, document, revision) = self.pick(|known| &known.budgets)?;
        if of != *tenant || self.flip(0.3) {
            return None;
        }
        let wall_lead = self.lead();
        let reservation = JobReservation {
            window: self.budget_window(&document, wall_lead)?,
            revision: if self.flip(0.05) { revision + 1 } else { revision },
            run: (document.per == Period::Run).then_some(job.run),
            group: self.budget_group((document.per == Period::Run).then_some(job.run)),
            permit: job_permit_id(tenant, &name, job),
            name,
            is_queued: self.flip(0.8),
            wall_lead,
        };
        let message = self.flip(0.5).then(|| "enough is left".to_owned());
        Some(Settlement::Reserve { reservation, message })
    }

    fn settlement(&mut self, job: &JobId) -> Settlement {
        let message = self.flip(0.5).then(|| "it may".to_owned());
        let detail = format!("because {}", self.random.random_range(0..3));
        match self.random.random_range(0..8) {
            0 => Settlement::Release { message },
            1 => Settlement::Deny { reason: detail },
            7 => Settlement::Exhaust { reason: detail },
            2 | 3 => {
                let reason = self.one_of(&[
                    HoldReason::PolicyUnavailable,
                    HoldReason::PolicyThrottled,
                    HoldReason::BudgetExhausted,
                ]);
                let acquired_until = self.flip(0.5).then(|| self.now());
                Settlement::Wait { reason, detail, wait: self.millis(0..900), acquired_until }
            }
            4 | 5 => {
                let dispatches = NonZeroU32::new(self.random.random_range(1..3)).expect("it is not zero");
                let throttle = Throttle { dispatches, period: Duration::from_millis(500) };
                Settlement::ReleaseWithin { rule: name(self.one_of(&["r", "s"])), throttle, detail, message }
            }
            _ => {
                let (requested_at, state) = (self.now(), ApprovalState::Open);
                let input = json!({"what": [1.50, {}]});
                let because = self.flip(0.5).then(|| AskedBecause { detail: detail.clone(), budget: None });
                let job = job.clone();
                let approval = Approval { job, workflow: deploy(), requested_at, input, state, because };
                Settlement::Ask { approval, detail }
            }
        }
    }
}
