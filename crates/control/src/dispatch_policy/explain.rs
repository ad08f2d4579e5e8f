//! Why a job may go, or not, for people: every rule that was looked at, and what the service says.

use interlock_backend::StoreError;
use interlock_model::dispatch_policy::{BreakerState, Facts, FailureMode, Mismatch, Question, Rule};
use interlock_model::job::NewJob;
use interlock_model::meta::JobMeta;
use interlock_model::{JobId, TenantId, Timestamp, Topic};

use super::Judgement;
use crate::service::Control;

/// Who is asked about.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A job that is there.
    Job(Box<NewJob>),
    /// One that could be.
    Imagined { topic: Topic, meta: JobMeta },
}

/// A rule that was looked at, and what it lacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub rule: Rule,
    /// None: it decides.
    pub mismatch: Option<Mismatch>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// In their order, up to the one that decides.
    pub looks: Vec<Look>,
    pub judgement: Judgement,
    pub service: Option<ServiceStanding>,
}

/// The service as this process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStanding {
    pub place: String,
    pub state: BreakerState,
    pub away_since: Option<Timestamp>,
    /// What holds for the tenant that asks while it is away.
    pub failure: FailureMode,
}

impl Control {
    /// The job, as the policy is asked about it.
    pub async fn asked_about(&self, tenant: &TenantId, job: &JobId) -> Result<Asked, StoreError> {
        let found = self.store.job(tenant, job).await?;
        let found = found.ok_or_else(|| StoreError::not_found("job", job))?;
        Ok(Asked::Job(Box::new(found.job.new)))
    }

    /// What would be decided now. Nothing of a job is changed; the service is really asked.
    pub async fn explain_dispatch(&self, tenant: &TenantId, asked: &Asked) -> Explanation {
        let (topic, meta) = match asked {
            Asked::Job(job) => (&job.topic, &job.meta),
            Asked::Imagined { topic, meta } => (topic, meta),
        };
        let facts = Facts { tenant, topic, meta };
        let question = match asked {
            Asked::Job(job) => Question::of_job(tenant, job),
            Asked::Imagined { topic, meta } => Question::of_no_job(tenant, topic, meta),
        };
        let judgement = self.judge(facts, &question).await;
        let mut looks = Vec::new();
        for rule in &self.settings.dispatch_policy.rules {
            let mismatch = rule.mismatch(facts);
            looks.push(Look { rule: rule.clone(), mismatch });
            if mismatch.is_none() {
                break;
            }
        }
        Explanation { looks, judgement, service: self.service_standing(tenant) }
    }

    /// The policy service as this process knows it, if there is one.
    #[must_use]
    pub fn service_standing(&self, tenant: &TenantId) -> Option<ServiceStanding> {
        let service = self.settings.dispatch_policy.service.as_ref()?;
        let now = self.clock.now();
        let (state, away_since) =
            self.dispatch_policy.with_breaker(|breaker| (breaker.state(now), breaker.away_since()));
        let failure = service.terms.failure_of(tenant);
        Some(ServiceStanding { place: service.place.clone(), state, away_since, failure })
    }
}
