//! What an external policy service is asked, what it answers, and what holds while it is away.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::job::NewJob;
use crate::meta::JobMeta;
use crate::{JobId, RunId, Tag, TenantId, Topic, WorkflowId};

/// What becomes of a tenant's jobs while the service is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// They go on, and are counted.
    Open,
    /// They wait.
    Closed,
}

/// For whom which failure holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTerms {
    pub failure: FailureMode,
    /// Tenants that it is different for.
    pub tenants: BTreeMap<TenantId, FailureMode>,
}

impl ServiceTerms {
    #[must_use]
    pub fn failure_of(&self, tenant: &TenantId) -> FailureMode {
        self.tenants.get(tenant).copied().unwrap_or(self.failure)
    }
}

/// What the service is asked. A question that belongs to no job names none.
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
    #[must_use]
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

    #[must_use]
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

/// What the service answers. It may say more than we know, so that it can grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub decision: AnsweredDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// When to ask again, where it throttles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredDecision {
    Allow,
    Deny,
    RequireApproval,
    Throttle,
}

impl AnsweredDecision {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
            Self::Throttle => "throttle",
        }
    }
}

impl Answer {
    /// Who says so and why, for people. What a service says is cut, because timelines are for reading.
    #[must_use]
    pub fn words(&self) -> String {
        let cut = |text: &str| text.chars().take(WORDS_MAX).collect::<String>();
        let mut words = "the policy service".to_owned();
        if let Some(rule) = &self.rule_id {
            words.push_str(&format!(" (rule {})", cut(rule)));
        }
        words.push_str(&format!(" says {}", self.decision.name()));
        if let Some(reason) = &self.reason {
            words.push_str(&format!(": {}", cut(reason)));
        }
        words
    }
}

const WORDS_MAX: usize = 500;
