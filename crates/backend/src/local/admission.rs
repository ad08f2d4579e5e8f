//! Admission: the key, the definition, the cap, and the run with all that belongs to it, in one decision.

use interlock_model::admission::{
    FirstTurn, KeyRecord, KeyVerdict, RunRequest, StartOutcome, StartPlan, Usage,
};
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::EffectiveLimits;
use interlock_model::limit::document::QueueOrder;
use interlock_model::limit::group::{Fullness, Quiet};
use interlock_model::limit::judge::{Arrival, judge};
use interlock_model::limit::place::{Debounced, RunSlots};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Head, RunStatus};
use interlock_model::{RunId, Timestamp};

use super::draft::Draft;
use super::rows::{self, WorkflowHead};
use super::slots::{LimitedTenant, QueueEntry};
use super::store::Decide;
use super::tables::{Decided, Decision, Table, View, read};
use super::{debounce, inbox, reservations, slots, tenants};
use crate::StoreError;
use crate::verbs::Admit;

impl Decide for Admit {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<StartOutcome> {
        let start = &*self.request;
        let limited = LimitedTenant::read(view, &start.tenant)?;
        let usage = limited.usage();
        if let Some(answer) = by_key(view, now, self, usage)? {
            return Ok(Decision::unchanged(answer));
        }
        // A caller that lost the reply asks again with the same run id. Neither a new definition nor a tenant that is full
        // by now takes back what it was given.
        if self.is_repeat && exists(view, start)? {
            return Ok(Decision::unchanged(accepted(view, now, self, usage)?));
        }
        // What was admitted, and deleted before the repeat, stays deleted.
        if self.is_repeat && view.get(Table::DeletedRuns, &rows::run(&start.tenant, start.run))?.is_some() {
            return Ok(Decision::unchanged(StartOutcome::Replayed { run: start.run, status: None, usage }));
        }
        reservations::check_admission_fence(view, now, self)?;
        let head: Option<WorkflowHead> =
            read(view, Table::WorkflowHeads, &rows::workflow(&start.tenant, &start.workflow))?;
        let current = head.filter(|head| !head.is_deleted).map(|head| head.version);
        let Some(plan) = self.plan.as_ref().filter(|plan| current == Some(plan.workflow_version)) else {
            return Ok(Decision::unchanged(StartOutcome::DefinitionChanged { current, usage }));
        };
        if limited.tenant.limits_revision != plan.limits_revision {
            return Ok(Decision::unchanged(StartOutcome::LimitsChanged { usage }));
        }
        let mut draft = Draft::new(view, now, &start.tenant);
        let arrived = arrive(&mut draft, (self, plan), usage)?;
        if let Arrived::Answered(answer) = arrived {
            // The first refusal reads nothing but the tenant and the definition.
            return draft.answer(answer);
        }
        if !self.is_repeat && exists(view, start)? {
            // Another start has this id. To answer that this one was admitted would be wrong.
            return Err(StoreError::Conflict(format!("there is a run {} already", start.run)));
        }
        match arrived {
            Arrived::Waits(waits) => queue(draft, (self, plan), &limited, waits),
            Arrived::Starts | Arrived::Answered(_) => create(draft, (self, plan), &limited),
        }
    }
}

/// What becomes of a start that nothing but limits may stop.
enum Arrived {
    Starts,
    Waits(Waits),
    Answered(StartOutcome),
}

/// Where a new run waits.
struct Waits {
    claim: SlotClaim,
    fullness: Fullness,
    how: WaitsHow,
}

enum WaitsHow {
    /// For newer starts.
    Debounced(Quiet),
    Behind,
    InPlaceOfLast,
    AfterRunning(RunId),
}

/// Decides by the groups that the start counts in.
fn arrive(
    draft: &mut Draft<'_>,
    (admit, plan): (&Admit, &StartPlan),
    usage: Usage,
) -> Result<Arrived, StoreError> {
    let (met, victim) = draft.met_groups(&plan.claims)?;
    let claim_at = |at: usize| plan.claims.get(at).cloned().unwrap_or_else(SlotClaim::tenant_runs);
    let mut arrival = judge(&met, true, draft.now);
    if let Arrival::Join { at, .. } = arrival {
        let claim = claim_at(at);
        if let Some(run) = draft.run_to_join(&claim, &admit.request.workflow)? {
            return join(draft, admit, (run, &claim), usage).map(Arrived::Answered);
        }
        arrival = judge(&met, false, draft.now);
    } else if let Arrival::Debounce { at, rule } = arrival {
        if let Some(found) = draft.run_to_debounce(&claim_at(at), &admit.request.workflow)? {
            return debounce::take_in(draft, (admit, plan), found, rule).map(Arrived::Answered);
        }
        arrival = judge(&met, false, draft.now);
    }
    let waits = |at, fullness, how| Ok(Arrived::Waits(Waits { claim: claim_at(at), fullness, how }));
    match arrival {
        Arrival::Start => Ok(Arrived::Starts),
        Arrival::Debounce { at, rule } => {
            let quiet = rule.after_start(draft.now, draft.now, 1);
            waits(at, Fullness::Quiet(quiet), WaitsHow::Debounced(quiet))
        }
        Arrival::Queue { at, fullness } => waits(at, fullness, WaitsHow::Behind),
        Arrival::ReplaceQueued { at, fullness } => waits(at, fullness, WaitsHow::InPlaceOfLast),
        Arrival::ReplaceRunning { at, fullness } => {
            waits(at, fullness, victim.map_or(WaitsHow::Behind, WaitsHow::AfterRunning))
        }
        Arrival::QueueFull { at, fullness } => {
            let blocked = draft.blocked(&claim_at(at), fullness)?;
            Ok(Arrived::Answered(StartOutcome::QueueFull { blocked, usage }))
        }
        Arrival::Reject { at, fullness } | Arrival::Join { at, fullness } => {
            let claim = claim_at(at);
            let is_cap = claim == SlotClaim::tenant_runs() && fullness != Fullness::Paused;
            let blocked = draft.blocked(&claim, fullness)?;
            let slot_flow = blocked.slot_flow;
            Ok(Arrived::Answered(if is_cap {
                StartOutcome::AtCapacity { usage, slot_flow }
            } else {
                StartOutcome::LimitReached { blocked, usage }
            }))
        }
    }
}

/// Lets a run that exists answer the start. Its key stands for that run from now on.
fn join(
    draft: &mut Draft<'_>,
    admit: &Admit,
    (run, claim): (RunId, &SlotClaim),
    usage: Usage,
) -> Result<StartOutcome, StoreError> {
    let start = &*admit.request;
    let blocked = draft.blocked(claim, Fullness::Slots)?;
    if start.intent.is_some() {
        if !draft.count_joined_key(run)? {
            return Ok(StartOutcome::QueueFull { blocked, usage });
        }
        let limits = LimitedTenant::read(draft.view, &start.tenant)?.limits;
        write_key(draft, start, run, &limits);
    }
    let status = inbox::status(draft.view, &start.tenant, run)?.unwrap_or(RunStatus::Pending);
    Ok(StartOutcome::Joined { run, status, blocked, usage })
}

/// The answer to a start that has made its run before.
fn accepted(
    view: &dyn View,
    now: Timestamp,
    admit: &Admit,
    usage: Usage,
) -> Result<StartOutcome, StoreError> {
    let RunRequest { tenant, run, .. } = &*admit.request;
    let Some(queued) = slots::queued_run(view, tenant, *run)? else { return Ok(admit.admitted(usage)) };
    let claim = SlotClaim { limit: queued.waiting.limit, group: queued.waiting.group };
    let mut draft = Draft::new(view, now, tenant);
    let met = draft.group(&claim)?;
    let fullness = queued.quiet.map(Fullness::Quiet).or_else(|| met.group.fullness(&met.rule, now));
    let fullness = fullness.unwrap_or(Fullness::Others);
    let blocked = draft.blocked(&claim, fullness)?;
    Ok(StartOutcome::Queued { run: *run, position: queued.position, blocked, usage })
}

/// Whether there is a run of this id.
fn exists(view: &dyn View, start: &RunRequest) -> Result<bool, StoreError> {
    Ok(view.get(Table::Starts, &rows::run(&start.tenant, start.run))?.is_some())
}

fn by_key(
    view: &dyn View,
    now: Timestamp,
    admit: &Admit,
    usage: Usage,
) -> Result<Option<StartOutcome>, StoreError> {
    let start = &*admit.request;
    let Some(intent) = &start.intent else { return Ok(None) };
    match reservations::verdict(view, now, (&start.tenant, &start.workflow), intent)? {
        // A reservation is a hint. A start that decides in one step needs none, and passes over another's.
        KeyVerdict::Fresh | KeyVerdict::Reserved(..) => Ok(None),
        KeyVerdict::Mismatch(run) => Ok(Some(StartOutcome::KeyReused { run, usage })),
        KeyVerdict::Replay(run) if run == start.run => accepted(view, now, admit, usage).map(Some),
        KeyVerdict::Replay(run) => {
            let status = inbox::status(view, &start.tenant, run)?;
            Ok(Some(StartOutcome::Replayed { run, status, usage }))
        }
    }
}

fn create(
    mut draft: Draft<'_>,
    (admit, plan): (&Admit, &StartPlan),
    limited: &LimitedTenant,
) -> Decided<StartOutcome> {
    let start = &*admit.request;
    let (tenant, run, now) = (&start.tenant, start.run, draft.now);
    // The first turn was decided a moment ago, and the run was not created after its first event.
    let created_at = plan.first_turn.as_ref().map_or(now, |turn| turn.head.updated_at.min(now));
    let begins = Event::new(created_at, EventKind::RunStatus).with_status("pending");
    write_start(&mut draft, (start, plan), (created_at, begins), &limited.limits);
    if let Some(turn) = &plan.first_turn {
        begin(&mut draft, start, turn);
    } else {
        draft.put(Table::Heads, rows::run(tenant, run), &Head::admitted(now));
        draft.mark(Table::Ready, rows::run(tenant, run));
    }
    if plan.first_turn.as_ref().is_some_and(|turn| turn.head.status.is_final()) {
        // It needs no slot; but a tenant is listed from its first run on.
        tenants::register(draft.view, &mut draft.changes, tenant)?;
        draft.put(Table::Tenants, tenant.as_str(), &limited.tenant);
    } else {
        draft.put_run_slots(run, &slots_of(plan));
        draft.acquire_slots(run, &start.workflow, &plan.claims, None)?;
        draft.note_approvals(run, plan.status() == RunStatus::Waiting, now)?;
    }
    let usage = Usage { runs_active: draft.tenant()?.runs_active, ..limited.usage() };
    draft.answer(admit.admitted(usage))
}

/// Writes a run that waits for slots. The engine begins it when it has them.
fn queue(
    mut draft: Draft<'_>,
    (admit, plan): (&Admit, &StartPlan),
    limited: &LimitedTenant,
    Waits { claim, fullness, how }: Waits,
) -> Decided<StartOutcome> {
    let start = &*admit.request;
    let (run, now) = (start.run, draft.now);
    let blocked = draft.blocked(&claim, fullness)?;
    let quiet_until = if let WaitsHow::Debounced(quiet) = how { Some(quiet.until) } else { None };
    let until = quiet_until.unwrap_or(now) + draft.group(&claim)?.rule.queue.wait_max;
    let begins = match how {
        WaitsHow::Debounced(_) => Event::debounced(now),
        WaitsHow::Behind | WaitsHow::InPlaceOfLast | WaitsHow::AfterRunning(_) => {
            Event::new(now, EventKind::RunStatus).with_status("queued")
        }
    };
    write_start(&mut draft, (start, plan), (now, begins), &limited.limits);
    draft.put(Table::Heads, rows::run(&start.tenant, run), &Head::queued(now, until));
    draft.mark(Table::Timers, rows::timed(&start.tenant, until, &run));
    let place = draft.next_place(start.priority)?;
    let entry = QueueEntry { run, workflow: start.workflow.clone(), place };
    draft.put_run_slots(run, &slots_of(plan));
    let before = u64::from(blocked.queued);
    let position = match how {
        WaitsHow::Debounced(quiet) => {
            let (SlotClaim { limit, group }, workflow) = (claim, start.workflow.clone());
            draft.debounce(
                run,
                Debounced { limit, group, workflow, place, first_at: now, quiet, newest: Some(run) },
            )?;
            None
        }
        WaitsHow::Behind => {
            draft.enter_queue(&entry, (&claim, fullness))?;
            position_behind(&mut draft, (&claim, run), before)?
        }
        WaitsHow::InPlaceOfLast => {
            draft.enter_queue(&entry, (&claim, fullness))?;
            draft.supersede_last(&claim, run)?;
            position_behind(&mut draft, (&claim, run), before.saturating_sub(1))?
        }
        WaitsHow::AfterRunning(victim) => {
            draft.replace_running(&entry, (&claim, victim))?;
            Some(1)
        }
    };
    let usage = limited.usage();
    draft.answer(StartOutcome::Queued { run, position, blocked, usage })
}

/// The groups that the run counts in.
pub(super) fn slots_of(plan: &StartPlan) -> RunSlots {
    RunSlots { claims: plan.claims.clone(), fair: plan.fair.clone(), ..RunSlots::default() }
}

/// The position of a run that has just entered a queue behind this number of runs.
fn position_behind(
    draft: &mut Draft<'_>,
    (claim, run): (&SlotClaim, RunId),
    before: u64,
) -> Result<Option<u64>, StoreError> {
    match draft.group(claim)?.rule.queue.order {
        QueueOrder::Fifo => Ok(Some(before + 1)),
        // It would have to be counted.
        QueueOrder::Priority => Ok(None),
        QueueOrder::Fair => {
            let waiting = draft.run_slots(run)?.and_then(|slots| slots.waiting);
            waiting.map_or(Ok(None), |waiting| draft.position(&waiting, run))
        }
    }
}

/// Writes what was asked, the steps that a rerun copies, the first event and the key.
fn write_start(
    draft: &mut Draft<'_>,
    (start, plan): (&RunRequest, &StartPlan),
    (created_at, begins): (Timestamp, Event),
    limits: &EffectiveLimits,
) {
    let (tenant, run) = (&start.tenant, start.run);
    draft.put(Table::Starts, rows::run(tenant, run), &start.start(plan.workflow_version, created_at));
    for (key, step) in &plan.copied_steps {
        draft.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    draft.put(Table::Timeline, rows::numbered(tenant, run, 1), &begins);
    write_key(draft, start, run, limits);
}

/// Lets the start's key, if it has one, stand for a run.
pub(super) fn write_key(draft: &mut Draft<'_>, start: &RunRequest, run: RunId, limits: &EffectiveLimits) {
    let Some(intent) = &start.intent else { return };
    let record = KeyRecord {
        run,
        fingerprint: intent.fingerprint.clone(),
        expires_at: limits.key_retention.map(|time| draft.now + time),
        reservation: None,
    };
    draft.put(
        Table::IdempotencyKeys,
        rows::idempotency(&start.tenant, &start.workflow, &intent.key),
        &record,
    );
}

/// Writes the first turn with the run.
fn begin(draft: &mut Draft<'_>, start: &RunRequest, turn: &FirstTurn) {
    let (tenant, run) = (&start.tenant, start.run);
    draft.put(Table::Heads, rows::run(tenant, run), &turn.head);
    for (key, step) in &turn.steps {
        draft.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    for (number, event) in (2..).zip(&turn.events) {
        draft.put(Table::Timeline, rows::numbered(tenant, run, number), event);
    }
    for job in &turn.dispatched {
        draft.dispatch(job);
    }
    for held in &turn.held {
        draft.hold_job(held);
    }
    for approval in &turn.approvals_opened {
        draft.open_approval(approval);
    }
    if let Some(at) = turn.head.due_at {
        draft.mark(Table::Timers, rows::timed(tenant, at, &run));
    }
}
