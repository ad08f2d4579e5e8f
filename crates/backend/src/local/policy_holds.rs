//! Held jobs: written with their dispatch, and settled once.

use interlock_model::dispatch_policy::{HeldJob, Hold, HoldReason, Throttle};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{Job, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, Tag, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, decide};
use super::rows;
use super::tables::Table;
use crate::StoreError;
use crate::budgets::Reserved;
use crate::policy_holds::{HeldDue, JobReservation, Settled, Settlement};
use crate::verbs::{AcquireHeldJobs, SettleHeldJob};

/// How many jobs a rule has released in its current period.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ReleaseCount {
    began: Timestamp,
    count: u32,
    /// Jobs that were refused in this period.
    #[serde(default)]
    refused: u32,
}

impl Draft<'_> {
    /// Writes a new job, in no queue, due to be looked at.
    pub(super) fn hold_job(&mut self, held: &HeldJob) {
        let job = self.write_job(&held.job);
        self.write_hold(&job.new.id, &Hold::new(held.reason, self.now, held.detail.clone()));
    }

    /// Puts a job that was held into its queue. One that has to reserve first is held for that.
    pub(super) fn release(&mut self, open: &Job, next: HoldReason) {
        match open.new.budget.as_ref().filter(|_| open.must_reserve()) {
            None => self.enqueue(open),
            Some(budget) => self.write_hold(&open.new.id, &Hold::new(next, self.now, budget.pending())),
        }
    }

    pub(super) fn hold(&self, job: &JobId) -> Result<Option<Hold>, StoreError> {
        self.read(Table::Held, &rows::job(self.id, job))
    }

    /// Writes the hold, whose time is as it was.
    pub(super) fn put_hold(&mut self, job: &JobId, hold: &Hold) {
        self.put(Table::Held, rows::job(self.id, job), hold);
    }

    pub(super) fn write_hold(&mut self, job: &JobId, hold: &Hold) {
        self.put_hold(job, hold);
        if let Some(at) = hold.look_at {
            self.mark(Table::HeldDue, rows::timed(self.id, at, job));
        }
    }

    /// The job is not due at this time any more.
    pub(super) fn undue(&mut self, job: &JobId, at: Timestamp) {
        self.delete(Table::HeldDue, rows::timed(self.id, at, job));
    }

    /// Ends the hold on the job, if there is one, and returns it.
    pub(super) fn forget_hold(&mut self, job: &JobId) -> Result<Option<Hold>, StoreError> {
        let hold = self.hold(job)?;
        if let Some(hold) = &hold {
            self.delete_hold(job, hold);
            if let Some(place) = &hold.place {
                self.leave_budget(job, place);
            }
        }
        Ok(hold)
    }

    fn delete_hold(&mut self, job: &JobId, hold: &Hold) {
        self.delete(Table::Held, rows::job(self.id, job));
        if let Some(at) = hold.look_at {
            self.undue(job, at);
        }
    }
}

decide!(AcquireHeldJobs, |verb, draft| {
    let mut acquired = Vec::new();
    for row in draft.due(Table::HeldDue, draft.now + verb.ahead, verb.limit)? {
        let job = rows::last_part(&row.key).parse::<JobId>();
        draft.delete(Table::HeldDue, row.key);
        let Ok(job) = job else { continue };
        let Some(hold) = draft.hold(&job)? else { continue };
        let Some(found) = draft.read::<Job>(Table::Jobs, &rows::job(&verb.tenant, &job))? else {
            continue;
        };
        let hold = Hold { look_at: Some(draft.now + verb.in_progress), ..hold };
        draft.write_hold(&job, &hold);
        acquired.push(HeldDue { job: found.new, hold, now: draft.now });
    }
    Ok(acquired)
});

decide!(SettleHeldJob, |verb, draft| {
    let job = &verb.job;
    let hold = draft.hold(job)?.filter(|hold| !hold.reason.is_approval());
    let open: Option<Job> = draft.read(Table::Jobs, &rows::job(&verb.tenant, job))?;
    let Some((hold, open)) = hold.zip(open) else { return Ok(Settled::NotHeld) };
    if let Settlement::Reserve { reservation, message } = &verb.settlement {
        return reserve(draft, (&open, &hold), reservation, message.clone());
    }
    if let Settlement::Wait { reason, detail, wait, acquired_until } = &verb.settlement {
        let mut again = hold.clone().again(*reason, detail.clone(), (draft.now, Some(*wait)));
        if hold.look_at < *acquired_until {
            // Something was freed since the caller looked.
            again.look_at = hold.look_at;
        }
        return wait_again(draft, job, (&hold, &again));
    }
    draft.forget_hold(job)?;
    let settled = match verb.settlement.clone() {
        Settlement::Release { message } => release(draft, &open, message)?,
        Settlement::ReleaseWithin { rule, throttle, detail, message } => {
            match count_release(draft, &rule, throttle)? {
                None => release(draft, &open, message)?,
                Some(next) => {
                    let wait = Some(next.since(draft.now));
                    let again = hold.clone().again(HoldReason::PolicyThrottled, detail, (draft.now, wait));
                    hold_again(draft, job, &hold, &again)?
                }
            }
        }
        Settlement::Deny { reason } => {
            draft.end_and_post(job, JobOutcome::Denied { reason })?;
            Settled::Denied
        }
        Settlement::Exhaust { reason } => {
            draft.end_and_post(job, JobOutcome::Exhausted { reason })?;
            Settled::Denied
        }
        Settlement::Reserve { .. } | Settlement::Wait { .. } => Settled::NotHeld,
        Settlement::Ask { approval, detail } => {
            draft.open_approval(&approval);
            let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
            let asks =
                if hold.reason.is_of_budget() { HoldReason::BudgetApproval } else { HoldReason::Approval };
            draft.write_hold(job, &hold.again(asks, detail, (draft.now, None)));
            draft.post(job.run, &[event])?;
            Settled::Asked
        }
    };
    Ok(settled)
});

/// Reserves for the job, and only then lets it go.
fn reserve(
    draft: &mut Draft<'_>,
    (open, hold): (&Job, &Hold),
    reservation: &JobReservation,
    message: Option<String>,
) -> Result<Settled, StoreError> {
    if !hold.reason.is_of_budget() {
        return Ok(Settled::NotHeld);
    }
    match draft.reserve_for_job(open, hold, reservation)? {
        None => Ok(Settled::NotHeld),
        Some((reserved, Reserved::Granted { .. })) => {
            draft.delete_hold(&open.new.id, hold);
            release(draft, &reserved, message)
        }
        Some((_, refused)) => Ok(Settled::NotReserved(refused)),
    }
}

fn release(draft: &mut Draft<'_>, open: &Job, message: Option<String>) -> Result<Settled, StoreError> {
    draft.release(open, HoldReason::BudgetPending);
    if let Some(message) = message {
        let event = Event::new(draft.now, EventKind::StepReleased).of_job(&open.new.id).saying(message);
        draft.append_events(open.new.id.run, &[event])?;
    }
    Ok(Settled::Released)
}

/// Waits on, in the queue of its budget if it waits for that.
fn wait_again(
    draft: &mut Draft<'_>,
    job: &JobId,
    (before, again): (&Hold, &Hold),
) -> Result<Settled, StoreError> {
    if let Some(at) = before.look_at {
        draft.undue(job, at);
    }
    if let Some(place) = before.place.as_ref().filter(|_| again.place.is_none()) {
        draft.leave_budget(job, place);
    }
    hold_again(draft, job, before, again)
}

fn hold_again(draft: &mut Draft<'_>, job: &JobId, before: &Hold, hold: &Hold) -> Result<Settled, StoreError> {
    draft.write_hold(job, hold);
    if before.reason != hold.reason {
        draft.append_events(job.run, &[Hold::event(draft.now, job, hold.reason, &hold.detail)])?;
    }
    Ok(Settled::Waiting(hold.look_at.unwrap_or(draft.now)))
}

/// Counts one more job that the rule releases. If the period is full: when the job's own period begins.
fn count_release(
    draft: &mut Draft<'_>,
    rule: &Tag,
    throttle: Throttle,
) -> Result<Option<Timestamp>, StoreError> {
    let (key, now) = (rows::throttle(draft.id, rule), draft.now);
    let known: Option<ReleaseCount> = draft.read(Table::Throttles, &key)?;
    let current = known.filter(|known| now < known.began + throttle.period);
    let current = current.unwrap_or(ReleaseCount { began: now, count: 0, refused: 0 });
    let dispatches = throttle.dispatches.get();
    if current.count < dispatches {
        draft.put(Table::Throttles, key, &ReleaseCount { count: current.count + 1, ..current });
        return Ok(None);
    }
    // The jobs that wait are spread over the periods to come.
    let periods = 1 + current.refused / dispatches;
    let refused = current.refused.saturating_add(1);
    draft.put(Table::Throttles, key, &ReleaseCount { refused, ..current });
    Ok(Some(current.began + throttle.period.saturating_mul(periods)))
}
