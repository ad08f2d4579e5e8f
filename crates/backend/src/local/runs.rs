//! Runs: cancelled, deleted, read.

use std::collections::BTreeMap;

use interlock_model::job::{Job, JobLease};
use interlock_model::run::{Head, InboxEvent, Quarantine, Run, Start};
use interlock_model::{JobId, RunId};

use super::draft::{Draft, decide};
use super::store::look;
use super::tables::{Pick, Table, newest_page, parse, read, scan_prefix};
use super::{inbox, rows};
use crate::StoreError;
use crate::reconcile::LOOKED_AT_MAX;
use crate::runs::{CancelOutcome, RunFilter, RunSummary};
use crate::verbs::{DeleteRun, ListActiveRuns, ListRuns, ReadRun, ReadRunStatuses, RequestCancel};

decide!(RequestCancel, |verb, draft| {
    let status = inbox::status(draft.view, &verb.tenant, verb.run)?;
    if status.ok_or_else(|| StoreError::not_found("run", verb.run))?.is_final() {
        return Ok(CancelOutcome::AlreadyEnded);
    }
    let cancel = InboxEvent::Cancel { by: verb.by.clone() };
    draft.request_cancel(verb.run, &cancel)?;
    Ok(CancelOutcome::Posted)
});

impl Draft<'_> {
    /// Puts a request to cancel into the inbox of a live run.
    pub(super) fn request_cancel(&mut self, run: RunId, cancel: &InboxEvent) -> Result<(), StoreError> {
        if !self.cancel_quarantined(run, cancel)? && !self.awaits_cancel(run)? {
            self.post(run, std::slice::from_ref(cancel))?;
        }
        Ok(())
    }

    /// Whether the last thing in the run's inbox is a request to cancel: one that waits is enough.
    fn awaits_cancel(&self, run: RunId) -> Result<bool, StoreError> {
        let last = scan_prefix(self.view, Table::Inbox, &rows::of_run(self.id, run), Pick::Last(1))?;
        let Some(last) = last.first() else { return Ok(false) };
        Ok(matches!(parse(Table::Inbox, &last.key, &last.value)?, InboxEvent::Cancel { .. }))
    }
}

decide!(DeleteRun, |verb, draft| {
    let (id, run) = (&verb.tenant, verb.run);
    let key = rows::run(id, run);
    let head: Head = draft.require(Table::Heads, &key, ("run", &run))?;
    draft.give_up_children(run)?;
    if !head.status.is_final() {
        draft.report_deleted(run)?;
    }
    draft.release_slots(run)?;
    for table in [Table::Starts, Table::Heads, Table::Ready, Table::RunLeases, Table::EventTallies] {
        draft.delete(table, key.clone());
    }
    draft.mark(Table::DeletedRuns, key);
    draft.remove_dead_letter(&rows::job(id, &Quarantine::letter_id(run)))?;
    if let Some(at) = head.due_at {
        draft.delete(Table::Timers, rows::timed(id, at, &run));
    }
    draft.end_waits(run)?;
    for table in [Table::Steps, Table::Inbox, Table::RunEvents, Table::Timeline] {
        for row in scan_prefix(draft.view, table, &rows::of_run(id, run), Pick::First(usize::MAX))? {
            draft.delete(table, row.key);
        }
    }
    let jobs = delete_jobs(draft, run)?;
    let (from, until) = rows::jobs_of_run(id, run);
    for row in draft.view.scan(Table::Approvals, &from, &until, Pick::First(usize::MAX))? {
        draft.delete(Table::OpenApprovals, row.key.clone());
        draft.delete(Table::Approvals, row.key);
    }
    Ok(jobs)
});

fn delete_jobs(draft: &mut Draft<'_>, run: RunId) -> Result<Vec<JobId>, StoreError> {
    let id = draft.id;
    let mut jobs = Vec::new();
    let (from, until) = rows::jobs_of_run(id, run);
    for row in draft.view.scan(Table::Jobs, &from, &until, Pick::First(usize::MAX))? {
        let job: Job = parse(Table::Jobs, &row.key, &row.value)?;
        let lease: Option<JobLease> = draft.read(Table::JobLeases, &row.key)?;
        if job.end.is_none() {
            draft.end_permit_of(&job, lease.is_some(), None);
        }
        let Job { new, created_at, .. } = job;
        draft.delete(Table::Queue, rows::queued(id, &new, created_at));
        draft.delete(Table::JobListing, rows::timed(id, created_at, &new.id));
        draft.forget_queue_timeout(&new);
        if let Some(lease) = lease {
            draft.delete(Table::JobExpiries, rows::timed(id, lease.expires_at, &new.id));
            draft.delete(Table::JobLeases, row.key.clone());
            draft.delete(Table::JobProgress, row.key.clone());
        }
        draft.forget_deferred(&new.id)?;
        draft.forget_hold(&new.id)?;
        draft.remove_dead_letter(&row.key)?;
        draft.delete(Table::Jobs, row.key);
        jobs.push(new.id);
    }
    Ok(jobs)
}

look!(ReadRun, |verb, view| {
    let key = rows::run(&verb.tenant, verb.run);
    let (start, head): (Option<Start>, Option<Head>) =
        (read(view, Table::Starts, &key)?, read(view, Table::Heads, &key)?);
    let Some((start, head)) = start.zip(head) else { return Ok(None) };
    let mut steps = BTreeMap::new();
    let all = rows::of_run(&verb.tenant, verb.run);
    for row in scan_prefix(view, Table::Steps, &all, Pick::First(usize::MAX))? {
        if let Ok(key) = rows::last_part(&row.key).parse() {
            steps.insert(key, parse(Table::Steps, &row.key, &row.value)?);
        }
    }
    Ok(Some(Run { start, head, steps }))
});

look!(ReadRunStatuses, |verb, view| {
    let mut found = Vec::new();
    for run in verb.runs.iter().copied() {
        found.extend(inbox::status(view, &verb.tenant, run)?.map(|status| (run, status)));
    }
    Ok(found)
});

look!(ListRuns, |verb, view| {
    newest_page(view, Table::Heads, (&verb.tenant, &verb.page), LOOKED_AT_MAX, |row| {
        let head: Head = parse(Table::Heads, &row.key, &row.value)?;
        if verb.filter.status.is_some_and(|status| status != head.status) {
            return Ok(None);
        }
        let start: Option<Start> = read(view, Table::Starts, &row.key)?;
        let RunFilter { workflow, parent, .. } = &verb.filter;
        let is_shown = |start: &Start| {
            workflow.as_ref().is_none_or(|workflow| *workflow == start.workflow)
                && parent.is_none_or(|parent| start.parent.as_ref().is_some_and(|link| link.run == parent))
        };
        Ok(start.filter(is_shown).map(|start| RunSummary { start, head }))
    })
});

look!(ListActiveRuns, |verb, view| {
    let rows = scan_prefix(view, Table::Active, &rows::of_tenant(&verb.tenant), Pick::First(verb.limit))?;
    Ok(rows.iter().filter_map(|row| rows::last_part(&row.key).parse().ok()).collect())
});
