//! Rules: the first that matches a job decides; where none does, the job may go.

use std::collections::BTreeSet;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::meta::JobMeta;
use crate::{Tag, TenantId, Topic};

const RULES_MAX: usize = 256;

/// Names and patterns of one kind that a rule may list.
const PATTERNS_MAX: usize = 64;

const REASON_CHARS_MAX: usize = 500;

/// The longest period of a throttle: beyond it somebody is meant to decide.
const PERIOD_MAX: Duration = Duration::from_hours(24);

/// What the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub tenant: &'a TenantId,
    pub topic: &'a Topic,
    pub meta: &'a JobMeta,
}

/// One rule. What it lists nothing of, it does not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RuleDocument", into = "RuleDocument")]
pub struct Rule {
    pub name: Tag,
    pub tenants: BTreeSet<TenantId>,
    pub topics: Vec<TopicPattern>,
    pub capabilities: BTreeSet<Tag>,
    /// One of them is enough.
    pub risk_tags: BTreeSet<Tag>,
    pub action: Action,
    pub reason: Option<String>,
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Allow,
    Deny,
    RequireApproval,
    Throttle(Throttle),
}

/// So many dispatches in each period, for each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    pub dispatches: NonZeroU32,
    pub period: Duration,
}

impl Action {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
            Self::Throttle(_) => "throttle",
        }
    }
}

/// A topic, or the beginning of topics, with a star behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicPattern(String);

impl TopicPattern {
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => topic.as_str().starts_with(beginning),
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

impl From<TopicPattern> for String {
    fn from(pattern: TopicPattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Why rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    #[error("{0:?} is neither a topic nor the beginning of one with a '*' behind it")]
    Topic(String),
    #[error(
        "rule {0}: a throttle needs `dispatches` and `period_ms` (up to a day), and nothing else has them"
    )]
    Throttle(Tag),
    #[error(
        "rule {0}: at most {PATTERNS_MAX} names of one kind, and {REASON_CHARS_MAX} characters of reason"
    )]
    TooLarge(Tag),
    #[error("at most {RULES_MAX} rules, and there are {0}")]
    TooMany(usize),
    #[error("two rules are called {0}")]
    SameName(Tag),
}

/// What a rule asked for that a job does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    Tenant,
    Topic,
    Capability,
    RiskTags,
}

impl Mismatch {
    #[must_use]
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
    #[must_use]
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

    /// Who says what and why, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { name, action, reason, .. } = self;
        let mut words = format!("rule {name} says {}", action.name());
        if let Action::Throttle(Throttle { dispatches, period }) = action {
            words.push_str(&format!(" ({dispatches} in {} ms)", period.as_millis()));
        }
        if let Some(reason) = reason {
            words.push_str(&format!(": {reason}"));
        }
        words
    }

    fn is_bounded(&self) -> bool {
        let counts = [self.tenants.len(), self.topics.len(), self.capabilities.len(), self.risk_tags.len()];
        let reason = self.reason.as_ref().map_or(0, |reason| reason.chars().count());
        counts.into_iter().all(|count| count <= PATTERNS_MAX) && reason <= REASON_CHARS_MAX
    }
}

/// Rules in their order, within bounds, each under a name of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rule that decides, if one does.
    #[must_use]
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

/// A rule as a file says it.
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
    decision: super::AnsweredDecision,
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
        use super::AnsweredDecision as Said;
        let RuleDocument { name, tenants, topics, capabilities, risk_tags, reason, .. } = document;
        let period = document.period_ms.map(|period| Duration::from_millis(period.get()));
        let action = match (document.decision, document.dispatches, period) {
            (Said::Allow, None, None) => Action::Allow,
            (Said::Deny, None, None) => Action::Deny,
            (Said::RequireApproval, None, None) => Action::RequireApproval,
            (Said::Throttle, Some(dispatches), Some(period)) if period <= PERIOD_MAX => {
                Action::Throttle(Throttle { dispatches, period })
            }
            _ => return Err(InvalidRules::Throttle(name)),
        };
        Ok(Self { name, tenants, topics, capabilities, risk_tags, action, reason })
    }
}

impl From<Rule> for RuleDocument {
    fn from(rule: Rule) -> Self {
        use super::AnsweredDecision as Said;
        let Rule { name, tenants, topics, capabilities, risk_tags, action, reason } = rule;
        let throttle = match action {
            Action::Throttle(throttle) => Some(throttle),
            Action::Allow | Action::Deny | Action::RequireApproval => None,
        };
        let decision = match action {
            Action::Allow => Said::Allow,
            Action::Deny => Said::Deny,
            Action::RequireApproval => Said::RequireApproval,
            Action::Throttle(_) => Said::Throttle,
        };
        Self {
            name,
            tenants,
            topics,
            capabilities,
            risk_tags,
            decision,
            dispatches: throttle.map(|throttle| throttle.dispatches),
            period_ms: throttle.and_then(|throttle| NonZeroU64::new(crate::time::millis(throttle.period))),
            reason,
        }
    }
}

#[cfg(test)]
mod tests;
