//! Which documents are limits.

use std::time::Duration;

use super::document::{CountedRuns, LimitDocument, OnFull, QueueDocument, QueueOrder};
use super::group::Rate;
use super::{GroupKey, InvalidGroup, RUNS_MAX_BOUND};

const STARTS_MAX: u32 = 1_000_000;
const QUEUED_MAX: u32 = 1_000_000;
/// Microseconds that a burst may be ahead of its rate: a hundred years. Every store counts them exactly.
const AHEAD_MAX: u64 = 3_155_760_000_000_000;
/// One year.
const SECONDS_MAX: u32 = 31_536_000;
/// One week.
pub(super) const DELAY_SECONDS_MAX: u32 = 604_800;
/// Groups of a fair queue that may have weights of their own.
const WEIGHTS_MAX: usize = 100;
const WEIGHT_MAX: u32 = 1_000;
/// Characters of the name of a group in an error.
const GROUP_CHARS_SHOWN: usize = 80;

/// A document that is not a limit: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidLimit {
    pub field: &'static str,
    pub problem: String,
}

pub(super) fn require(
    field: &'static str,
    is_met: bool,
    problem: impl Into<String>,
) -> Result<(), InvalidLimit> {
    if is_met { Ok(()) } else { Err(InvalidLimit { field, problem: problem.into() }) }
}

fn within(field: &'static str, number: Option<u32>, most: u32) -> Result<(), InvalidLimit> {
    require(
        field,
        number.is_none_or(|number| (1..=most).contains(&number)),
        format!("use a number from 1 to {most}"),
    )
}

pub(super) fn check_numbers(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let LimitDocument { max_runs, rate, on_full, queue, count, .. } = document;
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
    // A child waits whatever happens to other starts, unless they are rejected; and each run may wait there that another
    // limit has queued.
    let waits = !matches!(on_full, OnFull::Reject | OnFull::Join) || *count == CountedRuns::All;
    require("queue", waits || queue.is_none(), format!("{} does not queue: leave it out", on_full.name()))?;
    let is_bounded = queue.as_ref().is_some_and(|queue| queue.max_wait_sec.is_some());
    let problem = "a limit that counts children needs it: two runs may wait for each other's children";
    require("queue.max_wait_sec", *count == CountedRuns::Root || is_bounded, problem)?;
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
    within("queue.max_wait_sec", queue.max_wait_sec, SECONDS_MAX)?;
    check_fair(queue)
}

fn check_fair(queue: &QueueDocument) -> Result<(), InvalidLimit> {
    let QueueDocument { order, fair_by, weights, .. } = queue;
    let is_fair = *order == QueueOrder::Fair;
    require(
        "queue.fair_by",
        !is_fair || fair_by.is_some(),
        "order fair needs it: say whose share a run is of",
    )?;
    require("queue.fair_by", is_fair || fair_by.is_none(), "only order fair has it")?;
    require("queue.weights", is_fair || weights.is_empty(), "only order fair has them")?;
    let count = weights.len();
    require("queue.weights", count <= WEIGHTS_MAX, format!("use at most {WEIGHTS_MAX}"))?;
    for (group, weight) in weights {
        let named: String = group.chars().take(GROUP_CHARS_SHOWN).collect();
        let problem = format!("group {named:?}: {InvalidGroup}");
        require("queue.weights", group.parse::<GroupKey>().is_ok(), problem)?;
        let problem = format!("group {named:?} has {weight}: use a number from 1 to {WEIGHT_MAX}");
        require("queue.weights", (1..=WEIGHT_MAX).contains(weight), problem)?;
    }
    Ok(())
}

/// The document of the built-in limit: the tenant's live runs.
pub fn check_tenant_runs(document: &LimitDocument) -> Result<(), InvalidLimit> {
    let LimitDocument { applies_to, key, max_runs, rate, on_full, count, .. } = document;
    require("applies_to", applies_to.is_none(), "tenant-runs applies to every workflow")?;
    require("key", key.is_none(), "tenant-runs has one group")?;
    require("rate", rate.is_none(), "tenant-runs has no rate: make a limit of another name")?;
    require("max_runs", max_runs.is_none_or(|runs| runs <= RUNS_MAX_BOUND), "use at most 1000000000")?;
    let problem = "tenant-runs counts root runs: make a limit of another name";
    require("count", *count == CountedRuns::Root, problem)?;
    let is_simple = matches!(on_full, OnFull::Reject | OnFull::Queue);
    require("on_full", is_simple, "tenant-runs rejects or queues")?;
    check_debounce(document)?;
    let is_fair = document.queue.as_ref().is_some_and(|queue| queue.order == QueueOrder::Fair);
    let problem =
        "tenant-runs has no fair queue: make a limit without a key, and give it max_runs and the queue";
    require("queue.order", !is_fair, problem)?;
    check_queue(document)
}
