//! Verdicts.

use interlock_model::approval::{Approval, ApprovalState, Decision as Verdict, Resolution, Verdict as Said};
use interlock_model::job::{EndCause, Job};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, TenantId, Timestamp};

use super::tables::{Changes, Decision, Pick, Table, View, read};
use super::{commit, holds, inbox, rows, runs, slots};
use crate::{Page, PageRequest, StoreError};

pub(super) fn resolve(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    verdict: Verdict,
) -> Result<Decision<Resolution>, StoreError> {
    let key = rows::job(id, job);
    let approval: Option<Approval> = read(view, Table::Approvals, &key)?;
    let approval = approval.ok_or_else(|| StoreError::not_found("approval", job))?;
    let resolution = approval.state.resolve(verdict.verdict);
    if resolution != Resolution::Recorded {
        return Ok(Decision::unchanged(resolution));
    }
    let mut changes = Changes::default();
    settle_dispatch(view, &mut changes, now, (id, job), verdict.verdict)?;
    let state = ApprovalState::Resolved(verdict.clone());
    changes.put(Table::Approvals, key.clone(), &Approval { state, ..approval });
    changes.delete(Table::OpenApprovals, key);
    let event = InboxEvent::Approval { job: job.clone(), decision: verdict };
    inbox::post(view, &mut changes, (id, job.run), &[event])?;
    Ok(Decision { answer: resolution, changes })
}

/// A dispatch that waits for this verdict goes to its queue, or ends, with it.
fn settle_dispatch(
    view: &dyn View,
    changes: &mut Changes,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    verdict: Said,
) -> Result<(), StoreError> {
    let Some(open) = read::<Job>(view, Table::Jobs, &rows::job(id, job))? else { return Ok(()) };
    if holds::of_job(view, id, job)?.is_none() {
        return Ok(());
    }
    match verdict {
        Said::Approved => {
            holds::forget(view, changes, id, job)?;
            commit::enqueue(changes, id, &open);
        }
        Said::Rejected => {
            let mut tenant = slots::tenant(view, id)?;
            commit::end_job(view, changes, (id, &mut tenant), job, (EndCause::Denied, now))?;
            changes.put(Table::Tenants, id.as_str(), &tenant);
        }
    }
    Ok(())
}

pub(super) fn open(view: &dyn View, id: &TenantId, page: &PageRequest) -> Result<Page<Approval>, StoreError> {
    let until = runs::page_end(id, page);
    let rows = view.scan(
        Table::OpenApprovals,
        &rows::of_tenant(id),
        &until,
        Pick::Last(page.limit.saturating_add(1)),
    )?;
    let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
    runs::fill_page(keys, page.limit, |key| read(view, Table::Approvals, key))
}

/// Every approval of a run, for its deletion.
pub(super) fn of_run(
    view: &dyn View,
    id: &TenantId,
    run: interlock_model::RunId,
) -> Result<Vec<String>, StoreError> {
    let (from, until) = rows::jobs_of_run(id, run);
    let rows = view.scan(Table::Approvals, &from, &until, Pick::First(usize::MAX))?;
    Ok(rows.into_iter().map(|row| row.key).collect())
}
