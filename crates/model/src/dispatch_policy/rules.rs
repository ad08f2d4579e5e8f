//! Policy rules. The first rule that matches a job decides; a job that no rule matches is allowed.

use std::collections::BTreeSet;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AnsweredDecision;
use crate::meta::JobMeta;
use crate::{Tag, TenantId, Topic};

const RULES_MAX: usize = 256;

/// Maximum number of names or patterns of one kind per rule.
const PATTERNS_MAX: usize = 64;

const REASON_CHARS_MAX: usize = 500;

/// The longest period of a throttle. Use an approval for anything slower.
const PERIOD_MAX: Duration = Duration::from_hours(24);

/// The properties of a job that rules match on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub tenant: &'a TenantId,
    pub topic: &'a Topic,
    pub meta: &'a JobMeta,
}

/// One rule. An empty list matches every job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RuleDocument", into = "RuleDocument")]
pub struct Rule {
    pub name: Tag,
    pub tenants: BTreeSet<TenantId>,
    pub topics: Vec<TopicPattern>,
    pub capabilities: BTreeSet<Tag>,
    /// Matches if the job has any of them.
    pub risk_tags: BTreeSet<Tag>,
    pub action: Action,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Allow,
    Deny,
    RequireApproval,
    Throttle(Throttle),
}

/// Maximum number of dispatches per period and tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Throttle {
    pub dispatches: NonZeroU32,
    pub period: Duration,
}

impl Action {
    pub fn name(self) -> &'static str {
        self.decision().name()
    }

    fn decision(self) -> AnsweredDecision {
        match self {
            Self::Allow => AnsweredDecision::Allow,
            Self::Deny => AnsweredDecision::Deny,
            Self::RequireApproval => AnsweredDecision::RequireApproval,
            Self::Throttle(_) => AnsweredDecision::Throttle,
        }
    }
}

/// A topic, or a prefix of topics followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TopicPattern(String);

impl TopicPattern {
    pub fn matches(&self, topic: &Topic) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => topic.as_str().starts_with(prefix),
            None => topic.as_str() == self.0,
        }
    }
}

impl TryFrom<String> for TopicPattern {
    type Error = InvalidRules;

    fn try_from(text: String) -> Result<Self, InvalidRules> {
        let named = text.strip_suffix('*').unwrap_or(&text);
        let is_valid = text == "*" || named.parse::<Topic>().is_ok();
        if is_valid { Ok(Self(text)) } else { Err(InvalidRules::Topic(text)) }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    #[error("invalid topic pattern {0:?}: use a topic, or a prefix followed by '*'")]
    Topic(String),
    #[error(
        "rule {0}: `throttle` requires `dispatches` and `period_ms` (at most one day); other decisions accept neither"
    )]
    Throttle(Tag),
    #[error(
        "rule {0}: use at most {PATTERNS_MAX} entries per list and {REASON_CHARS_MAX} characters for the reason"
    )]
    TooLarge(Tag),
    #[error("{0} rules: use at most {RULES_MAX}")]
    TooMany(usize),
    #[error("two rules have the name {0}")]
    SameName(Tag),
}

/// The first condition of a rule that a job does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    Tenant,
    Topic,
    Capability,
    RiskTags,
}

impl Mismatch {
    pub fn words(self) -> &'static str {
        match self {
            Self::Tenant => "another tenant",
            Self::Topic => "another topic",
            Self::Capability => "another capability",
            Self::RiskTags => "none of its risk tags",
        }
    }
}

impl Rule {
    /// What keeps the rule from deciding; none if it decides.
    pub fn mismatch(&self, facts: Facts<'_>) -> Option<Mismatch> {
        let has = |capability: &Tag| self.capabilities.contains(capability);
        if !self.tenants.is_empty() && !self.tenants.contains(facts.tenant) {
            Some(Mismatch::Tenant)
        } else if !self.topics.is_empty() && !self.topics.iter().any(|topic| topic.matches(facts.topic)) {
            Some(Mismatch::Topic)
        } else if !self.capabilities.is_empty() && !facts.meta.capability.as_ref().is_some_and(has) {
            Some(Mismatch::Capability)
        } else if !self.risk_tags.is_empty() && self.risk_tags.is_disjoint(&facts.meta.risk_tags) {
            Some(Mismatch::RiskTags)
        } else {
            None
        }
    }

    /// The decision as one sentence.
    pub fn words(&self) -> String {
        let Self { name, action, reason, .. } = self;
        let pace = match action {
            Action::Throttle(Throttle { dispatches, period }) => {
                format!(" ({dispatches} in {} ms)", period.as_millis())
            }
            Action::Allow | Action::Deny | Action::RequireApproval => String::new(),
        };
        let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("rule {name} says {}{pace}{why}", action.name())
    }

    fn is_bounded(&self) -> bool {
        let counts = [self.tenants.len(), self.topics.len(), self.capabilities.len(), self.risk_tags.len()];
        let reason = self.reason.as_ref().map_or(0, |reason| reason.chars().count());
        counts.into_iter().all(|count| count <= PATTERNS_MAX) && reason <= REASON_CHARS_MAX
    }
}

/// Validated rules in order, with unique names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct Rules(Vec<Rule>);

impl Rules {
    pub fn decide(&self, facts: Facts<'_>) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.mismatch(facts).is_none())
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Rules {
    type Item = &'a Rule;
    type IntoIter = std::slice::Iter<'a, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl TryFrom<Vec<Rule>> for Rules {
    type Error = InvalidRules;

    fn try_from(rules: Vec<Rule>) -> Result<Self, InvalidRules> {
        if rules.len() > RULES_MAX {
            return Err(InvalidRules::TooMany(rules.len()));
        }
        let mut names = BTreeSet::new();
        for rule in &rules {
            if !rule.is_bounded() {
                return Err(InvalidRules::TooLarge(rule.name.clone()));
            }
            if !names.insert(&rule.name) {
                return Err(InvalidRules::SameName(rule.name.clone()));
            }
        }
        Ok(Self(rules))
    }
}

impl From<Rules> for Vec<Rule> {
    fn from(rules: Rules) -> Self {
        rules.0
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument {
    name: Tag,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tenants: BTreeSet<TenantId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    topics: Vec<TopicPattern>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    capabilities: BTreeSet<Tag>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    risk_tags: BTreeSet<Tag>,
    decision: AnsweredDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dispatches: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    period_ms: Option<NonZeroU64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl TryFrom<RuleDocument> for Rule {
    type Error = InvalidRules;

    fn try_from(document: RuleDocument) -> Result<Self, InvalidRules> {
        let RuleDocument { name, tenants, topics, capabilities, risk_tags, reason, .. } = document;
        let period = document.period_ms.map(|period| Duration::from_millis(period.get()));
        let action = match (document.decision, document.dispatches, period) {
            (AnsweredDecision::Allow, None, None) => Action::Allow,
            (AnsweredDecision::Deny, None, None) => Action::Deny,
            (AnsweredDecision::RequireApproval, None, None) => Action::RequireApproval,
            (AnsweredDecision::Throttle, Some(dispatches), Some(period)) if period <= PERIOD_MAX => {
                Action::Throttle(Throttle { dispatches, period })
            }
            _ => return Err(InvalidRules::Throttle(name)),
        };
        Ok(Self { name, tenants, topics, capabilities, risk_tags, action, reason })
    }
}

impl From<Rule> for RuleDocument {
    fn from(rule: Rule) -> Self {
        let Rule { name, tenants, topics, capabilities, risk_tags, action, reason } = rule;
        let throttle = match action {
            Action::Throttle(throttle) => Some(throttle),
            Action::Allow | Action::Deny | Action::RequireApproval => None,
        };
        Self {
            name,
            tenants,
            topics,
            capabilities,
            risk_tags,
            decision: action.decision(),
            dispatches: throttle.map(|throttle| throttle.dispatches),
            period_ms: throttle.and_then(|throttle| NonZeroU64::new(crate::time::millis(throttle.period))),
            reason,
        }
    }
}

#[cfg(test)]
mod tests;
