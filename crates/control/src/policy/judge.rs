//! The decision of the rules or the service about one job, and what it means for it.

use std::time::Duration;

use interlock_backend::policy_holds::{HeldDue, Settlement};
use interlock_model::approval::{Approval, ApprovalState, AskedBecause, AskedBudget};
use interlock_model::dispatch_policy::{
    Action, Answer, AnsweredDecision, Facts, FailureMode, HoldReason, Question, Rule,
};

use super::Policy;
use super::service::Away;

/// Who decided, and what.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    Rule(Rule),
    Service(Answer),
    /// The service is unreachable; the tenant's failure mode applies.
    Away(FailureMode, String),
    /// No rule matches, and there is no service.
    Default,
}

/// The first and the longest wait of a job whose service is unreachable.
const AWAY_FIRST: Duration = Duration::from_millis(250);
pub(super) const AWAY_LONGEST: Duration = Duration::from_secs(10);

/// When to ask a service again that throttles: what it says, within bounds.
const THROTTLED: Duration = Duration::from_secs(1);
const THROTTLED_SHORTEST: Duration = Duration::from_millis(50);
const THROTTLED_LONGEST: Duration = Duration::from_hours(1);

impl Policy {
    pub(super) async fn judge(&self, facts: Facts<'_>, question: &Question) -> Judgement {
        let policy = self.configured();
        if let Some(rule) = policy.rules.decide(facts) {
            return Judgement::Rule(rule.clone());
        }
        let Some(service) = &policy.service else { return Judgement::Default };
        match self.ask_service(service, question).await {
            Ok(answer) => Judgement::Service(answer),
            Err(Away { since, trouble }) => Judgement::Away(
                service.terms.failure_of(facts.tenant),
                format!("policy service unavailable since {since}: {trouble}"),
            ),
        }
    }
}

impl Judgement {
    /// The decision's name, as rules and services call it.
    pub fn decision(&self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.action.name(),
            Self::Service(answer) => answer.decision.name(),
            Self::Away(FailureMode::Open, _) | Self::Default => "allow",
            Self::Away(FailureMode::Closed, _) => "wait",
        }
    }

    /// Who decided and why, for people.
    pub fn words(&self) -> String {
        match self {
            Self::Rule(rule) => rule.words(),
            Self::Service(answer) => answer.words(),
            Self::Away(FailureMode::Open, trouble) => format!("{trouble}; the tenant is fail-open"),
            Self::Away(FailureMode::Closed, trouble) => trouble.clone(),
            Self::Default => "no rule matches".to_owned(),
        }
    }

    /// Whether a job is released only because the service is unreachable.
    pub(super) fn is_fail_open(&self) -> bool {
        matches!(self, Self::Away(FailureMode::Open, _))
    }

    /// Whether a job waits only because the service is unreachable.
    pub(super) fn is_fail_closed(&self) -> bool {
        matches!(self, Self::Away(FailureMode::Closed, _))
    }

    /// What this judgement means for a held job.
    pub(super) fn settlement(&self, due: &HeldDue) -> Settlement {
        let words = self.words();
        // The timeline shows jobs that had to wait, and jobs that were released without a decision.
        let has_waited = due.hold.reason != HoldReason::PolicyPending;
        let message = (has_waited || self.is_fail_open()).then(|| words.clone());
        match self {
            Self::Default | Self::Away(FailureMode::Open, _) => Settlement::Release { message },
            Self::Away(FailureMode::Closed, _) => Settlement::Wait {
                reason: HoldReason::PolicyUnavailable,
                detail: words,
                wait: away_wait(due),
                acquired_until: None,
            },
            Self::Rule(rule) => match rule.action {
                Action::Allow => Settlement::Release { message },
                Action::Deny => Settlement::Deny { reason: words },
                Action::RequireApproval => ask(due, words, None),
                Action::Throttle(throttle) => {
                    Settlement::ReleaseWithin { rule: rule.name.clone(), throttle, detail: words, message }
                }
            },
            Self::Service(answer) => match answer.decision {
                AnsweredDecision::Allow => Settlement::Release { message },
                AnsweredDecision::Deny => Settlement::Deny { reason: words },
                AnsweredDecision::RequireApproval => ask(due, words, None),
                AnsweredDecision::Throttle => {
                    let wait = answer.retry_after_ms.map_or(THROTTLED, Duration::from_millis);
                    let wait = wait.clamp(THROTTLED_SHORTEST, THROTTLED_LONGEST);
                    let reason = HoldReason::PolicyThrottled;
                    Settlement::Wait { reason, detail: words, wait, acquired_until: None }
                }
            },
        }
    }
}

/// Twice as long each time, within bounds.
fn away_wait(due: &HeldDue) -> Duration {
    let looks = if due.hold.reason == HoldReason::PolicyUnavailable { due.hold.looks } else { 0 };
    AWAY_FIRST.saturating_mul(2_u32.saturating_pow(looks)).min(AWAY_LONGEST)
}

/// Asks a person about the job; about this budget, if one has too little left.
pub(super) fn ask(due: &HeldDue, detail: String, budget: Option<AskedBudget>) -> Settlement {
    let approval = Approval {
        job: due.job.id.clone(),
        workflow: due.job.workflow.clone(),
        requested_at: due.now,
        input: due.job.input.clone(),
        state: ApprovalState::Open,
        because: Some(AskedBecause { detail: detail.clone(), budget }),
    };
    Settlement::Ask { approval, detail }
}
