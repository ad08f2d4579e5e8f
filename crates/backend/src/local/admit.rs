//! Admission: the key, the definition, the cap, and the run with all that belongs to it, in one decision.

use interlock_model::Timestamp;
use interlock_model::admission::{Admission, FirstTurn, KeyRecord, KeyVerdict, StartRun, Usage};
use interlock_model::history::{Event, EventKind};
use interlock_model::run::Head;

use super::rows::{self, WorkflowHead};
use super::slots::{self, Gate};
use super::tables::{Changes, Decision, Table, View, read};
use super::{commit, holds, reservations};
use crate::StoreError;

pub(super) fn admit(
    view: &dyn View,
    now: Timestamp,
    start: &StartRun,
) -> Result<Decision<Admission>, StoreError> {
    let gate = Gate::read(view, &start.tenant)?;
    let usage = gate.usage();
    if let Some(answer) = by_key(view, now, start, usage)? {
        return Ok(Decision::unchanged(answer));
    }
    // A request whose reply was lost is asked again with the same run id: neither a new definition nor a tenant that is
    // full by now takes back what it was given.
    if start.is_repeat && is_there(view, start)? {
        return Ok(Decision::unchanged(Admission::Admitted { run: start.run, usage }));
    }
    // What was admitted, and deleted before the repeat, stays deleted.
    if start.is_repeat && view.get(Table::DeletedRuns, &rows::run(&start.tenant, start.run))?.is_some() {
        return Ok(Decision::unchanged(Admission::Replayed { run: start.run, status: None, usage }));
    }
    reservations::check_hold(view, now, start)?;
    let head: Option<WorkflowHead> =
        read(view, Table::WorkflowHeads, &rows::workflow(&start.tenant, &start.workflow))?;
    let current = head.filter(|head| !head.is_deleted).map(|head| head.version);
    if current != Some(start.workflow_version) {
        return Ok(Decision::unchanged(Admission::DefinitionChanged { current, usage }));
    }
    if usage.free() == 0 {
        // The first refusal reads nothing but the tenant and the definition.
        let slot_flow = gate.tenant.slot_flow;
        return Ok(Decision::unchanged(Admission::AtCapacity { usage, slot_flow }));
    }
    if is_there(view, start)? {
        return Ok(Decision::unchanged(Admission::Admitted { run: start.run, usage }));
    }
    Ok(create(now, start, gate))
}

/// Whether this very request was admitted before.
fn is_there(view: &dyn View, start: &StartRun) -> Result<bool, StoreError> {
    Ok(view.get(Table::Starts, &rows::run(&start.tenant, start.run))?.is_some())
}

fn by_key(
    view: &dyn View,
    now: Timestamp,
    start: &StartRun,
    usage: Usage,
) -> Result<Option<Admission>, StoreError> {
    let Some(intent) = &start.intent else { return Ok(None) };
    match reservations::verdict(view, now, (&start.tenant, &start.workflow), intent)? {
        // A reservation is a hint. Whoever decides in one step needs none, and passes over another's.
        KeyVerdict::Fresh | KeyVerdict::Reserved(..) => Ok(None),
        KeyVerdict::Mismatch(run) => Ok(Some(Admission::KeyReused { run, usage })),
        KeyVerdict::Replay(run) if run == start.run => Ok(Some(Admission::Admitted { run, usage })),
        KeyVerdict::Replay(run) => {
            let head: Option<Head> = read(view, Table::Heads, &rows::run(&start.tenant, run))?;
            Ok(Some(Admission::Replayed { run, status: head.map(|head| head.status), usage }))
        }
    }
}

fn create(now: Timestamp, start: &StartRun, mut gate: Gate) -> Decision<Admission> {
    let mut changes = Changes::default();
    let (tenant, run) = (&start.tenant, start.run);
    // The first turn was decided a moment ago; a story does not begin after its first event.
    let asked_at = start.first_turn.as_ref().map_or(now, |turn| turn.head.updated_at.min(now));
    changes.put(Table::Starts, rows::run(tenant, run), &start.asked(asked_at));
    for (key, step) in &start.copied_steps {
        changes.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    let admitted = Event::new(asked_at, EventKind::RunStatus).with_status("pending");
    changes.put(Table::Timeline, rows::numbered(tenant, run, 1), &admitted);
    if let Some(intent) = &start.intent {
        let record = KeyRecord {
            run,
            fingerprint: intent.fingerprint.clone(),
            expires_at: gate.limits.key_retention.map(|time| now + time),
            reservation: None,
        };
        let key = rows::idempotency(tenant, &start.workflow, &intent.key);
        changes.put(Table::IdempotencyKeys, key, &record);
    }
    let has_ended = match &start.first_turn {
        None => leave_to_engine(&mut changes, now, start),
        Some(turn) => begin(&mut changes, now, start, turn),
    };
    if !has_ended {
        slots::take(&mut changes, tenant, &mut gate.tenant, run);
    }
    changes.put(Table::Tenants, tenant.as_str(), &gate.tenant);
    Decision { answer: Admission::Admitted { run, usage: gate.usage() }, changes }
}

fn leave_to_engine(changes: &mut Changes, now: Timestamp, start: &StartRun) -> bool {
    let key = rows::run(&start.tenant, start.run);
    changes.put(Table::Heads, key.clone(), &Head::admitted(now));
    changes.mark(Table::Ready, key);
    false
}

/// Writes the first turn with the run. Whether the run has ended with it.
fn begin(changes: &mut Changes, now: Timestamp, start: &StartRun, turn: &FirstTurn) -> bool {
    let (tenant, run) = (&start.tenant, start.run);
    changes.put(Table::Heads, rows::run(tenant, run), &turn.head);
    for (key, step) in &turn.steps {
        changes.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    for (number, event) in (2..).zip(&turn.events) {
        changes.put(Table::Timeline, rows::numbered(tenant, run, number), event);
    }
    for job in &turn.dispatched {
        commit::dispatch(changes, tenant, now, job);
    }
    for held in &turn.held {
        holds::hold(changes, tenant, now, held);
    }
    for approval in &turn.approvals_opened {
        commit::open_approval(changes, tenant, approval);
    }
    if let Some(at) = turn.head.due_at {
        changes.mark(Table::Timers, rows::timer(tenant, at, run));
    }
    turn.head.status.is_final()
}
