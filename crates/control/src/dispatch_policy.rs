//! Which jobs need a decision of the policy, or a reservation, before they may go to a worker. A turn checks only the rules;
//! held jobs are settled later.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::dispatch_policy::{
    Action, Answer, Facts, HeldJob, HoldReason, Question, Rules, ServiceTerms,
};
use interlock_model::job::NewJob;

/// An external service that judges what no rule does. One call, no retries: the caller decides what no answer means.
#[async_trait]
pub trait PolicyService: Send + Sync {
    /// The answer, or one sentence that says why there is none.
    async fn ask(&self, question: &Question) -> Result<Answer, String>;
}

/// The policy of this process.
#[derive(Debug, Clone, Default)]
pub struct DispatchPolicy {
    pub rules: Rules,
    /// Asked where no rule decides. None: what no rule decides may go.
    pub service: Option<ServiceConfig>,
}

/// The service, and how long we wait for it.
#[derive(Clone)]
pub struct ServiceConfig {
    pub client: Arc<dyn PolicyService>,
    /// Its address for display, without secrets.
    pub place: String,
    pub terms: ServiceTerms,
    pub timeout: Duration,
    /// Concurrent questions.
    pub questions_max: usize,
    /// Consecutive failures that open the breaker, and for how long.
    pub failures_max: u32,
    pub pause: Duration,
}

impl fmt::Debug for ServiceConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServiceConfig")
            .field("place", &self.place)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl DispatchPolicy {
    /// Moves jobs out of `dispatched` that have to wait: a rule or the service must decide about them first, or they reserve
    /// from a budget.
    pub(crate) fn hold_back(&self, tenant: &TenantId, dispatched: &mut Vec<NewJob>) -> Vec<HeldJob> {
        let lets_all_go = self.rules.iter().next().is_none() && self.service.is_none();
        if lets_all_go && dispatched.iter().all(|job| job.budget.is_none()) {
            return Vec::new();
        }
        let mut held = Vec::new();
        for job in std::mem::take(dispatched) {
            match self.reason_to_hold(tenant, &job) {
                None => dispatched.push(job),
                Some((reason, detail)) => held.push(HeldJob { job, reason, detail }),
            }
        }
        held
    }

    fn reason_to_hold(&self, tenant: &TenantId, job: &NewJob) -> Option<(HoldReason, String)> {
        let of_policy = match self.rules.decide(Facts { tenant, topic: &job.topic, meta: &job.meta }) {
            Some(rule) if rule.action == Action::Allow => None,
            Some(rule) => Some(rule.words()),
            None => self.service.is_some().then(|| "the policy service is to be asked".to_owned()),
        };
        let of_policy = of_policy.map(|detail| (HoldReason::PolicyPending, detail));
        of_policy.or_else(|| Some((HoldReason::BudgetPending, job.budget.as_ref()?.pending())))
    }
}
