//! A named limit, compiled: which starts it applies to, and in which of its groups they count.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::Duration;

use serde_json::Value as Json;

use super::checks::{DELAY_SECONDS_MAX, InvalidLimit, check_numbers, require};
use super::document::{CountedRuns, LimitDocument, OnFull};
use super::fair::FairClaim;
use super::group::{DebounceRule, GroupRule, Rate};
use super::owner::is_of_system;
use super::{GroupKey, QUEUE_WAIT_DEFAULT, QUEUED_MAX_DEFAULT, QueueRule, TENANT_RUNS};
use crate::expression::{Expression, Member, Scope};
use crate::limit::document::Labels;
use crate::{LimitName, WorkflowId};

/// Named limits that a tenant may have.
pub const LIMITS_MAX: u32 = 64;

/// Named limits that may apply to one workflow of a tenant, the system's included.
pub const MATCHING_MAX: usize = 8;

/// Limits of the system that may apply to one workflow. A tenant that had its 8 before has them besides.
pub const SYSTEM_MATCHING_MAX: usize = 4;

const PATTERNS_MAX: usize = 64;
/// How long newer starts may delay a run where its limit does not say, as a multiple of its quiet period.
const DELAY_DEFAULT: u32 = 10;

/// The names that the expressions of a limit may read.
const ROOTS: [&str; 3] = ["input", "workflow", "labels"];

/// A named limit that can be matched with starts.
#[derive(Debug, Clone)]
pub struct LimitRule {
    pub name: LimitName,
    workflows: Option<Vec<WorkflowPattern>>,
    key: Option<Expression>,
    fair_by: Option<Expression>,
    count: CountedRuns,
}

/// A workflow id, or a prefix of ids.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WorkflowPattern {
    Exact(String),
    Prefix(String),
}

/// What a start counts as: one run in one group of a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct SlotClaim {
    pub limit: LimitName,
    pub group: GroupKey,
}

impl SlotClaim {
    /// The tenant's own slots, which every run counts in.
    pub fn tenant_runs() -> Self {
        let limit = TENANT_RUNS.parse().expect("it is a name");
        Self { limit, group: GroupKey::default() }
    }
}

/// What the key of a limit may look at.
#[derive(Debug, Clone, Copy)]
pub struct StartFacts<'a> {
    pub workflow: &'a WorkflowId,
    pub input: &'a Json,
    pub labels: &'a Labels,
}

/// A start that belongs to no group of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expression} of limit `{limit}` {problem}")]
pub struct NoGroup {
    pub limit: LimitName,
    pub expression: &'static str,
    pub problem: String,
}

impl LimitRule {
    pub fn compile(name: LimitName, document: &LimitDocument) -> Result<Self, InvalidLimit> {
        let is_built_in = name.as_str() == TENANT_RUNS;
        require("name", !is_built_in, "tenant-runs is built in: it has max_runs, on_full and queue only")?;
        check_numbers(document)?;
        let workflows =
            document.applies_to.as_ref().map(|applies| patterns(&applies.workflows)).transpose()?;
        let compile = |field, source: Option<&str>| {
            let compiled = source.map(|source| Expression::compile(source, &ROOTS)).transpose();
            compiled.map_err(|error| InvalidLimit { field, problem: error.to_string() })
        };
        let key = compile("key", document.key.as_deref())?;
        let fair_by = document.queue.as_ref().and_then(|queue| queue.fair_by.as_deref());
        let fair_by = compile("queue.fair_by", fair_by)?;
        Ok(Self { name, workflows, key, fair_by, count: document.count })
    }

    pub fn matches(&self, workflow: &WorkflowId) -> bool {
        let patterns = self.workflows.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(workflow.as_str())))
    }

    /// The group in which this start counts.
    fn claim(&self, facts: &StartFacts<'_>) -> Result<SlotClaim, NoGroup> {
        let group = match &self.key {
            None => GroupKey::default(),
            Some(key) => self.evaluate(key, facts, "the key")?,
        };
        Ok(SlotClaim { limit: self.name.clone(), group })
    }

    /// The group of its queue that is charged for this start. None: its queue is not fair.
    fn fair_claim(&self, facts: &StartFacts<'_>) -> Result<Option<FairClaim>, NoGroup> {
        let Some(fair_by) = &self.fair_by else { return Ok(None) };
        let group = self.evaluate(fair_by, facts, "queue.fair_by")?;
        Ok(Some(FairClaim { limit: self.name.clone(), group }))
    }

    fn evaluate(
        &self,
        expression: &Expression,
        facts: &StartFacts<'_>,
        name: &'static str,
    ) -> Result<GroupKey, NoGroup> {
        let no_group = |problem| NoGroup { limit: self.name.clone(), expression: name, problem };
        let value = expression.evaluate(facts).map_err(|error| no_group(format!("failed: {error}")))?;
        group_of(&value).map_err(|problem| no_group(problem.to_owned()))
    }

    /// Keyed before unkeyed, fewer workflows before more, the tenant's own before the system's, then by name.
    fn narrowness(&self, other: &Self) -> Ordering {
        let place = |rule: &Self| {
            let workflows = rule.workflows.as_ref().map_or(usize::MAX, Vec::len);
            (rule.key.is_none(), workflows, is_of_system(&rule.name))
        };
        place(self).cmp(&place(other)).then_with(|| self.name.cmp(&other.name))
    }
}

/// The groups in which a start counts, the narrowest first.
pub fn claims(rules: &[LimitRule], facts: &StartFacts<'_>) -> Result<Vec<SlotClaim>, NoGroup> {
    claims_of(rules.iter(), facts)
}

/// The same for a child: only limits that count all runs.
pub fn child_claims(rules: &[LimitRule], facts: &StartFacts<'_>) -> Result<Vec<SlotClaim>, NoGroup> {
    claims_of(rules.iter().filter(|rule| rule.count == CountedRuns::All), facts)
}

fn claims_of<'a>(
    rules: impl Iterator<Item = &'a LimitRule>,
    facts: &StartFacts<'_>,
) -> Result<Vec<SlotClaim>, NoGroup> {
    let mut matching: Vec<&LimitRule> = rules.filter(|rule| rule.matches(facts.workflow)).collect();
    matching.sort_by(|one, other| one.narrowness(other));
    matching.into_iter().map(|rule| rule.claim(facts)).collect()
}

/// The groups of fair queues that are charged for a start.
pub fn fair_claims(rules: &[LimitRule], facts: &StartFacts<'_>) -> Result<Vec<FairClaim>, NoGroup> {
    let matching = rules.iter().filter(|rule| rule.matches(facts.workflow));
    matching.filter_map(|rule| rule.fair_claim(facts).transpose()).collect()
}

/// Refuses more limits for one workflow than `most`. More than there were `before` this change is refused, too: what a
/// tenant has beyond its bound, because the system got another limit, it can still change.
pub fn check_matching(rules: &[LimitRule], before: &[LimitRule], most: usize) -> Result<(), InvalidLimit> {
    let count = most_matching(rules);
    let problem = format!("{count} limits would apply to one workflow: use at most {most}");
    require("applies_to", count <= most.max(most_matching(before)), problem)
}

/// How many limits apply to one workflow. The most apply to one that a limit names, or whose id is one of their prefixes.
fn most_matching(rules: &[LimitRule]) -> usize {
    let named = rules.iter().flat_map(|rule| rule.workflows.iter().flatten());
    let ids = named.map(WorkflowPattern::stem).chain([""]);
    let count = |id: &str| {
        let applies = |rule: &&LimitRule| {
            rule.workflows.as_ref().is_none_or(|patterns| patterns.iter().any(|it| it.matches(id)))
        };
        rules.iter().filter(applies).count()
    };
    ids.map(count).max().unwrap_or_default()
}

fn patterns(written: &[String]) -> Result<Vec<WorkflowPattern>, InvalidLimit> {
    let field = "applies_to.workflows";
    let count = written.len();
    require(field, (1..=PATTERNS_MAX).contains(&count), format!("use 1 to {PATTERNS_MAX} patterns"))?;
    let parsed = written.iter().map(|text| WorkflowPattern::parse(text));
    let invalid = |text: &String| InvalidLimit {
        field,
        problem: format!(
            "{:?} is not a workflow id, nor a prefix followed by `*`",
            text.chars().take(80).collect::<String>()
        ),
    };
    parsed.zip(written).map(|(pattern, text)| pattern.ok_or_else(|| invalid(text))).collect()
}

impl WorkflowPattern {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some("") => Some(Self::Prefix(String::new())),
            Some(prefix) => prefix.parse::<WorkflowId>().is_ok().then(|| Self::Prefix(prefix.to_owned())),
            None => text.parse::<WorkflowId>().is_ok().then(|| Self::Exact(text.to_owned())),
        }
    }

    fn matches(&self, workflow: &str) -> bool {
        match self {
            Self::Exact(id) => id == workflow,
            Self::Prefix(prefix) => workflow.starts_with(prefix.as_str()),
        }
    }

    fn stem(&self) -> &str {
        let (Self::Exact(text) | Self::Prefix(text)) = self;
        text
    }
}

impl Scope for StartFacts<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Json>> {
        match name {
            "input" => Some(Cow::Borrowed(self.input)),
            "workflow" => Some(Cow::Owned(Json::from(self.workflow.as_str()))),
            "labels" => {
                let labels =
                    self.labels.iter().map(|(name, value)| (name.clone(), Json::from(value.as_str())));
                Some(Cow::Owned(Json::Object(labels.collect())))
            }
            _ => None,
        }
    }

    fn member(&self, _root: &str, _member: &str) -> Member<'_> {
        Member::AskRoot
    }
}

/// Texts, numbers and truth values name groups.
fn group_of(value: &Json) -> Result<GroupKey, &'static str> {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(is_true) => is_true.to_string(),
        Json::Null => return Err("is null for this start"),
        Json::Array(_) | Json::Object(_) => {
            return Err("is a list or an object: use a text, a number or a boolean");
        }
    };
    text.parse().map_err(|_| "is longer than 256 bytes, or has control characters")
}

impl LimitDocument {
    /// What the store must know of it. Of a document that compiles.
    pub fn group_rule(&self, is_paused: bool) -> GroupRule {
        let queue = self.queue.clone().unwrap_or_default();
        let queued_max_default = if self.on_full == OnFull::ReplaceQueued { 1 } else { QUEUED_MAX_DEFAULT };
        let wait_max = queue.max_wait_sec.map_or(QUEUE_WAIT_DEFAULT, |sec| Duration::from_secs(sec.into()));
        GroupRule {
            runs_max: self.max_runs,
            rate: self
                .rate
                .map(|rate| Rate::new(rate.starts, Duration::from_secs(rate.period_sec.into()), rate.burst)),
            queue: QueueRule {
                on_full: self.on_full,
                queued_max: queue.max.unwrap_or(queued_max_default),
                wait_max,
                order: queue.order,
            },
            debounce: self.debounce_rule(),
            is_paused,
        }
    }

    fn debounce_rule(&self) -> Option<DebounceRule> {
        let quiet = self.quiet_sec.filter(|_| self.on_full == OnFull::Debounce)?;
        let delay = self.max_delay_sec.unwrap_or(quiet.saturating_mul(DELAY_DEFAULT).min(DELAY_SECONDS_MAX));
        let [quiet, delay_max] = [quiet, delay].map(|sec| Duration::from_secs(sec.into()));
        Some(DebounceRule { quiet, delay_max })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(name: &str, document: Json) -> Result<LimitRule, InvalidLimit> {
        LimitRule::compile(name.parse().unwrap(), &serde_json::from_value(document).unwrap())
    }

    fn claimed(rules: &[LimitRule], workflow: &str, input: &Json) -> Result<Vec<(String, String)>, NoGroup> {
        let (workflow, labels) =
            (workflow.parse().unwrap(), Labels::from([("team".to_owned(), "a".to_owned())]));
        let claims = claims(rules, &StartFacts { workflow: &workflow, input, labels: &labels })?;
        Ok(claims.into_iter().map(|claim| (claim.limit.to_string(), claim.group.to_string())).collect())
    }

    #[test]
    fn a_start_counts_in_every_limit_that_matches_it_the_narrowest_first() {
        let of = |workflows: &[&str]| json!({"max_runs": 1, "applies_to": {"workflows": workflows}});
        let rules = [
            rule("all", json!({"max_runs": 1})).unwrap(),
            rule("two", of(&["deploy-*", "review"])).unwrap(),
            rule("one", of(&["deploy-*"])).unwrap(),
            rule("keyed", json!({"max_runs": 1, "key": "input.repo"})).unwrap(),
            rule("other", of(&["test"])).unwrap(),
            rule("system.a", json!({"max_runs": 1})).unwrap(),
            rule("system.one", of(&["deploy-*"])).unwrap(),
        ];
        let claimed = claimed(&rules, "deploy-web", &json!({"repo": "a/b"})).unwrap();
        let expected =
            [("keyed", "a/b"), ("one", ""), ("system.one", ""), ("two", ""), ("all", ""), ("system.a", "")];
        assert_eq!(claimed, expected.map(|(limit, group)| (limit.to_owned(), group.to_owned())));
    }

    #[test]
    fn a_start_has_a_share_in_each_fair_queue() {
        let fair =
            json!({"max_runs": 1, "on_full": "queue", "queue": {"order": "fair", "fair_by": "input.user"}});
        let rules = [rule("fair", fair).unwrap(), rule("other", json!({"max_runs": 1})).unwrap()];
        let (workflow, labels) = ("deploy".parse().unwrap(), Labels::new());
        let shares = |input: &Json| {
            let facts = StartFacts { workflow: &workflow, input, labels: &labels };
            fair_claims(&rules, &facts).map_err(|error| error.to_string())
        };
        let (limit, group) = ("fair".parse().unwrap(), "ann".parse().unwrap());
        assert_eq!(shares(&json!({"user": "ann"})), Ok(vec![FairClaim { limit, group }]));
        assert_eq!(
            shares(&json!({"user": null})),
            Err("queue.fair_by of limit `fair` is null for this start".to_owned())
        );
    }

    #[test]
    fn a_child_counts_only_in_limits_that_count_all_runs() {
        let all = json!({"max_runs": 1, "count": "all", "queue": {"max_wait_sec": 60}});
        let rules = [rule("all", all).unwrap(), rule("root", json!({"max_runs": 1})).unwrap()];
        let (workflow, labels) = ("deploy".parse().unwrap(), Labels::new());
        let facts = StartFacts { workflow: &workflow, input: &json!({}), labels: &labels };
        assert_eq!(claims(&rules, &facts).unwrap().len(), 2);
        let claimed = child_claims(&rules, &facts).unwrap();
        assert_eq!(claimed.iter().map(|claim| claim.limit.as_str()).collect::<Vec<_>>(), ["all"]);
    }

    #[test]
    fn a_key_gives_a_text_a_number_or_a_truth_value() {
        let keyed = |key: &str| [rule("keyed", json!({"max_runs": 1, "key": key})).unwrap()];
        let group = |key: &str, input: Json| {
            claimed(&keyed(key), "deploy", &input)
                .map(|mut claims| claims.remove(0).1)
                .map_err(|error| error.to_string())
        };
        assert_eq!(group("input.n", json!({"n": 1.5})), Ok("1.5".to_owned()));
        assert_eq!(group("input.n == 1", json!({"n": 1})), Ok("true".to_owned()));
        assert_eq!(group("workflow + '/' + labels.team", json!({})), Ok("deploy/a".to_owned()));
        for (key, input) in [
            ("input.missing", json!({})),
            ("input.list", json!({"list": [1]})),
            ("input.long", json!({"long": "x".repeat(257)})),
            ("input.n + 1", json!({"n": "text"})),
        ] {
            let problem = group(key, input).unwrap_err();
            assert!(problem.contains("`keyed`"), "{problem}");
        }
    }

    #[test]
    fn an_invalid_document_is_refused_at_its_field() {
        let rate = |starts: u32, period: u32, burst: u32| json!({"starts": starts, "period_sec": period, "burst": burst});
        for (document, field) in [
            (json!({}), "max_runs"),
            (json!({"max_runs": 1_000_000_001_u32}), "max_runs"),
            (json!({"rate": rate(0, 1, 1)}), "rate.starts"),
            (json!({"rate": rate(1, 0, 1)}), "rate.period_sec"),
            (json!({"rate": rate(1, 1, 0)}), "rate.burst"),
            (json!({"rate": rate(1, 31_536_000, 1_000_000)}), "rate.burst"),
            (json!({"max_runs": 1, "key": "input."}), "key"),
            (json!({"max_runs": 1, "key": "steps.a"}), "key"),
            (json!({"max_runs": 1, "applies_to": {"workflows": []}}), "applies_to.workflows"),
            (json!({"max_runs": 1, "applies_to": {"workflows": ["a b"]}}), "applies_to.workflows"),
            (json!({"max_runs": 1, "queue": {}}), "queue"),
            (json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 0}}), "queue.max"),
            (json!({"max_runs": 1, "on_full": "queue", "queue": {"max_wait_sec": 0}}), "queue.max_wait_sec"),
            (json!({"max_runs": 1, "on_full": "queue", "queue": {"order": "fair"}}), "queue.fair_by"),
            (json!({"max_runs": 1, "on_full": "queue", "queue": {"fair_by": "input.user"}}), "queue.fair_by"),
            (json!({"max_runs": 1, "on_full": "queue", "queue": {"weights": {"a": 1}}}), "queue.weights"),
            (json!({"rate": rate(1, 1, 1), "on_full": "join"}), "on_full"),
            (json!({"max_runs": 0, "on_full": "replace_running"}), "on_full"),
            (json!({"max_runs": 1, "count": "all"}), "queue.max_wait_sec"),
            (
                json!({"max_runs": 1, "count": "all", "on_full": "queue", "queue": {"max": 3}}),
                "queue.max_wait_sec",
            ),
            (json!({"on_full": "debounce"}), "quiet_sec"),
            (json!({"on_full": "debounce", "quiet_sec": 0}), "quiet_sec"),
            (json!({"on_full": "debounce", "quiet_sec": 604_801}), "quiet_sec"),
            (json!({"on_full": "debounce", "quiet_sec": 5, "max_delay_sec": 4}), "max_delay_sec"),
            (json!({"on_full": "debounce", "quiet_sec": 5, "max_delay_sec": 604_801}), "max_delay_sec"),
            (json!({"max_runs": 1, "quiet_sec": 5}), "quiet_sec"),
            (json!({"max_runs": 1, "on_full": "queue", "max_delay_sec": 5}), "max_delay_sec"),
        ] {
            let refused = rule("limit", document.clone()).map(|rule| rule.name);
            assert_eq!(refused.map_err(|invalid| invalid.field), Err(field), "{document}");
        }
        assert_eq!(rule(TENANT_RUNS, json!({"max_runs": 1})).unwrap_err().field, "name");
    }

    #[test]
    fn a_limit_that_debounces_needs_no_slots_and_bounds_the_delay_by_itself() {
        let debounce = |document: Json| {
            rule("limit", document.clone()).unwrap();
            let document: LimitDocument = serde_json::from_value(document).unwrap();
            let rule = document.group_rule(false);
            rule.debounce.map(|debounce| (debounce.quiet.as_secs(), debounce.delay_max.as_secs()))
        };
        assert_eq!(debounce(json!({"on_full": "debounce", "quiet_sec": 5})), Some((5, 50)));
        assert_eq!(debounce(json!({"on_full": "debounce", "quiet_sec": 100_000})), Some((100_000, 604_800)));
        let given = json!({"on_full": "debounce", "quiet_sec": 5, "max_delay_sec": 5, "max_runs": 1});
        assert_eq!(debounce(given), Some((5, 5)));
        assert_eq!(debounce(json!({"max_runs": 1})), None);
    }

    #[test]
    fn a_bounded_number_of_limits_applies_to_one_workflow() {
        let prefix = |number: usize| {
            let pattern = format!("{}*", "a".repeat(number));
            rule(&format!("l{number}"), json!({"max_runs": 1, "applies_to": {"workflows": [pattern]}}))
                .unwrap()
        };
        let rules: Vec<LimitRule> = (1..=MATCHING_MAX + 1).map(prefix).collect();
        assert_eq!(check_matching(&rules[..MATCHING_MAX], &[], MATCHING_MAX), Ok(()));
        let refused = check_matching(&rules, &rules[..MATCHING_MAX], MATCHING_MAX).unwrap_err();
        assert_eq!(refused.field, "applies_to", "the longest prefix is one of all");
        assert_eq!(check_matching(&rules, &rules, MATCHING_MAX), Ok(()), "there are no more than before");
    }
}
