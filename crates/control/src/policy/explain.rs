//! Explains why a job may be dispatched or not: every rule that was checked, and the answer of the service.

use interlock_backend::StoreError;
use interlock_backend::verbs::ReadJob;
use interlock_model::dispatch_policy::{BreakerState, Facts, FailureMode, Mismatch, Question, Rule};
use interlock_model::job::NewJob;
use interlock_model::meta::JobMeta;
use interlock_model::{JobId, TenantId, Timestamp, Topic};

use super::{Judgement, Policy};

/// What to explain.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainTarget {
    /// An existing job.
    Job(Box<NewJob>),
    /// A job that does not exist.
    Imagined { topic: Topic, meta: JobMeta },
}

/// A rule that was checked, and what did not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCheck {
    pub rule: Rule,
    /// None: the rule decides.
    pub mismatch: Option<Mismatch>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PolicyExplanation {
    /// In order, up to the rule that decides.
    pub checks: Vec<RuleCheck>,
    pub judgement: Judgement,
    pub service: Option<ServiceHealth>,
}

/// The service as this process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceHealth {
    pub place: String,
    pub state: BreakerState,
    pub away_since: Option<Timestamp>,
    /// The failure mode of the tenant that asks.
    pub failure: FailureMode,
}

impl Policy {
    /// The existing job as a target.
    pub async fn target(&self, tenant: &TenantId, job: &JobId) -> Result<ExplainTarget, StoreError> {
        let found = self.process.call(ReadJob { tenant: tenant.clone(), job: job.clone() }).await?;
        let found = found.ok_or_else(|| StoreError::not_found("job", job))?;
        Ok(ExplainTarget::Job(Box::new(found.job.new)))
    }

    /// What would be decided now. It changes no job, but asks the service.
    pub async fn explain(&self, tenant: &TenantId, asked: &ExplainTarget) -> PolicyExplanation {
        let (topic, meta) = match asked {
            ExplainTarget::Job(job) => (&job.topic, &job.meta),
            ExplainTarget::Imagined { topic, meta } => (topic, meta),
        };
        let facts = Facts { tenant, topic, meta };
        let question = match asked {
            ExplainTarget::Job(job) => Question::of_job(tenant, job),
            ExplainTarget::Imagined { topic, meta } => Question::of_no_job(tenant, topic, meta),
        };
        let judgement = self.judge(facts, &question).await;
        let mut checks = Vec::new();
        for rule in &self.configured().rules {
            let mismatch = rule.mismatch(facts);
            checks.push(RuleCheck { rule: rule.clone(), mismatch });
            if mismatch.is_none() {
                break;
            }
        }
        PolicyExplanation { checks, judgement, service: self.service_health(tenant) }
    }

    /// The policy service as this process knows it, if there is one.
    pub fn service_health(&self, tenant: &TenantId) -> Option<ServiceHealth> {
        let service = self.configured().service.as_ref()?;
        let now = self.process.now();
        let (state, away_since) = self.with_breaker(|breaker| (breaker.state(now), breaker.away_since()));
        let failure = service.terms.failure_of(tenant);
        Some(ServiceHealth { place: service.place.clone(), state, away_since, failure })
    }
}
