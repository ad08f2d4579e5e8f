//! Runs: cancelled, deleted, read.

use std::collections::BTreeMap;

use interlock_model::job::{Job, JobLease};
use interlock_model::run::{Head, InboxEvent, Run, Start};
use interlock_model::step::StepRun;
use interlock_model::{JobId, RunId, StepKey, Timestamp};

use super::draft::Draft;
use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Pick, Table, View, parse, read, scan_prefix, start_of_page};
use super::{inbox, rows};
use crate::runs::{CancelOutcome, RunSummary};
use crate::verbs::{DeleteRun, ListActiveRuns, ListRuns, ReadRun, RequestCancel};
use crate::{Page, StoreError};

/// Rows that one page of a filtered list may look at. A page that finds little still ends.
const LOOKED_AT_MAX: usize = 5_000;

impl Decide for RequestCancel {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<CancelOutcome> {
        let status = inbox::status(view, &self.tenant, self.run)?;
        if status.ok_or_else(|| StoreError::not_found("run", self.run))?.is_final() {
            return Ok(Decision::unchanged(CancelOutcome::AlreadyEnded));
        }
        let mut draft = Draft::new(view, now, &self.tenant);
        draft.post(self.run, &[InboxEvent::Cancel { by: self.by.clone() }])?;
        Ok(draft.answer(CancelOutcome::Posted))
    }
}

impl Decide for DeleteRun {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Vec<JobId>> {
        let (id, run) = (&self.tenant, self.run);
        let mut draft = Draft::new(view, now, id);
        let key = rows::run(id, run);
        let head: Option<Head> = draft.read(Table::Heads, &key)?;
        let head = head.ok_or_else(|| StoreError::not_found("run", run))?;
        draft.release_slot(run)?;
        for table in [Table::Starts, Table::Heads, Table::Ready, Table::RunLeases] {
            draft.delete(table, key.clone());
        }
        draft.mark(Table::DeletedRuns, key);
        if let Some(at) = head.due_at {
            draft.delete(Table::Timers, rows::timed(id, at, &run));
        }
        for table in [Table::Steps, Table::Inbox, Table::Timeline] {
            for row in scan_prefix(view, table, &rows::of_run(id, run), Pick::First(usize::MAX))? {
                draft.delete(table, row.key);
            }
        }
        let jobs = delete_jobs(&mut draft, run)?;
        let (from, until) = rows::jobs_of_run(id, run);
        for row in view.scan(Table::Approvals, &from, &until, Pick::First(usize::MAX))? {
            draft.delete(Table::OpenApprovals, row.key.clone());
            draft.delete(Table::Approvals, row.key);
        }
        Ok(draft.answer(jobs))
    }
}

fn delete_jobs(draft: &mut Draft<'_>, run: RunId) -> Result<Vec<JobId>, StoreError> {
    let id = draft.id;
    let mut jobs = Vec::new();
    let (from, until) = rows::jobs_of_run(id, run);
    for row in draft.view.scan(Table::Jobs, &from, &until, Pick::First(usize::MAX))? {
        let Job { new, created_at, .. } = parse(Table::Jobs, &row.key, &row.value)?;
        draft.delete(Table::Queue, rows::queued(id, &new, created_at));
        draft.delete(Table::JobListing, rows::timed(id, created_at, &new.id));
        if let Some(lease) = draft.read::<JobLease>(Table::JobLeases, &row.key)? {
            draft.delete(Table::JobExpiries, rows::timed(id, lease.expires_at, &new.id));
            draft.delete(Table::JobLeases, row.key.clone());
        }
        draft.forget_deferred(&new.id)?;
        draft.forget_hold(&new.id)?;
        draft.remove_dead_letter(&row.key)?;
        draft.delete(Table::Jobs, row.key);
        jobs.push(new.id);
    }
    Ok(jobs)
}

impl Look for ReadRun {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<Run>, StoreError> {
        let (id, run) = (&self.tenant, self.run);
        let key = rows::run(id, run);
        let (start, head): (Option<Start>, Option<Head>) =
            (read(view, Table::Starts, &key)?, read(view, Table::Heads, &key)?);
        let Some((start, head)) = start.zip(head) else { return Ok(None) };
        let mut steps: BTreeMap<StepKey, StepRun> = BTreeMap::new();
        for row in scan_prefix(view, Table::Steps, &rows::of_run(id, run), Pick::First(usize::MAX))? {
            if let Ok(key) = rows::last_part(&row.key).parse() {
                steps.insert(key, parse(Table::Steps, &row.key, &row.value)?);
            }
        }
        Ok(Some(Run { start, head, steps }))
    }
}

impl Look for ListRuns {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<RunSummary>, StoreError> {
        let id = &self.tenant;
        let until = start_of_page(id, &self.page);
        let rows = view.scan(Table::Heads, &rows::of_tenant(id), &until, Pick::Last(LOOKED_AT_MAX + 1))?;
        let mut items = Vec::new();
        let mut last = None;
        for (position, row) in rows.iter().enumerate() {
            if items.len() == self.page.limit || position == LOOKED_AT_MAX {
                return Ok(Page { items, next: last });
            }
            last = Some(rows::last_part(&row.key).to_owned());
            let head: Head = parse(Table::Heads, &row.key, &row.value)?;
            if self.filter.status.is_some_and(|status| status != head.status) {
                continue;
            }
            let Some(start) = read::<Start>(view, Table::Starts, &row.key)? else { continue };
            if self.filter.workflow.as_ref().is_none_or(|workflow| *workflow == start.workflow) {
                items.push(RunSummary { start, head });
            }
        }
        Ok(Page { items, next: None })
    }
}

impl Look for ListActiveRuns {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let rows = scan_prefix(view, Table::Active, &rows::of_tenant(&self.tenant), Pick::First(self.limit))?;
        Ok(rows.iter().filter_map(|row| rows::last_part(&row.key).parse().ok()).collect())
    }
}
