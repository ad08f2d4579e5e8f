//! Held jobs: written down with their dispatch, and settled once.

use async_trait::async_trait;
use interlock_model::dispatch_policy::{HeldJob, Hold, HoldReason, Throttle};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, Tag, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::commit::{end_job, enqueue, open_approval, write_job};
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, read};
use super::{history, inbox, rows, slots};
use crate::StoreError;
use crate::holds::{HeldDue, HoldStore, Settled, Settlement, TakeHeld};

/// How many jobs a rule has let go since when.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Released {
    began: Timestamp,
    count: u32,
    /// Those that were told to wait since then.
    #[serde(default)]
    refused: u32,
}

/// Writes a new job down, in no queue, due to be looked at.
pub(super) fn hold(changes: &mut Changes, id: &TenantId, now: Timestamp, held: &HeldJob) {
    let job = write_job(changes, id, now, &held.job);
    write(changes, (id, &job.new.id), &Hold::new(now, held.detail.clone()));
}

pub(super) fn of_job(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Option<Hold>, StoreError> {
    read(view, Table::Held, &rows::job(id, job))
}

fn write(changes: &mut Changes, (id, job): (&TenantId, &JobId), hold: &Hold) {
    changes.put(Table::Held, rows::job(id, job), hold);
    if let Some(at) = hold.look_at {
        changes.mark(Table::HeldDue, rows::expiry(id, at, job));
    }
}

fn erase(changes: &mut Changes, (id, job): (&TenantId, &JobId), hold: &Hold) {
    changes.delete(Table::Held, rows::job(id, job));
    if let Some(at) = hold.look_at {
        changes.delete(Table::HeldDue, rows::expiry(id, at, job));
    }
}

/// The job is held no more, if it was. Returns how it was held.
pub(super) fn forget(
    view: &dyn View,
    changes: &mut Changes,
    id: &TenantId,
    job: &JobId,
) -> Result<Option<Hold>, StoreError> {
    let hold = of_job(view, id, job)?;
    if let Some(hold) = &hold {
        erase(changes, (id, job), hold);
    }
    Ok(hold)
}

fn take(view: &dyn View, now: Timestamp, asked: &TakeHeld) -> Result<Decision<Vec<HeldDue>>, StoreError> {
    let id = &asked.tenant;
    let until = rows::after(id, now + asked.ahead);
    let due = view.scan(Table::HeldDue, &rows::of_tenant(id), &until, Pick::First(asked.limit))?;
    let mut changes = Changes::default();
    let mut taken = Vec::with_capacity(due.len());
    for row in due {
        changes.delete(Table::HeldDue, row.key.clone());
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        let Some(hold) = of_job(view, id, &job)? else { continue };
        let Some(found) = read::<Job>(view, Table::Jobs, &rows::job(id, &job))? else { continue };
        let hold = Hold { look_at: Some(now + asked.in_hand), ..hold };
        write(&mut changes, (id, &job), &hold);
        taken.push(HeldDue { job: found.new, hold, now });
    }
    Ok(Decision { answer: taken, changes })
}

fn settle(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    settlement: Settlement,
) -> Result<Decision<Settled>, StoreError> {
    let hold = of_job(view, id, job)?.filter(|hold| hold.reason != HoldReason::Approval);
    let open: Option<Job> = read(view, Table::Jobs, &rows::job(id, job))?;
    let Some((hold, open)) = hold.zip(open) else { return Ok(Decision::unchanged(Settled::NotHeld)) };
    let mut changes = Changes::default();
    erase(&mut changes, (id, job), &hold);
    let answer = match settlement {
        Settlement::Release { told } => release(view, &mut changes, (id, &open), (told, now))?,
        Settlement::ReleaseWithin { rule, throttle, detail, told } => {
            match count(view, &mut changes, (id, &rule), (throttle, now))? {
                None => release(view, &mut changes, (id, &open), (told, now))?,
                Some(next) => {
                    let again =
                        hold.clone().again(HoldReason::PolicyThrottled, detail, (now, Some(next.since(now))));
                    wait(view, &mut changes, (id, job), (&hold, again), now)?
                }
            }
        }
        Settlement::Deny { reason } => {
            let mut tenant = slots::tenant(view, id)?;
            end_job(view, &mut changes, (id, &mut tenant), job, (EndCause::Denied, now))?;
            changes.put(Table::Tenants, id.as_str(), &tenant);
            let outcome = JobOutcome::Denied { reason };
            let event = InboxEvent::Job { at: now, job: job.clone(), outcome };
            inbox::post(view, &mut changes, (id, job.run), &[event])?;
            Settled::Denied
        }
        Settlement::Wait { reason, detail, wait: time } => {
            let again = hold.clone().again(reason, detail, (now, Some(time)));
            wait(view, &mut changes, (id, job), (&hold, again), now)?
        }
        Settlement::Ask { approval, detail } => {
            open_approval(&mut changes, id, &approval);
            let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
            write(&mut changes, (id, job), &hold.again(HoldReason::Approval, detail, (now, None)));
            inbox::post(view, &mut changes, (id, job.run), &[event])?;
            Settled::Asked
        }
    };
    Ok(Decision { answer, changes })
}

fn release(
    view: &dyn View,
    changes: &mut Changes,
    (id, open): (&TenantId, &Job),
    (told, now): (Option<String>, Timestamp),
) -> Result<Settled, StoreError> {
    enqueue(changes, id, open);
    if let Some(told) = told {
        let event = Event::new(now, EventKind::StepReleased).of_job(&open.new.id).saying(told);
        history::append(view, changes, (id, open.new.id.run), vec![event])?;
    }
    Ok(Settled::Released)
}

fn wait(
    view: &dyn View,
    changes: &mut Changes,
    (id, job): (&TenantId, &JobId),
    (before, hold): (&Hold, Hold),
    now: Timestamp,
) -> Result<Settled, StoreError> {
    write(changes, (id, job), &hold);
    if before.reason != hold.reason {
        let event = Hold::event(now, job, hold.reason, &hold.detail);
        history::append(view, changes, (id, job.run), vec![event])?;
    }
    Ok(Settled::Waiting(hold.look_at.unwrap_or(now)))
}

/// Counts one more that the rule lets go. If it was enough in this period: when the next one begins.
fn count(
    view: &dyn View,
    changes: &mut Changes,
    (id, rule): (&TenantId, &Tag),
    (throttle, now): (Throttle, Timestamp),
) -> Result<Option<Timestamp>, StoreError> {
    let key = rows::throttle(id, rule);
    let released: Option<Released> = read(view, Table::Throttles, &key)?;
    let current = released.filter(|released| now < released.began + throttle.period);
    let current = current.unwrap_or(Released { began: now, count: 0, refused: 0 });
    let dispatches = throttle.dispatches.get();
    if current.count < dispatches {
        changes.put(Table::Throttles, key, &Released { count: current.count + 1, ..current });
        return Ok(None);
    }
    // Each period has room for so many: those who wait are spread over the periods to come.
    let periods = 1 + current.refused / dispatches;
    let refused = current.refused.saturating_add(1);
    changes.put(Table::Throttles, key, &Released { refused, ..current });
    Ok(Some(current.began + throttle.period.saturating_mul(periods)))
}

#[async_trait]
impl<E: Executor> HoldStore for LocalStore<E> {
    async fn take_held(&self, asked: &TakeHeld) -> Result<Vec<HeldDue>, StoreError> {
        let asked = asked.clone();
        self.write("take held jobs", move |view, now| take(view, now, &asked)).await
    }

    async fn settle_held(
        &self,
        tenant: &TenantId,
        job: &JobId,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError> {
        let (tenant, job, settlement) = (tenant.clone(), job.clone(), settlement.clone());
        let decide = move |view: &dyn View, now| settle(view, now, (&tenant, &job), settlement);
        self.write("settle a held job", decide).await
    }
}
