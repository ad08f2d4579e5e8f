//! Children, and the steps that wait for them.

use interlock_model::child::{ChildOutcome, ParentLink};
use interlock_model::limit::place::RunSlots;
use interlock_model::run::{InboxEvent, Start};
use interlock_model::step::StepRun;
use interlock_model::{RunId, StepKey};

use super::super::children::ChildStart;
use super::super::rows::{self, RunLease};
use super::super::tables::{Pick, Row, Table, scan_prefix};
use super::{Checked, Inspection, Known, RunState};
use crate::StoreError;

pub(super) fn without_step(look: &Inspection<'_>, child: RunId) -> Checked {
    let key = rows::run(look.tenant, child);
    let slots: Known<RunSlots> = look.read(Table::RunSlots, &key)?;
    let Known::Is(RunSlots { parent: Some(parent), .. }) = slots else { return Ok(None) };
    let mark = rows::child(look.tenant, parent, child);
    let is_wanted = look.has(Table::Children, &mark)?;
    if is_wanted || look.run_state(child)? != RunState::Live || is_to_be_cancelled(look, child)? {
        return Ok(None);
    }
    let Known::Is(Start { parent: Some(ParentLink { step, .. }), .. }) = look.read(Table::Starts, &key)?
    else {
        return Ok(None);
    };
    let is_awaited =
        waits_for(look, parent, &step)? == Some(child) && look.run_state(parent)? == RunState::Live;
    look.try_fault("the child is live, no step waits for it, and it is not cancelled", |draft| {
        if is_awaited {
            draft.mark(Table::Children, mark);
            return Ok(());
        }
        draft.request_cancel(child, &InboxEvent::cancel_by_parent(parent))
    })
}

fn is_to_be_cancelled(look: &Inspection<'_>, run: RunId) -> Result<bool, StoreError> {
    let lease: Known<RunLease> = look.read(Table::RunLeases, &rows::run(look.tenant, run))?;
    let is_quarantined = matches!(lease, Known::Is(lease) if lease.cancel.is_some());
    Ok(is_quarantined || inbox(look, run)?.iter().any(|event| matches!(event, InboxEvent::Cancel { .. })))
}

fn inbox(look: &Inspection<'_>, run: RunId) -> Result<Vec<InboxEvent>, StoreError> {
    let all = rows::of_run(look.tenant, run);
    let waiting = scan_prefix(look.view, Table::Inbox, &all, Pick::First(usize::MAX))?;
    Ok(waiting.iter().filter_map(|row| serde_json::from_str(&row.value).ok()).collect())
}

fn child_in(row: &str) -> Option<RunId> {
    let step: StepRun = serde_json::from_str(row).ok()?;
    step.child.filter(|_| step.child_open)
}

/// The child that a step waits for.
fn waits_for(look: &Inspection<'_>, run: RunId, step: &StepKey) -> Result<Option<RunId>, StoreError> {
    let row = look.view.get(Table::Steps, &rows::step(look.tenant, run, step))?;
    Ok(row.and_then(|row| child_in(&row)))
}

/// The run of a step that waits for a child, and the child: `run/child`.
pub(super) fn awaited(row: &Row) -> Option<String> {
    Some(format!("{}/{}", row.key.split('/').nth(1)?, child_in(&row.value)?))
}

pub(super) fn missing(look: &Inspection<'_>, subject: &str) -> Checked {
    let parts =
        subject.split_once('/').and_then(|(run, child)| Some((run.parse().ok()?, child.parse().ok()?)));
    let Some((run, child)): Option<(RunId, RunId)> = parts else { return Ok(None) };
    if look.run_state(run)? != RunState::Live
        || look.has(Table::ChildStarts, &rows::run(look.tenant, child))?
    {
        return Ok(None);
    }
    let why = match look.run_state(child)? {
        RunState::Live | RunState::Unreadable => return Ok(None),
        RunState::Ended => "has ended without a report",
        RunState::Missing => "does not exist",
    };
    let is_reported =
        |event: &InboxEvent| matches!(event, InboxEvent::Child { child: of, .. } if *of == child);
    let Some(step) = step_waiting(look, run, child)? else { return Ok(None) };
    if inbox(look, run)?.iter().any(is_reported) {
        return Ok(None);
    }
    look.try_fault(format!("step {step} waits for child run {child}, which {why}"), |draft| {
        draft.delete(Table::Children, rows::child(look.tenant, run, child));
        let lost = InboxEvent::Child { step, child, outcome: ChildOutcome::lost() };
        draft.post(run, &[lost])
    })
}

/// The step of a run that waits for this child. The check of a row knows it.
fn step_waiting(look: &Inspection<'_>, run: RunId, child: RunId) -> Result<Option<StepKey>, StoreError> {
    let all = rows::of_run(look.tenant, run);
    let found = match look.at {
        Some((Table::Steps, row)) => vec![row.clone()],
        _ => scan_prefix(look.view, Table::Steps, &all, Pick::First(usize::MAX))?,
    };
    let of_child = found.iter().find(|row| row.key.starts_with(&all) && child_in(&row.value) == Some(child));
    Ok(of_child.and_then(|row| rows::last_part(&row.key).parse().ok()))
}

pub(super) fn start_not_due(look: &Inspection<'_>, child: RunId) -> Checked {
    let start: Known<ChildStart> = look.read(Table::ChildStarts, &rows::run(look.tenant, child))?;
    let Known::Is(ChildStart { due_at, .. }) = start else { return Ok(None) };
    let place = rows::timed(look.tenant, due_at, &child);
    look.missing(Table::ChildrenDue, place, format!("the child is due at {due_at} and in no index"))
}
