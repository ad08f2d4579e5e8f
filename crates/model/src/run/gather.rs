//! Whether a turn may wait for more results, so that a storm of them costs few writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::advance::Advance;
use super::{Head, InboxEvent, RunStatus};
use crate::job::JobOutcome;
use crate::step::StepRun;
use crate::{StepKey, Timestamp};

/// How far turns are apart for each job that is out. A turn costs more the more steps its run has, and among many jobs
/// one result more is news that can wait; the last few are waited for not at all.
const APART_FOR_EACH_JOB: Duration = Duration::from_micros(50);

/// How long a turn on `inbox` may wait, at `now`, so that it follows the run's last turn no sooner than the number of
/// jobs that are out is worth. None: it is due.
///
/// A result after a silence is due at once, and so is the last one. Only a turn that
/// [only writes down](only_writes_down) may wait.
#[must_use]
pub fn wait_for_more(
    run: (&Head, &BTreeMap<StepKey, StepRun>),
    inbox: &[InboxEvent],
    now: Timestamp,
    longest: Duration,
) -> Option<Duration> {
    let (head, steps) = run;
    // Written by a clock that is ahead of the store's. What cannot be told is due.
    if now < head.updated_at {
        return None;
    }
    let since = now.since(head.updated_at);
    if since >= longest || !inbox.iter().all(is_success) {
        return None;
    }
    let out = steps.values().filter(|step| step.job_open).count().saturating_sub(inbox.len());
    let apart = APART_FOR_EACH_JOB.saturating_mul(u32::try_from(out).unwrap_or(u32::MAX)).min(longest);
    apart.checked_sub(since).filter(|wait| !wait.is_zero())
}

/// Whether this turn of a run that was `before` does nothing but write down the results in `inbox`: nobody could go on
/// because of it.
#[must_use]
pub fn only_writes_down(before: RunStatus, inbox: &[InboxEvent], turn: &Advance) -> bool {
    let reported: BTreeSet<&StepKey> = inbox.iter().filter_map(step_of).collect();
    // The step whose item this is counts its items.
    let is_reported = |key: &StepKey| {
        reported.contains(key) || (key.item.is_none() && reported.iter().any(|item| item.step == key.step))
    };
    turn.commands.is_empty() && turn.run.head.status == before && turn.changed.iter().all(is_reported)
}

fn is_success(event: &InboxEvent) -> bool {
    matches!(event, InboxEvent::Job { outcome: JobOutcome::Completed { .. }, .. })
}

fn step_of(event: &InboxEvent) -> Option<&StepKey> {
    match event {
        InboxEvent::Job { job, .. } => Some(&job.step),
        InboxEvent::Approval { .. }
        | InboxEvent::ApprovalAsked { .. }
        | InboxEvent::Cancel { .. }
        | InboxEvent::Retry { .. } => None,
    }
}
