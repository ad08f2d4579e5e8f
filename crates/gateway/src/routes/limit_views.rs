//! Limits as clients see them.

use std::fmt::Write as _;

use interlock_api::limits::ConfigScope;
use interlock_api::named_limits::{
    BlockedBy, ExplainView, FullBecause, GroupView, LimitUsageView, LimitView, MatchedLimit, PauseView,
    QuietView, RunWaitingFor, StartFate,
};
use interlock_backend::limits::{GroupUsage, LimitUsage};
use interlock_control::limit_usage::RunWait;
use interlock_control::limits::{Explanation, MatchedGroup};
use interlock_model::limit::GroupKey;
use interlock_model::limit::document::{LimitDocument, OnFull, Pause};
use interlock_model::limit::group::{Fullness, Quiet};
use interlock_model::limit::judge::Arrival;
use interlock_model::limit::place::Blocked;
use interlock_model::run::Head;
use interlock_model::why::{LimitWait, WaitOutcome};
use interlock_model::{LimitName, Timestamp, WorkflowId};

pub(super) fn limit_view(
    (name, scope, revision): (LimitName, ConfigScope, u64),
    (document, max_runs): (LimitDocument, Option<u32>),
    paused: Option<&Pause>,
    usage: LimitUsage,
) -> LimitView {
    let LimitUsage { groups, live, queued, debounced, has_more } = usage;
    LimitView {
        name,
        scope,
        document,
        revision,
        paused: paused.map(pause_view),
        usage: LimitUsageView { live, queued, debounced, max_runs, has_more },
        groups: groups.into_iter().map(group_view).collect(),
    }
}

pub(super) fn pause_view(pause: &Pause) -> PauseView {
    let Pause { by, at, reason } = pause.clone();
    PauseView { by, at: at.into(), reason }
}

fn group_view(usage: GroupUsage) -> GroupView {
    let GroupUsage { group, state, debounced } = usage;
    GroupView { group: group_name(&group), live: state.live, queued: state.queued, debounced }
}

/// The only group of a limit without a key has no name.
fn group_name(group: &GroupKey) -> Option<String> {
    Some(group.to_string()).filter(|name| !name.is_empty())
}

pub(super) fn blocked_by(blocked: &Blocked) -> BlockedBy {
    BlockedBy {
        reason: blocked.reason(),
        limit: blocked.limit.clone(),
        group: group_name(&blocked.group),
        full: because(blocked.fullness),
        live: blocked.live,
        max_runs: blocked.runs_max,
        queued: blocked.queued,
        next_at: match blocked.fullness {
            Fullness::Rate { next_at } => Some(next_at.into()),
            Fullness::Slots | Fullness::Paused | Fullness::Others | Fullness::Quiet(_) => None,
        },
        quiet: match blocked.fullness {
            Fullness::Quiet(Quiet { until, latest, starts }) => {
                Some(QuietView { until: until.into(), latest: latest.into(), starts })
            }
            Fullness::Slots | Fullness::Rate { .. } | Fullness::Paused | Fullness::Others => None,
        },
    }
}

/// The same as JSON.
pub(super) fn blocked_json(blocked: &Blocked) -> String {
    serde_json::to_string(&blocked_by(blocked)).unwrap_or_default()
}

fn because(fullness: Fullness) -> FullBecause {
    match fullness {
        Fullness::Slots => FullBecause::Slots,
        Fullness::Rate { .. } => FullBecause::Rate,
        Fullness::Paused => FullBecause::Paused,
        Fullness::Others => FullBecause::Others,
        Fullness::Quiet(_) => FullBecause::Quiet,
    }
}

pub(super) fn waiting_for(wait: &RunWait, head: &Head, now: Timestamp) -> RunWaitingFor {
    let RunWait { queued, blocked, pause } = wait;
    let outcome = WaitOutcome::Queued { position: queued.position };
    let detail = LimitWait { blocked, outcome, now, oldest: None, pause: pause.as_ref() }.sentence();
    RunWaitingFor {
        blocked_by: blocked_by(blocked),
        position: queued.position,
        since: queued.waiting.place.at.into(),
        until: head.queued_until.map(Into::into),
        detail,
    }
}

pub(super) fn explain_view(workflow: WorkflowId, explanation: &Explanation) -> ExplainView {
    let Explanation { taken_in_by, groups, now, .. } = explanation;
    let (outcome, deciding) = deciding(explanation);
    let detail = match &deciding {
        None => "it would start now".to_owned(),
        Some((blocked, outcome)) => {
            LimitWait { blocked, outcome: *outcome, now: *now, oldest: None, pause: None }.sentence()
        }
    };
    ExplainView {
        workflow,
        outcome,
        decided_by: deciding.map(|(blocked, _)| blocked.limit),
        taken_in_by: taken_in_by.map(|(run, _)| run),
        detail,
        limits: groups.iter().map(matched_limit).collect(),
        warnings: warnings(groups),
    }
}

/// What a start would come to, and the obstacle that decides, if there is one.
pub(super) fn deciding(explanation: &Explanation) -> (StartFate, Option<(Blocked, WaitOutcome)>) {
    let Explanation { arrival, taken_in_by, groups, now } = explanation;
    let (fate, decides) = fate(*arrival, taken_in_by.map(|(_, quiet)| quiet), *now);
    let outcome = match fate {
        StartFate::Reject => WaitOutcome::Rejected,
        StartFate::QueueFull => WaitOutcome::QueueFull,
        StartFate::Start
        | StartFate::Queue
        | StartFate::Join
        | StartFate::Debounce
        | StartFate::ReplaceQueued
        | StartFate::ReplaceRunning => WaitOutcome::Queued { position: None },
    };
    let blocked = decides.and_then(|(at, fullness)| Some(groups.get(at)?.blocked(fullness)));
    (fate, blocked.map(|blocked| (blocked, outcome)))
}

/// The outcome, and the group that decides, with why it is full.
fn fate(
    arrival: Arrival,
    taken_in_by: Option<Quiet>,
    now: Timestamp,
) -> (StartFate, Option<(usize, Fullness)>) {
    match arrival {
        Arrival::Debounce { at, rule } => {
            let quiet = taken_in_by.unwrap_or_else(|| rule.after_start(now, now, 1));
            (StartFate::Debounce, Some((at, Fullness::Quiet(quiet))))
        }
        Arrival::Start => (StartFate::Start, None),
        Arrival::Join { at, fullness } => (StartFate::Join, Some((at, fullness))),
        Arrival::Reject { at, fullness } => (StartFate::Reject, Some((at, fullness))),
        Arrival::Queue { at, fullness } => (StartFate::Queue, Some((at, fullness))),
        Arrival::QueueFull { at, fullness } => (StartFate::QueueFull, Some((at, fullness))),
        Arrival::ReplaceQueued { at, fullness } => (StartFate::ReplaceQueued, Some((at, fullness))),
        Arrival::ReplaceRunning { at, fullness } => (StartFate::ReplaceRunning, Some((at, fullness))),
    }
}

fn matched_limit(matched: &MatchedGroup) -> MatchedLimit {
    let MatchedGroup { claim, ruled, fullness } = matched;
    MatchedLimit {
        limit: claim.limit.clone(),
        group: group_name(&claim.group),
        on_full: ruled.rule.queue.on_full,
        live: ruled.group.live,
        max_runs: ruled.rule.runs_max,
        queued: ruled.group.queued,
        full: fullness.map(because),
    }
}

/// At most one limit should do something else than reject or queue: the narrowest decides, and the others queue.
fn warnings(groups: &[MatchedGroup]) -> Vec<String> {
    let is_special =
        |it: &&MatchedGroup| !matches!(it.ruled.rule.queue.on_full, OnFull::Reject | OnFull::Queue);
    let special: Vec<_> = groups.iter().filter(is_special).collect();
    let [first, others @ ..] = &special[..] else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let mut named = String::new();
    for MatchedGroup { claim, ruled, .. } in &special {
        let comma = if named.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _ = write!(named, "{comma}`{}` ({})", claim.limit, ruled.rule.queue.on_full.name());
    }
    let decides = &first.claim.limit;
    vec![format!(
        "several limits that apply have a policy other than reject and queue: {named}. \
         `{decides}` is the narrowest and decides; a start that only the others stop waits in their queues"
    )]
}
