//! What the passing of time does, and where it has something to do.

use std::collections::BTreeMap;

use interlock_model::job::{JobLease, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::scheduling::Edge;
use interlock_model::{JobId, RunId, TenantId, Timestamp};

use super::draft::{Draft, decide};
use super::rows;
use super::store::Look;
use super::tables::{Pick, Table, View, end_of, parse};
use crate::StoreError;
use crate::runs::Due;
use crate::verbs::{AbandonWorker, ExpireLeases, FindDue, FireTimers};

decide!(ExpireLeases, |verb, draft| {
    let mut lost = Vec::new();
    for row in draft.due(Table::JobExpiries, draft.now, verb.limit)? {
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        lost.push((job.clone(), draft.lose_job(&job)?));
        draft.delete(Table::JobExpiries, row.key);
    }
    for row in draft.due(Table::QueueTimeouts, draft.now, verb.limit)? {
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        draft.end_job_by(&job, &JobOutcome::Unclaimed)?;
        lost.push((job, JobOutcome::Unclaimed));
        draft.delete(Table::QueueTimeouts, row.key);
    }
    draft.post_losses(lost)
});

// The worker's leases are found by looking through the tenant's: workers on NATS seldom go offline, and an index would cost
// every claim.
decide!(AbandonWorker, |verb, draft| {
    let mut lost = Vec::new();
    for row in draft.scan_tenant(Table::JobLeases, Pick::First(usize::MAX))? {
        if lost.len() == verb.limit {
            break;
        }
        let lease: JobLease = parse(Table::JobLeases, &row.key, &row.value)?;
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        if lease.worker == verb.worker && lease.was_given_over(Edge::Nats) {
            lost.push((job.clone(), draft.lose_job(&job)?));
        }
    }
    draft.post_losses(lost)
});

impl Draft<'_> {
    /// Ends a job whose worker is offline or has taken too long: by a deferred result, if the store has one.
    fn lose_job(&mut self, job: &JobId) -> Result<JobOutcome, StoreError> {
        let lease: Option<JobLease> = self.read(Table::JobLeases, &rows::job(self.id, job))?;
        let without_result = lease.map_or(JobOutcome::Lost, |lease| lease.outcome_without_result(self.now));
        let outcome = self.deferred(job)?.map_or(without_result, |known| known.outcome);
        self.end_job_by(job, &outcome)?;
        Ok(outcome)
    }

    /// Posts the losses to the inboxes of their runs.
    fn post_losses(&mut self, lost: Vec<(JobId, JobOutcome)>) -> Result<Vec<JobId>, StoreError> {
        let mut by_run: BTreeMap<RunId, Vec<InboxEvent>> = BTreeMap::new();
        for (job, outcome) in &lost {
            let event = InboxEvent::Job { at: self.now, job: job.clone(), outcome: outcome.clone() };
            by_run.entry(job.run).or_default().push(event);
        }
        for (run, events) in by_run {
            self.post(run, &events)?;
        }
        Ok(lost.into_iter().map(|(job, _)| job).collect())
    }
}

decide!(FireTimers, |verb, draft| {
    let due = draft.due(Table::Timers, draft.now + verb.ahead, verb.limit)?;
    let fired = due.len();
    for row in due {
        if let Ok(run) = rows::last_part(&row.key).parse::<RunId>() {
            draft.mark(Table::Ready, rows::run(&verb.tenant, run));
        }
        draft.delete(Table::Timers, row.key);
    }
    Ok(fired + draft.fire_limit_timers(verb.limit)?)
});

impl Draft<'_> {
    /// Grants the slots whose time has come. They are never granted ahead of it.
    fn fire_limit_timers(&mut self, limit: usize) -> Result<usize, StoreError> {
        let due = self.due(Table::LimitTimers, self.now, limit)?;
        let fired = due.len();
        for row in due {
            let timer = rows::LimitTimer::read(&row.key);
            self.delete(Table::LimitTimers, row.key);
            match timer {
                Some(rows::LimitTimer::Quiet(run)) => self.quiet_due(run)?,
                Some(rows::LimitTimer::Group(claim)) => {
                    self.group_due(&claim)?;
                    self.grant_slots(&[claim])?
                }
                Some(rows::LimitTimer::All { limit, after }) => {
                    self.grant_all_after(&limit, after.as_deref())?
                }
                None => 0,
            };
        }
        Ok(fired)
    }
}

impl Look for FindDue {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Due, StoreError> {
        let mut due = Due::default();
        let mut next_at: Option<Timestamp> = None;
        leap(view, Table::Ready, |tenant, _| {
            if due.ready.len() < self.limit {
                due.ready.push(tenant);
            }
            due.ready.len() < self.limit
        })?;
        let (mut to_grant, mut unclaimed) = (Vec::new(), Vec::new());
        let times = [
            (Table::Timers, &mut due.timers),
            (Table::LimitTimers, &mut to_grant),
            (Table::JobExpiries, &mut due.leases),
            (Table::QueueTimeouts, &mut unclaimed),
            (Table::DeferredDue, &mut due.deferred),
            (Table::HeldDue, &mut due.held),
            (Table::BudgetDue, &mut due.budgets),
            (Table::ChildrenDue, &mut due.children),
            (Table::EventsDue, &mut due.events),
        ];
        // Tenants whose time has not come do not count: they must not hide one behind them whose time has.
        for (table, tenants) in times {
            leap(view, table, |tenant, key| {
                if key >= rows::after(&tenant, now) {
                    next_at = next_at.into_iter().chain(rows::time_of(&key)).min();
                } else if tenants.len() < self.limit {
                    tenants.push(tenant);
                }
                true
            })?;
        }
        to_grant.retain(|tenant| !due.timers.contains(tenant));
        due.timers.extend(to_grant);
        unclaimed.retain(|tenant| !due.leases.contains(tenant));
        due.leases.extend(unclaimed);
        due.next_in = next_at.map(|at| at.since(now));
        Ok(due)
    }
}

/// The first row of each tenant in the table, found by leaping from tenant to tenant, for as long as `visit` asks for more.
fn leap(
    view: &dyn View,
    table: Table,
    mut visit: impl FnMut(TenantId, String) -> bool,
) -> Result<(), StoreError> {
    let mut from = String::new();
    // '~' comes after every character of a tenant id.
    while let Some(row) = view.scan(table, &from, "~", Pick::First(1))?.into_iter().next() {
        from = end_of(&format!("{}/", rows::first_part(&row.key)));
        if let Ok(tenant) = rows::first_part(&row.key).parse::<TenantId>()
            && !visit(tenant, row.key)
        {
            break;
        }
    }
    Ok(())
}
