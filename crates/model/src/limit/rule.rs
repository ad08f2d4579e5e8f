//! A named limit, compiled: which starts it applies to, and in which of its groups they count.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::Duration;

use serde_json::Value as Json;

use super::document::{LimitDocument, OnFull};
use super::group::{DebounceRule, GroupRule, Rate};
use super::{GroupKey, QUEUE_WAIT_DEFAULT, QUEUED_MAX_DEFAULT, QueueRule, RUNS_MAX_BOUND, TENANT_RUNS};
use crate::expression::{Expression, Member, Scope};
use crate::limit::document::Labels;
use crate::{LimitName, WorkflowId};

/// Named limits that a tenant may have.
pub const LIMITS_MAX: u32 = 64;

/// Named limits that may apply to one workflow.
pub const MATCHING_MAX: usize = 8;

const PATTERNS_MAX: usize = 64;
const STARTS_MAX: u32 = 1_000_000;
const QUEUED_MAX: u32 = 1_000_000;
/// Microseconds that a burst may be ahead of its rate: a hundred years. Every store counts them exactly.
const AHEAD_MAX: u64 = 3_155_760_000_000_000;
/// One year.
const SECONDS_MAX: u32 = 31_536_000;
/// One week.
const DELAY_SECONDS_MAX: u32 = 604_800;
/// How long newer starts may delay a run where its limit does not say, as a multiple of its quiet period.
const DELAY_DEFAULT: u32 = 10;

/// The names that the key of a limit may read.
const ROOTS: [&str; 3] = ["input", "workflow", "labels"];

/// A named limit that can be matched with starts.
#[derive(Debug, Clone)]
pub struct LimitRule {
    pub name: LimitName,
    workflows: Option<Vec<WorkflowPattern>>,
    key: Option<Expression>,
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

/// A document that is not a limit: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidLimit {
    pub field: &'static str,
    pub problem: String,
}

/// A start that belongs to no group of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key of limit `{limit}` {problem}")]
pub struct NoGroup {
    pub limit: LimitName,
    pub problem: String,
}

fn require(field: &'static str, is_met: bool, problem: impl Into<String>) -> Result<(), InvalidLimit> {
    if is_met { Ok(()) } else { Err(InvalidLimit { field, problem: problem.into() }) }
}

fn within(field: &'static str, number: Option<u32>, most: u32) -> Result<(), InvalidLimit> {
    require(
        field,
        number.is_none_or(|number| (1..=most).contains(&number)),
        format!("use a number from 1 to {most}"),
    )
}

impl LimitRule {
    pub fn compile(name: LimitName, document: &LimitDocument) -> Result<Self, InvalidLimit> {
        let is_built_in = name.as_str() == TENANT_RUNS;
        require("name", !is_built_in, "tenant-runs is built in: it has max_runs, on_full and queue only")?;
        check_numbers(document)?;
        let workflows =
            document.applies_to.as_ref().map(|applies| patterns(&applies.workflows)).transpose()?;
        let key = document.key.as_deref().map(|source| Expression::compile(source, &ROOTS)).transpose();
        let key = key.map_err(|error| InvalidLimit { field: "key", problem: error.to_string() })?;
        Ok(Self { name, workflows, key })
    }

    pub fn matches(&self, workflow: &WorkflowId) -> bool {
        let patterns = self.workflows.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(workflow.as_str())))
    }

    /// The group in which this start counts.
    fn claim(&self, facts: &StartFacts<'_>) -> Result<SlotClaim, NoGroup> {
        let no_group = |problem: String| NoGroup { limit: self.name.clone(), problem };
        let group = match &self.key {
            None => GroupKey::default(),
            Some(key) => {
                let value = key.evaluate(facts).map_err(|error| no_group(format!("failed: {error}")))?;
                group_of(&value).map_err(|problem| no_group(problem.to_owned()))?
            }
        };
        Ok(SlotClaim { limit: self.name.clone(), group })
    }

    /// Keyed before unkeyed, fewer workflows before more, then by name.
    fn narrowness(&self, other: &Self) -> Ordering {
        let place = |rule: &Self| (rule.key.is_none(), rule.workflows.as_ref().map_or(usize::MAX, Vec::len));
        place(self).cmp(&place(other)).then_with(|| self.name.cmp(&other.name))
    }
}

/// The groups in which a start counts, the narrowest first.
pub fn claims(rules: &[LimitRule], facts: &StartFacts<'_>) -> Result<Vec<SlotClaim>, NoGroup> {
    let mut matching: Vec<&LimitRule> = rules.iter().filter(|rule| rule.matches(facts.workflow)).collect();
    matching.sort_by(|one, other| one.narrowness(other));
    matching.into_iter().map(|rule| rule.claim(facts)).collect()
}

/// Refuses more limits for one workflow than [`MATCHING_MAX`]. The most apply to a workflow that a limit names, or whose id
/// is one of their prefixes.
pub fn check_matching(rules: &[LimitRule]) -> Result<(), InvalidLimit> {
    let named = rules.iter().flat_map(|rule| rule.workflows.iter().flatten());
    for id in named.map(WorkflowPattern::stem).chain([""]) {
        let applies = |rule: &&LimitRule| {
            rule.workflows.as_ref().is_none_or(|patterns| patterns.iter().any(|it| it.matches(id)))
        };
        let count = rules.iter().filter(applies).count();
        let problem = format!("{count} limits would apply to one workflow: use at most {MATCHING_MAX}");
        require("applies_to", count <= MATCHING_MAX, problem)?;
    }
    Ok(())
}

fn check_numbers(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let LimitDocument { max_runs, rate, on_full, queue, .. } = document;
    let has_numbers = max_runs.is_some() || rate.is_some() || *on_full == OnFull::Debounce;
    require("max_runs", has_numbers, "a limit needs max_runs or rate, unless it debounces")?;
    require("max_runs", max_runs.is_none_or(|runs| runs <= RUNS_MAX_BOUND), "use at most 1000000000")?;
    if let Some(rate) = rate {
        within("rate.starts", Some(rate.starts), STARTS_MAX)?;
        within("rate.period_sec", Some(rate.period_sec), SECONDS_MAX)?;
        within("rate.burst", rate.burst, STARTS_MAX)?;
        let ahead = Rate::new(rate.starts, Duration::from_secs(rate.period_sec.into()), rate.burst).ahead;
        let problem = "the burst would take more than a hundred years at this rate: use a smaller one";
        require("rate.burst", ahead <= AHEAD_MAX, problem)?;
    }
    let needs_runs = matches!(on_full, OnFull::Join | OnFull::ReplaceRunning);
    require(
        "on_full",
        !needs_runs || max_runs.is_some_and(|runs| runs > 0),
        format!("{} needs max_runs of at least 1", on_full.name()),
    )?;
    let waits = !matches!(on_full, OnFull::Reject | OnFull::Join);
    require("queue", waits || queue.is_none(), format!("{} does not queue: leave it out", on_full.name()))?;
    check_debounce(document)?;
    check_queue(document)
}

fn check_debounce(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let LimitDocument { on_full, quiet_sec, max_delay_sec, .. } = document;
    if *on_full != OnFull::Debounce {
        let problem = format!("{} waits for no newer start: leave it out", on_full.name());
        require("quiet_sec", quiet_sec.is_none(), problem.clone())?;
        return require("max_delay_sec", max_delay_sec.is_none(), problem);
    }
    require("quiet_sec", quiet_sec.is_some(), "debounce needs it")?;
    within("quiet_sec", *quiet_sec, DELAY_SECONDS_MAX)?;
    within("max_delay_sec", *max_delay_sec, DELAY_SECONDS_MAX)?;
    let is_long = max_delay_sec.is_none_or(|delay| quiet_sec.is_some_and(|quiet| quiet <= delay));
    require("max_delay_sec", is_long, "use at least quiet_sec")
}

fn check_queue(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let Some(queue) = &document.queue else { return Ok(()) };
    within("queue.max", queue.max, QUEUED_MAX)?;
    within("queue.max_wait_sec", queue.max_wait_sec, SECONDS_MAX)
}

/// The document of the built-in limit: the tenant's live runs.
pub fn check_tenant_runs(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let LimitDocument { applies_to, key, max_runs, rate, on_full, .. } = document;
    require("applies_to", applies_to.is_none(), "tenant-runs applies to every workflow")?;
    require("key", key.is_none(), "tenant-runs has one group")?;
    require("rate", rate.is_none(), "tenant-runs has no rate: make a limit of another name")?;
    require("max_runs", max_runs.is_none_or(|runs| runs <= RUNS_MAX_BOUND), "use at most 1000000000")?;
    let is_simple = matches!(on_full, OnFull::Reject | OnFull::Queue);
    require("on_full", is_simple, "tenant-runs rejects or queues")?;
    check_debounce(document)?;
    check_queue(document)
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
        ];
        let claimed = claimed(&rules, "deploy-web", &json!({"repo": "a/b"})).unwrap();
        let expected = [("keyed", "a/b"), ("one", ""), ("two", ""), ("all", "")];
        assert_eq!(claimed, expected.map(|(limit, group)| (limit.to_owned(), group.to_owned())));
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
            (json!({"rate": rate(1, 1, 1), "on_full": "join"}), "on_full"),
            (json!({"max_runs": 0, "on_full": "replace_running"}), "on_full"),
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
        assert_eq!(check_matching(&rules[..MATCHING_MAX]), Ok(()));
        assert_eq!(
            check_matching(&rules).unwrap_err().field,
            "applies_to",
            "the longest prefix is one of all"
        );
    }
}
