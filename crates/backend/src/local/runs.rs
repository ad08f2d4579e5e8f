//! Looking at runs, cancelling and deleting them.

use std::collections::BTreeMap;

use interlock_model::run::{Head, InboxEvent, Run, Start};
use interlock_model::step::StepRun;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, RunId, StepKey, TenantId, Timestamp};
use serde::de::DeserializeOwned;

use super::tables::{Changes, Decision, Pick, Table, View, end_of, parse, read, scan_prefix};
use super::{approvals, dead_letters, deliveries, holds, inbox, rows, slots};
use crate::runs::{CancelRequest, RunFilter, RunSummary};
use crate::{Page, PageRequest, StoreError};

/// Rows that one page of a filtered list may look at. A page that finds little still ends.
const LOOKED_AT_MAX: usize = 5_000;

pub(super) fn request_cancel(
    view: &dyn View,
    (id, run): (&TenantId, RunId),
    by: &str,
) -> Result<Decision<CancelRequest>, StoreError> {
    let status = inbox::status(view, id, run)?.ok_or_else(|| StoreError::not_found("run", run))?;
    if status.is_final() {
        return Ok(Decision::unchanged(CancelRequest::AlreadyEnded));
    }
    let mut changes = Changes::default();
    inbox::post(view, &mut changes, (id, run), &[InboxEvent::Cancel { by: by.to_owned() }])?;
    Ok(Decision { answer: CancelRequest::Posted, changes })
}

pub(super) fn delete(
    view: &dyn View,
    now: Timestamp,
    (id, run): (&TenantId, RunId),
) -> Result<Decision<Vec<JobId>>, StoreError> {
    let key = rows::run(id, run);
    let head: Option<Head> = read(view, Table::Heads, &key)?;
    let head = head.ok_or_else(|| StoreError::not_found("run", run))?;
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    slots::give_back(view, &mut changes, (id, &mut tenant), run, now)?;
    for table in [Table::Starts, Table::Heads, Table::Ready, Table::RunLeases] {
        changes.delete(table, key.clone());
    }
    changes.mark(Table::DeletedRuns, key.clone());
    if let Some(at) = head.due_at {
        changes.delete(Table::Timers, rows::timer(id, at, run));
    }
    for table in [Table::Steps, Table::Inbox, Table::Timeline] {
        for row in scan_prefix(view, table, &rows::of_run(id, run), Pick::First(usize::MAX))? {
            changes.delete(table, row.key);
        }
    }
    let answer = delete_jobs(view, &mut changes, (id, &mut tenant), run)?;
    changes.put(Table::Tenants, id.as_str(), &tenant);
    for approval in approvals::of_run(view, id, run)? {
        changes.delete(Table::OpenApprovals, approval.clone());
        changes.delete(Table::Approvals, approval);
    }
    Ok(Decision { answer, changes })
}

fn delete_jobs(
    view: &dyn View,
    changes: &mut Changes,
    (id, tenant): (&TenantId, &mut Tenant),
    run: RunId,
) -> Result<Vec<JobId>, StoreError> {
    let mut jobs = Vec::new();
    let (from, until) = rows::jobs_of_run(id, run);
    for row in view.scan(Table::Jobs, &from, &until, Pick::First(usize::MAX))? {
        let job: interlock_model::job::Job = parse(Table::Jobs, &row.key, &row.value)?;
        changes.delete(Table::Queue, rows::queued(id, &job.new, job.created_at));
        changes.delete(Table::JobListing, rows::listed_job(id, job.created_at, &job.new.id));
        if let Some(lease) = read::<interlock_model::job::JobLease>(view, Table::JobLeases, &row.key)? {
            changes.delete(Table::JobExpiries, rows::expiry(id, lease.expires_at, &job.new.id));
            changes.delete(Table::JobLeases, row.key.clone());
        }
        deliveries::forget(view, changes, id, &job.new.id)?;
        holds::forget(view, changes, id, &job.new.id)?;
        dead_letters::remove(view, changes, tenant, &row.key)?;
        changes.delete(Table::Jobs, row.key);
        jobs.push(job.new.id);
    }
    Ok(jobs)
}

pub(super) fn run(view: &dyn View, id: &TenantId, run: RunId) -> Result<Option<Run>, StoreError> {
    let Some(RunSummary { start, head }) = summary(view, &rows::run(id, run))? else { return Ok(None) };
    let mut steps: BTreeMap<StepKey, StepRun> = BTreeMap::new();
    for row in scan_prefix(view, Table::Steps, &rows::of_run(id, run), Pick::First(usize::MAX))? {
        if let Ok(key) = rows::last_part(&row.key).parse() {
            steps.insert(key, parse(Table::Steps, &row.key, &row.value)?);
        }
    }
    Ok(Some(Run { start, head, steps }))
}

fn summary(view: &dyn View, key: &str) -> Result<Option<RunSummary>, StoreError> {
    let (start, head): (Option<Start>, Option<Head>) =
        (read(view, Table::Starts, key)?, read(view, Table::Heads, key)?);
    Ok(start.zip(head).map(|(start, head)| RunSummary { start, head }))
}

pub(super) fn list(
    view: &dyn View,
    id: &TenantId,
    filter: &RunFilter,
    page: &PageRequest,
) -> Result<Page<RunSummary>, StoreError> {
    let until = page_end(id, page);
    let rows = view.scan(Table::Heads, &rows::of_tenant(id), &until, Pick::Last(LOOKED_AT_MAX + 1))?;
    let mut items = Vec::new();
    let mut last = None;
    for (position, row) in rows.iter().enumerate() {
        if items.len() == page.limit || position == LOOKED_AT_MAX {
            return Ok(Page { items, next: last });
        }
        last = Some(rows::last_part(&row.key).to_owned());
        let head: Head = parse(Table::Heads, &row.key, &row.value)?;
        if filter.status.is_some_and(|status| status != head.status) {
            continue;
        }
        let Some(start) = read::<Start>(view, Table::Starts, &row.key)? else { continue };
        if filter.workflow.as_ref().is_none_or(|workflow| *workflow == start.workflow) {
            items.push(RunSummary { start, head });
        }
    }
    Ok(Page { items, next: None })
}

pub(super) fn active(view: &dyn View, id: &TenantId, limit: usize) -> Result<Vec<RunId>, StoreError> {
    let rows = scan_prefix(view, Table::Active, &rows::of_tenant(id), Pick::First(limit))?;
    Ok(rows.iter().filter_map(|row| rows::last_part(&row.key).parse().ok()).collect())
}

/// Where a list that goes backwards, newest first, begins: before the last item of the page before.
pub(super) fn page_end(id: &TenantId, page: &PageRequest) -> String {
    match &page.after {
        Some(after) => format!("{id}/{after}"),
        None => end_of(&rows::of_tenant(id)),
    }
}

/// Turns one key more than the page holds into its items and the place where the next page begins.
pub(super) fn fill_page<T: DeserializeOwned>(
    mut keys: Vec<String>,
    limit: usize,
    read: impl Fn(&str) -> Result<Option<T>, StoreError>,
) -> Result<Page<T>, StoreError> {
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    let next = keys.last().filter(|_| has_more).and_then(|key| rows::after_tenant(key)).map(str::to_owned);
    let mut items = Vec::with_capacity(keys.len());
    for key in &keys {
        items.extend(read(key)?);
    }
    Ok(Page { items, next })
}
