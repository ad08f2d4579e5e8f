//! Held jobs.

use std::num::NonZeroU32;
use std::time::Duration;

use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::dispatch_policy::{HeldJob, HoldReason, Throttle};
use interlock_model::job::NewJob;
use interlock_model::{Clock as _, JobId, TenantId};
use rand::RngExt;
use serde_json::json;

use super::super::scene::{deploy, name};
use super::Walk;
use crate::holds::{Settlement, TakeHeld};

impl Walk {
    /// A third of the dispatches are held.
    pub(super) fn perhaps_held(&mut self, tenant: &TenantId, dispatched: &mut Vec<NewJob>) -> Vec<HeldJob> {
        if !self.random.random_bool(0.3) {
            return Vec::new();
        }
        let held: Vec<HeldJob> =
            dispatched.drain(..).map(|job| HeldJob { job, detail: "to be asked".to_owned() }).collect();
        self.held.extend(held.iter().map(|held| (tenant.clone(), held.job.id.clone())));
        held
    }

    pub(super) async fn settle_something(&mut self) {
        if self.random.random_bool(0.4) {
            let mut millis = |longest| Duration::from_millis(self.random.random_range(0..longest));
            let (ahead, in_hand) = (millis(300), millis(900));
            let (tenant, limit) = (self.tenant(), self.random.random_range(1..4));
            let _ = same!(self, take_held(&TakeHeld { tenant: tenant.clone(), ahead, in_hand, limit }));
            return;
        }
        let Some((tenant, job)) = Self::pick(&mut self.random, &self.held) else { return };
        let settlement = self.a_settlement(&tenant, &job);
        let _ = same!(self, settle_held(&tenant, &job, &settlement));
    }

    fn a_settlement(&mut self, tenant: &TenantId, job: &JobId) -> Settlement {
        let told = self.random.random_bool(0.5).then(|| "it may".to_owned());
        let wait = Duration::from_millis(self.random.random_range(0..900));
        let detail = format!("because {}", self.random.random_range(0..3));
        match self.random.random_range(0..7) {
            0 => Settlement::Release { told },
            1 => Settlement::Deny { reason: detail },
            2 | 3 => {
                let reasons = [HoldReason::PolicyUnavailable, HoldReason::PolicyThrottled];
                let reason = reasons[self.random.random_range(0..2)];
                Settlement::Wait { reason, detail, wait }
            }
            4 | 5 => {
                let dispatches = NonZeroU32::new(self.random.random_range(1..3)).expect("it is not zero");
                let rule = name(["r", "s"][self.random.random_range(0..2)]);
                let throttle = Throttle { dispatches, period: Duration::from_millis(500) };
                Settlement::ReleaseWithin { rule, throttle, detail, told }
            }
            _ => {
                self.approvals.push((tenant.clone(), job.clone()));
                let (requested_at, state) = (self.clock.now(), ApprovalState::Open);
                let input = json!({"what": [1.50, {}]});
                let approval = Approval { job: job.clone(), workflow: deploy(), requested_at, input, state };
                Settlement::Ask { approval, detail }
            }
        }
    }
}
