//! One turn of the engine, written in one step under its fence and version.

use interlock_model::RunId;
use interlock_model::job::EndCause;
use interlock_model::run::{Head, RunStatus};

use super::draft::{Draft, decide};
use super::rows::{self, RunLease};
use super::tables::{Table, View, read};
use crate::StoreError;
use crate::runs::Committed;
use crate::verbs::Commit;

decide!(Commit, |verb, draft| {
    let run = verb.run;
    let (before, lease) = check(draft.view, verb)?;
    for (key, step) in &verb.steps {
        draft.put(Table::Steps, rows::step(&verb.tenant, run, key), step);
    }
    draft.append_events(run, &verb.events)?;
    for job in &verb.dispatched {
        draft.dispatch(job);
    }
    for held in &verb.held {
        draft.hold_job(held);
    }
    for job in &verb.revoked {
        draft.end_job(job, EndCause::Revoked)?;
    }
    for approval in &verb.approvals_opened {
        draft.open_approval(approval);
    }
    for job in &verb.approvals_withdrawn {
        draft.withdraw_approval(job)?;
    }
    draft.settle_children(run, &verb.children)?;
    draft.add_dead_letters(&verb.buried, verb.dead_letters_max)?;
    move_timer(draft, &before, &verb.head, run);
    let (was_waiting, is_waiting) =
        (before.status == RunStatus::Waiting, verb.head.status == RunStatus::Waiting);
    if was_waiting != is_waiting {
        draft.note_approvals(run, is_waiting, draft.now)?;
    }
    let has_ended = verb.head.status.is_final() && !before.status.is_final();
    let granted = if has_ended { draft.release_slots(run)? } else { 0 };
    let is_waiting_for_more = draft.drain(run, verb.inbox_end, verb.continues)?;
    // Afterwards: what was kept for a key comes into the drained inbox.
    let has_more = draft.settle_waits(run, &verb.waits)? || is_waiting_for_more;
    let version = before.version + 1;
    let head = Head { version, fence: verb.fence, ..verb.head.clone() };
    draft.put(Table::Heads, rows::run(&verb.tenant, run), &head);
    draft.end_lease(run, &lease)?;
    Ok(Committed { has_more, version, granted })
});

/// Refuses a commit that does not hold the run under its fence, or began with another version. Returns the head before, and
/// the lease.
fn check(view: &dyn View, commit: &Commit) -> Result<(Head, RunLease), StoreError> {
    let key = rows::run(&commit.tenant, commit.run);
    let head: Option<Head> = read(view, Table::Heads, &key)?;
    let Some(head) = head else { return Err(StoreError::not_found("run", commit.run)) };
    let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    let current = lease.as_ref().map_or(head.fence, |lease| lease.fence);
    // Without a lease row the last writer has released the run: a commit under its fence is late, too.
    let is_held = current == commit.fence && head.fence < commit.fence;
    match lease {
        Some(lease) if is_held && head.version == commit.version => Ok((head, lease)),
        Some(_) | None => Err(StoreError::Fenced { held: commit.fence, current }),
    }
}

/// A run has at most one timer: the earliest of all that may happen to it by itself.
fn move_timer(draft: &mut Draft<'_>, before: &Head, after: &Head, run: RunId) {
    let is_same = before.due_at == after.due_at && !after.status.is_final();
    if let Some(at) = before.due_at.filter(|_| !is_same) {
        draft.delete(Table::Timers, rows::timed(draft.id, at, &run));
    }
    // Also the same one: it may have fired into the ready mark that this commit clears.
    if let Some(at) = after.due_at {
        draft.mark(Table::Timers, rows::timed(draft.id, at, &run));
    }
}
