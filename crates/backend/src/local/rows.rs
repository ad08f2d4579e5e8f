//! Keys of rows, and the rows that only the store knows.

use std::fmt::Display;

use interlock_model::event::EventWaiter;
use interlock_model::job::NewJob;
use interlock_model::limit::GroupKey;
use interlock_model::limit::fair::FairGroup;
use interlock_model::limit::place::{Debounced, Waiting};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::queue::Kind;
use interlock_model::run::InboxEvent;
use interlock_model::{
    EventId, Fence, InstanceId, JobId, LimitName, RolloutId, RunId, TenantId, Timestamp, Topic, WorkerId,
    WorkflowId,
};
use serde::{Deserialize, Serialize};

/// The row of [`System`](super::Table::System) with the snapshot of the online workers.
pub(super) const WORKERS_SNAPSHOT: &str = "workers_snapshot";

/// The current version of a workflow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct WorkflowHead {
    pub version: u32,
    pub is_deleted: bool,
    pub saved_at: Timestamp,
}

/// Who advances a run now, or why no instance does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunLease {
    pub holder: InstanceId,
    pub fence: Fence,
    pub expires_at: Timestamp,
    /// Which try in a row this is; of a suspect, which one was the last to begin. A commit and a release end the row, so
    /// that of an expired lease says how many turns in a row were abandoned.
    #[serde(default = "first_try")]
    pub tries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined_at: Option<Timestamp>,
    /// A request to cancel a quarantined run, which is all that it may still be acquired for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<InboxEvent>,
}

fn first_try() -> u32 {
    1
}

pub(super) fn of_tenant(tenant: &TenantId) -> String {
    format!("{tenant}/")
}

pub(super) fn workflow(tenant: &TenantId, id: &WorkflowId) -> String {
    format!("{tenant}/{id}")
}

pub(super) fn workflow_version(tenant: &TenantId, id: &WorkflowId, version: u32) -> String {
    format!("{tenant}/{id}/{version:010}")
}

pub(super) fn idempotency(
    tenant: &TenantId,
    workflow: &WorkflowId,
    key: &interlock_model::IdempotencyKey,
) -> String {
    format!("{tenant}/{workflow}/{key}")
}

pub(super) fn run(tenant: &TenantId, run: RunId) -> String {
    format!("{tenant}/{run}")
}

pub(super) fn of_run(tenant: &TenantId, run: RunId) -> String {
    format!("{tenant}/{run}/")
}

/// A run that a step of another one waits for.
pub(super) fn child(tenant: &TenantId, parent: RunId, child: RunId) -> String {
    format!("{tenant}/{parent}/{child}")
}

pub(super) fn limit(tenant: &TenantId, limit: &LimitName) -> String {
    format!("{tenant}/{limit}")
}

pub(super) fn group(tenant: &TenantId, claim: &SlotClaim) -> String {
    format!("{tenant}/{}/{}", claim.limit, claim.group.escaped())
}

pub(super) fn limit_slots(tenant: &TenantId, claim: &SlotClaim) -> String {
    format!("{}/", group(tenant, claim))
}

pub(super) fn limit_slot(tenant: &TenantId, claim: &SlotClaim, run: RunId) -> String {
    format!("{}/{run}", group(tenant, claim))
}

/// All queues of a limit.
pub(super) fn limit_queues(tenant: &TenantId, limit: &LimitName) -> String {
    format!("{tenant}/{limit}/")
}

pub(super) fn run_queue(tenant: &TenantId, claim: &SlotClaim) -> String {
    format!("{}/", group(tenant, claim))
}

/// The place of a run that waits.
pub(super) fn queued_run(tenant: &TenantId, waiting: &Waiting, run: RunId) -> String {
    let (all, score) = (run_queue(tenant, &waiting.claim()), waiting.score_of_all());
    format!("{all}{score:015}/{:015}/{run}", waiting.place.arrival)
}

/// Where the runs of a queue begin that have this score.
pub(super) fn queue_from(tenant: &TenantId, claim: &SlotClaim, score: u64) -> String {
    format!("{}{score:015}", run_queue(tenant, claim))
}

pub(super) fn fair_group(tenant: &TenantId, claim: &SlotClaim, fair: &GroupKey) -> String {
    format!("{}/{}", group(tenant, claim), fair.escaped())
}

/// The queue of a fair group.
pub(super) fn fair_queue(tenant: &TenantId, claim: &SlotClaim, fair: &GroupKey) -> String {
    format!("{}/", fair_group(tenant, claim, fair))
}

/// The place of a run that waits in a fair group.
pub(super) fn fair_entry(tenant: &TenantId, waiting: &Waiting, fair: &GroupKey, run: RunId) -> String {
    let (queue, Waiting { score, place, .. }) = (fair_queue(tenant, &waiting.claim(), fair), waiting);
    format!("{queue}{score:015}/{:015}/{run}", place.arrival)
}

/// The score in the key of such a place.
pub(super) fn fair_score_of(key: &str) -> Option<u64> {
    key.split('/').nth(4)?.parse().ok()
}

/// Whether runs of a fair group wait, or only its charge is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FairState {
    Waits,
    Remembered,
}

impl FairState {
    pub(super) fn of(group: &FairGroup) -> Self {
        if group.queued > 0 { Self::Waits } else { Self::Remembered }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Remembered => "remembered",
        }
    }
}

/// The turns of the fair groups in this state.
pub(super) fn fair_turns(tenant: &TenantId, claim: &SlotClaim, state: FairState) -> String {
    format!("{}/{}/", group(tenant, claim), state.name())
}

pub(super) fn fair_turn(
    tenant: &TenantId,
    claim: &SlotClaim,
    (state, known): (FairState, &FairGroup),
    fair: &GroupKey,
) -> String {
    let FairGroup { charge, turn, .. } = known;
    format!("{}{charge:020}/{turn:015}/{}", fair_turns(tenant, claim, state), fair.escaped())
}

/// The charge in the key of a turn, its number among equals, and the group.
pub(super) fn turn_of(key: &str) -> Option<(u64, u64, GroupKey)> {
    let mut parts = key.split('/').skip(4);
    let (charge, turn) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((charge, turn, GroupKey::unescape(parts.next()?)?))
}

/// The group in a key of its row, its queue or its slots.
pub(super) fn claim_of_group(key: &str) -> Option<SlotClaim> {
    let mut parts = key.split('/').skip(1);
    Some(SlotClaim { limit: parts.next()?.parse().ok()?, group: GroupKey::unescape(parts.next()?)? })
}

/// The score in the key of a place.
pub(super) fn score_of(key: &str) -> Option<u64> {
    key.split('/').nth(3)?.parse().ok()
}

/// When the slots of a group are granted.
pub(super) fn limit_timer(tenant: &TenantId, at: Timestamp, claim: &SlotClaim) -> String {
    format!("{tenant}/{:015}/{}/{}", at.as_millis(), claim.limit, claim.group.escaped())
}

/// When the slots of all groups of a limit are granted, or of those behind one.
pub(super) fn limit_sweep(
    tenant: &TenantId,
    at: Timestamp,
    limit: &LimitName,
    after: Option<&str>,
) -> String {
    let after = after.map(|after| format!("/{after}")).unwrap_or_default();
    // No escaped group begins with a star.
    format!("{tenant}/{:015}/{limit}/*{after}", at.as_millis())
}

/// All that belongs to a group.
pub(super) fn group_rows(tenant: &TenantId, limit: &LimitName, group: &GroupKey) -> String {
    format!("{tenant}/{limit}/{}/", group.escaped())
}

/// The runs of a workflow that wait for newer starts in a group.
pub(super) fn debounced_runs(tenant: &TenantId, claim: &SlotClaim, workflow: &WorkflowId) -> String {
    format!("{}/{workflow}/", group(tenant, claim))
}

pub(super) fn debounced_run(tenant: &TenantId, debounced: &Debounced, run: RunId) -> String {
    format!("{}{run}", debounced_runs(tenant, &debounced.claim(), &debounced.workflow))
}

/// When the quiet period of a run ends.
pub(super) fn quiet_timer(tenant: &TenantId, debounced: &Debounced, run: RunId) -> String {
    // No escaped group begins with a plus.
    format!("{tenant}/{:015}/{}/+{run}", debounced.quiet.until.as_millis(), debounced.limit)
}

/// What a timer of a limit grants.
pub(super) enum LimitTimer {
    /// The quiet period of this run ends.
    Quiet(RunId),
    Group(SlotClaim),
    All {
        limit: LimitName,
        after: Option<String>,
    },
}

impl LimitTimer {
    pub(super) fn read(key: &str) -> Option<Self> {
        let mut parts = key.split('/').skip(2);
        let (limit, group) = (parts.next()?.parse().ok()?, parts.next()?);
        if let Some(run) = group.strip_prefix('+') {
            return Some(Self::Quiet(run.parse().ok()?));
        }
        if group == "*" {
            return Some(Self::All { limit, after: parts.next().map(str::to_owned) });
        }
        Some(Self::Group(SlotClaim { limit, group: GroupKey::unescape(group)? }))
    }
}

pub(super) fn step(tenant: &TenantId, run: RunId, step: &interlock_model::StepKey) -> String {
    format!("{tenant}/{run}/{step}")
}

pub(super) fn run_event(tenant: &TenantId, run: RunId, event: &EventId) -> String {
    format!("{tenant}/{run}/{event}")
}

/// Those that wait for what is sent to a key. `place`: its name and the key.
pub(super) fn event_waiters(tenant: &TenantId, place: &str) -> String {
    format!("{tenant}/{place}/")
}

pub(super) fn event_waiter(tenant: &TenantId, run: RunId, waiter: &EventWaiter) -> String {
    format!("{}{run}/{}", event_waiters(tenant, &waiter.place()), waiter.step)
}

pub(super) fn keyed_event(tenant: &TenantId, event: &EventId) -> String {
    format!("{tenant}/{event}")
}

/// The place of an event that is kept for a key.
pub(super) fn kept_event(tenant: &TenantId, place: &str, sent_at: Timestamp, event: &EventId) -> String {
    format!("{tenant}/{place}/{:015}/{event}", sent_at.as_millis())
}

pub(super) fn numbered(tenant: &TenantId, run: RunId, number: u64) -> String {
    format!("{tenant}/{run}/{number:010}")
}

pub(super) fn job(tenant: &TenantId, job: &JobId) -> String {
    format!("{tenant}/{job}")
}

/// The jobs of one run have neighbouring keys.
pub(super) fn jobs_of_run(tenant: &TenantId, run: RunId) -> (String, String) {
    // ';' is the character after ':'.
    (format!("{tenant}/{run}:"), format!("{tenant}/{run};"))
}

/// The place of a job that was dispatched then and waits.
pub(super) fn queued(tenant: &TenantId, job: &NewJob, dispatched_at: Timestamp) -> String {
    let place = job.place(dispatched_at).as_millis();
    format!("{}{place:015}/{}", queue(tenant, &job.topic, &job.kind()), job.id)
}

pub(super) fn queue(tenant: &TenantId, topic: &Topic, kind: &Kind) -> String {
    if kind.is_usual() {
        return format!("{tenant}/{topic}/");
    }
    format!("{tenant}/{topic}+{}/", kind.as_str())
}

/// The queues of all kinds of a topic but the usual one have neighbouring keys.
pub(super) fn kinds(tenant: &TenantId, topic: &Topic) -> (String, String) {
    // ',' is the character after '+'.
    (format!("{tenant}/{topic}+"), format!("{tenant}/{topic},"))
}

/// The kind in a key between those.
pub(super) fn kind_of(key: &str) -> Option<Kind> {
    let (_, kind) = key.split('/').nth(1)?.split_once('+')?;
    Some(Kind::written(kind))
}

/// The key of a time-ordered table.
pub(super) fn timed(tenant: &TenantId, at: Timestamp, what: &impl Display) -> String {
    format!("{tenant}/{:015}/{what}", at.as_millis())
}

pub(super) fn throttle(tenant: &TenantId, rule: &interlock_model::Tag) -> String {
    format!("{tenant}/{rule}")
}

/// The first key of a time-ordered table that is later than `now`.
pub(super) fn after(tenant: &TenantId, now: Timestamp) -> String {
    format!("{tenant}/{:015}", now.as_millis() + 1)
}

pub(super) fn worker(tenant: &TenantId, id: &WorkerId) -> String {
    format!("{tenant}/{id}")
}

/// What comes after the last '/' of a key.
pub(super) fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// What comes after the first '/' of a key: its place among its tenant's rows.
pub(super) fn after_tenant(key: &str) -> Option<&str> {
    key.split_once('/').map(|(_, place)| place)
}

/// What comes before the first '/' of a key.
pub(super) fn first_part(key: &str) -> &str {
    key.split('/').next().unwrap_or(key)
}

/// The moment in a key of a time-ordered table.
pub(super) fn time_of(key: &str) -> Option<Timestamp> {
    key.split('/').nth(1)?.parse().ok().map(Timestamp::from_millis)
}

pub(super) fn figures_of(rollout: &RolloutId) -> String {
    format!("{rollout}/")
}

pub(super) fn figures(rollout: &RolloutId, instance: &InstanceId) -> String {
    format!("{rollout}/{instance}")
}
