//! Which new jobs must not go to their queue yet. Asked by whoever writes a turn; only the rules are looked at.

use interlock_model::TenantId;
use interlock_model::dispatch_policy::{Action, Facts, HeldJob};
use interlock_model::job::NewJob;

use crate::service::Control;

impl Control {
    /// Takes those out of `dispatched` that somebody has to decide about.
    pub(crate) fn hold_back(&self, tenant: &TenantId, dispatched: &mut Vec<NewJob>) -> Vec<HeldJob> {
        let policy = &self.settings.dispatch_policy;
        if policy.rules.iter().next().is_none() && policy.service.is_none() {
            return Vec::new();
        }
        let mut held = Vec::new();
        for job in std::mem::take(dispatched) {
            match self.reason_to_hold(tenant, &job) {
                None => dispatched.push(job),
                Some(detail) => held.push(HeldJob { job, detail }),
            }
        }
        held
    }

    fn reason_to_hold(&self, tenant: &TenantId, job: &NewJob) -> Option<String> {
        let policy = &self.settings.dispatch_policy;
        match policy.rules.decide(Facts { tenant, topic: &job.topic, meta: &job.meta }) {
            Some(rule) if rule.action == Action::Allow => None,
            Some(rule) => Some(rule.words()),
            None => policy.service.is_some().then(|| "the policy service is to be asked".to_owned()),
        }
    }
}
