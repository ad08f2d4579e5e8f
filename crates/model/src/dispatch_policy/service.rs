//! Requests to the external policy service, its answers, and what applies while it is unreachable.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::job::NewJob;
use crate::meta::JobMeta;
use crate::{JobId, RunId, Tag, TenantId, Topic, WorkflowId};

/// What happens to a tenant's jobs while the service is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// They are dispatched and counted.
    Open,
    /// They wait.
    Closed,
}

/// The failure mode of each tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTerms {
    pub failure: FailureMode,
    /// Exceptions from `failure`.
    pub tenants: BTreeMap<TenantId, FailureMode>,
}

impl ServiceTerms {
    pub fn failure_of(&self, tenant: &TenantId) -> FailureMode {
        self.tenants.get(tenant).copied().unwrap_or(self.failure)
    }
}

/// A request to the service. The dry run of a policy has no job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    pub tenant: TenantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    pub topic: Topic,
    pub capability: Option<String>,
    pub risk_tags: Vec<String>,
    pub requires: Vec<String>,
    pub priority: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

impl Question {
    pub fn of_job(tenant: &TenantId, job: &NewJob) -> Self {
        Self {
            run_id: Some(job.id.run),
            job_id: Some(job.id.clone()),
            step_id: Some(job.id.step.to_string()),
            workflow_id: Some(job.workflow.clone()),
            attempt: Some(job.id.attempt),
            ..Self::of_no_job(tenant, &job.topic, &job.meta)
        }
    }

    pub fn of_no_job(tenant: &TenantId, topic: &Topic, meta: &JobMeta) -> Self {
        let texts = |tags: &BTreeSet<Tag>| tags.iter().map(ToString::to_string).collect();
        Self {
            tenant: tenant.clone(),
            run_id: None,
            job_id: None,
            step_id: None,
            workflow_id: None,
            topic: topic.clone(),
            capability: meta.capability.as_ref().map(ToString::to_string),
            risk_tags: texts(&meta.risk_tags),
            requires: texts(&meta.requires),
            priority: meta.priority.name(),
            attempt: None,
        }
    }
}

/// The service's answer. Unknown fields are ignored, so that the protocol can grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub decision: AnsweredDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// When to ask again, if throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

crate::named_enum! {
    pub enum AnsweredDecision {
        Allow = "allow",
        Deny = "deny",
        RequireApproval = "require_approval",
        Throttle = "throttle",
    }
}

/// The service's texts are truncated to keep timelines readable.
const TEXT_CHARS_MAX: usize = 500;

impl Answer {
    /// The decision as one sentence.
    pub fn words(&self) -> String {
        let cut = |text: &String| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        let rule = self.rule_id.as_ref().map_or_else(String::new, |rule| format!(" (rule {})", cut(rule)));
        let why = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", cut(reason)));
        format!("the policy service{rule} says {}{why}", self.decision.name())
    }
}
