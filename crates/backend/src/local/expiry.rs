//! What the passing of time does, and where it has something to do.

use std::collections::BTreeMap;

use interlock_model::job::{JobLease, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, RunId, TenantId, Timestamp, WorkerId};

use super::commit::end_job;
use super::tables::{Changes, Decision, Pick, Table, View, parse, scan_prefix};
use super::{deliveries, inbox, rows, slots};
use crate::StoreError;
use crate::runs::Due;

/// Ends the jobs whose lease has run out: their steps learn it from their inbox.
pub(super) fn expire(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    limit: usize,
) -> Result<Decision<Vec<JobId>>, StoreError> {
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    let mut lost: Vec<(JobId, JobOutcome)> = Vec::new();
    for row in due_rows(view, Table::JobExpiries, id, now, limit)? {
        let Ok(job) = rows::last_part(&row).parse::<JobId>() else { continue };
        let outcome = loss(view, id, &job)?;
        end_job(view, &mut changes, (id, &mut tenant), &job, (outcome.cause(), now))?;
        changes.delete(Table::JobExpiries, row);
        lost.push((job, outcome));
    }
    tell(view, now, (id, &tenant), lost, changes)
}

/// Ends what a worker that is gone still holds. Its leases are found by looking through the tenant's: workers on the bus
/// go seldom, and an index would cost every claim.
pub(super) fn abandon(
    view: &dyn View,
    now: Timestamp,
    (id, worker): (&TenantId, &WorkerId),
    limit: usize,
) -> Result<Decision<Vec<JobId>>, StoreError> {
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    let mut lost: Vec<(JobId, JobOutcome)> = Vec::new();
    for row in scan_prefix(view, Table::JobLeases, &rows::of_tenant(id), Pick::First(usize::MAX))? {
        if lost.len() == limit {
            break;
        }
        let lease: JobLease = parse(Table::JobLeases, &row.key, &row.value)?;
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        if lease.worker == *worker {
            let outcome = loss(view, id, &job)?;
            end_job(view, &mut changes, (id, &mut tenant), &job, (outcome.cause(), now))?;
            lost.push((job, outcome));
        }
    }
    tell(view, now, (id, &tenant), lost, changes)
}

/// What a job ends by whose worker is gone: a result that the store has, if there is one.
fn loss(view: &dyn View, id: &TenantId, job: &JobId) -> Result<JobOutcome, StoreError> {
    Ok(deliveries::waiting(view, id, job)?.map_or(JobOutcome::Lost, |known| known.outcome))
}

/// Posts the losses to the runs that they happened to.
fn tell(
    view: &dyn View,
    now: Timestamp,
    (id, tenant): (&TenantId, &Tenant),
    lost: Vec<(JobId, JobOutcome)>,
    mut changes: Changes,
) -> Result<Decision<Vec<JobId>>, StoreError> {
    for (run, events) in by_run(&lost, now) {
        inbox::post(view, &mut changes, (id, run), &events)?;
    }
    if !lost.is_empty() {
        changes.put(Table::Tenants, id.as_str(), tenant);
    }
    Ok(Decision { answer: lost.into_iter().map(|(job, _)| job).collect(), changes })
}

/// One post for each run: a post reads where the inbox ends, and does not see another post of the same decision.
fn by_run(lost: &[(JobId, JobOutcome)], at: Timestamp) -> BTreeMap<RunId, Vec<InboxEvent>> {
    let mut events: BTreeMap<RunId, Vec<InboxEvent>> = BTreeMap::new();
    for (job, outcome) in lost {
        let event = InboxEvent::Job { at, job: job.clone(), outcome: outcome.clone() };
        events.entry(job.run).or_default().push(event);
    }
    events
}

/// Turns timers that are due into ready marks.
pub(super) fn ripen(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    limit: usize,
) -> Result<Decision<usize>, StoreError> {
    let mut changes = Changes::default();
    let due = due_rows(view, Table::Timers, id, now, limit)?;
    let answer = due.len();
    for row in due {
        if let Ok(run) = rows::last_part(&row).parse::<RunId>() {
            changes.mark(Table::Ready, rows::run(id, run));
        }
        changes.delete(Table::Timers, row);
    }
    Ok(Decision { answer, changes })
}

fn due_rows(
    view: &dyn View,
    table: Table,
    id: &TenantId,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let rows = view.scan(table, &rows::of_tenant(id), &rows::after(id, now), Pick::First(limit))?;
    Ok(rows.into_iter().map(|row| row.key).collect())
}

pub(super) fn due(view: &dyn View, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
    let mut due = Due::default();
    let mut next_at: Option<Timestamp> = None;
    due.ready = first_rows(view, Table::Ready, limit)?.into_iter().map(|(tenant, _)| tenant).collect();
    let times = [
        (Table::Timers, &mut due.timers),
        (Table::JobExpiries, &mut due.leases),
        (Table::PutOffDue, &mut due.put_off),
        (Table::HeldDue, &mut due.held),
    ];
    for (table, tenants) in times {
        for (tenant, key) in first_rows(view, table, limit)? {
            if key < rows::after(&tenant, now) {
                tenants.push(tenant);
            } else {
                next_at = next_at.into_iter().chain(rows::time_of(&key)).min();
            }
        }
    }
    due.next_in = next_at.map(|at| at.since(now));
    Ok(due)
}

/// The first row of each tenant in the table, found by leaping from tenant to tenant.
fn first_rows(view: &dyn View, table: Table, limit: usize) -> Result<Vec<(TenantId, String)>, StoreError> {
    let mut found = Vec::new();
    let mut from = String::new();
    while found.len() < limit {
        // '~' comes after every character of a tenant id.
        let Some(row) = view.scan(table, &from, "~", Pick::First(1))?.into_iter().next() else { break };
        from = super::tables::end_of(&format!("{}/", rows::first_part(&row.key)));
        if let Ok(tenant) = rows::first_part(&row.key).parse::<TenantId>() {
            found.push((tenant, row.key));
        }
    }
    Ok(found)
}
