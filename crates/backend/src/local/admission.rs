//! Admission: the key, the definition, the cap, and the run with all that belongs to it, in one decision.

use interlock_model::Timestamp;
use interlock_model::admission::{
    FirstTurn, KeyRecord, KeyVerdict, RunRequest, StartOutcome, StartPlan, Usage,
};
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::OnFull;
use interlock_model::run::Head;

use super::draft::Draft;
use super::rows::{self, WorkflowHead};
use super::slots::LimitedTenant;
use super::store::Decide;
use super::tables::{Decided, Decision, Table, View, read};
use super::{inbox, reservations, slots, tenants};
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
            return Ok(Decision::unchanged(accepted(view, self, usage)?));
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
        // Those that wait are not overtaken.
        let is_full = usage.free() == 0 || limited.tenant.runs_queued > 0;
        if let Some(refusal) = limited.refusal().filter(|_| is_full) {
            // The first refusal reads nothing but the tenant and the definition.
            return Ok(Decision::unchanged(refusal));
        }
        if !self.is_repeat && exists(view, start)? {
            // Another start has this id. To answer that this one was admitted would be wrong.
            return Err(StoreError::Conflict(format!("there is a run {} already", start.run)));
        }
        let draft = Draft::new(view, now, &start.tenant);
        if is_full { queue(draft, (self, plan), &limited) } else { create(draft, (self, plan), &limited) }
    }
}

/// The answer to a start that has made its run before.
fn accepted(view: &dyn View, admit: &Admit, usage: Usage) -> Result<StartOutcome, StoreError> {
    let RunRequest { tenant, run, .. } = &*admit.request;
    Ok(match slots::position(view, tenant, *run)? {
        Some(position) => StartOutcome::Queued { run: *run, position, usage },
        None => admit.admitted(usage),
    })
}

impl LimitedTenant {
    /// Why a start without a free slot is refused. None: it may wait.
    fn refusal(&self) -> Option<StartOutcome> {
        let (usage, slot_flow, queued) = (self.usage(), self.tenant.slot_flow, self.tenant.runs_queued);
        match self.limits.queue.on_full {
            OnFull::Reject => Some(StartOutcome::AtCapacity { usage, slot_flow }),
            OnFull::Queue if queued >= self.limits.queue.queued_max => {
                Some(StartOutcome::QueueFull { queued, usage, slot_flow })
            }
            OnFull::Queue => None,
        }
    }
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
        KeyVerdict::Replay(run) if run == start.run => accepted(view, admit, usage).map(Some),
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
    write_start(&mut draft, (start, plan), created_at, ("pending", limited));
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
        draft.acquire_slot(run)?;
    }
    let usage = Usage { runs_active: draft.tenant()?.runs_active, ..limited.usage() };
    draft.answer(admit.admitted(usage))
}

/// Writes a run that waits for a slot. The engine begins it when it has one.
fn queue(
    mut draft: Draft<'_>,
    (admit, plan): (&Admit, &StartPlan),
    limited: &LimitedTenant,
) -> Decided<StartOutcome> {
    let start = &*admit.request;
    let (run, now, until) = (start.run, draft.now, draft.now + limited.limits.queue.wait_max);
    write_start(&mut draft, (start, plan), now, ("queued", limited));
    draft.put(Table::Heads, rows::run(&start.tenant, run), &Head::queued(now, until));
    draft.mark(Table::Timers, rows::timed(&start.tenant, until, &run));
    let position = draft.enter_queue(run)?;
    draft.answer(StartOutcome::Queued { run, position, usage: limited.usage() })
}

/// Writes what was asked, the steps that a rerun copies, the first event and the key.
fn write_start(
    draft: &mut Draft<'_>,
    (start, plan): (&RunRequest, &StartPlan),
    created_at: Timestamp,
    (status, limited): (&'static str, &LimitedTenant),
) {
    let (tenant, run, now) = (&start.tenant, start.run, draft.now);
    draft.put(Table::Starts, rows::run(tenant, run), &start.start(plan.workflow_version, created_at));
    for (key, step) in &plan.copied_steps {
        draft.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    let admitted = Event::new(created_at, EventKind::RunStatus).with_status(status);
    draft.put(Table::Timeline, rows::numbered(tenant, run, 1), &admitted);
    if let Some(intent) = &start.intent {
        let record = KeyRecord {
            run,
            fingerprint: intent.fingerprint.clone(),
            expires_at: limited.limits.key_retention.map(|time| now + time),
            reservation: None,
        };
        let key = rows::idempotency(tenant, &start.workflow, &intent.key);
        draft.put(Table::IdempotencyKeys, key, &record);
    }
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
