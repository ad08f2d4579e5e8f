//! Admission: the key, the definition, the cap, and the run with all that belongs to it, in one decision.

use interlock_model::Timestamp;
use interlock_model::admission::{Admission, KeyRecord, KeyVerdict, StartRun, Usage};
use interlock_model::history::{Event, EventKind};
use interlock_model::run::{Head, Start};

use super::rows::{self, WorkflowHead};
use super::slots::{self, Gate};
use super::tables::{Changes, Decision, Table, View, read};
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
    let record: Option<KeyRecord> =
        read(view, Table::IdempotencyKeys, &rows::idempotency(&start.tenant, &start.workflow, &intent.key))?;
    match KeyVerdict::of(record.as_ref(), intent, now) {
        KeyVerdict::Fresh => Ok(None),
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
    slots::take(&mut changes, tenant, &mut gate.tenant, run);
    changes.put(Table::Tenants, tenant.as_str(), &gate.tenant);
    let asked = Start {
        run,
        tenant: tenant.clone(),
        workflow: start.workflow.clone(),
        workflow_version: start.workflow_version,
        input: start.input.clone(),
        idempotency_key: start.intent.as_ref().map(|intent| intent.key.clone()),
        origin: start.origin.clone(),
        created_at: now,
    };
    changes.put(Table::Starts, rows::run(tenant, run), &asked);
    changes.put(Table::Heads, rows::run(tenant, run), &Head::admitted(now));
    changes.mark(Table::Ready, rows::run(tenant, run));
    for (key, step) in &start.copied_steps {
        changes.put(Table::Steps, rows::step(tenant, run, key), step);
    }
    let event = Event::new(now, EventKind::RunStatus).with_status("pending");
    changes.put(Table::Timeline, rows::numbered(tenant, run, 1), &event);
    if let Some(intent) = &start.intent {
        let record = KeyRecord {
            run,
            fingerprint: intent.fingerprint.clone(),
            expires_at: gate.limits.key_retention.map(|time| now + time),
        };
        changes.put(Table::IdempotencyKeys, rows::idempotency(tenant, &start.workflow, &intent.key), &record);
    }
    Decision { answer: Admission::Admitted { run, usage: gate.usage() }, changes }
}
