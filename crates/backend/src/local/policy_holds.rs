//! Held jobs: written with their dispatch, and settled once.

use interlock_model::dispatch_policy::{HeldJob, Hold, HoldReason, Throttle};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{Job, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, Tag, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::rows;
use super::store::Decide;
use super::tables::{Decided, Decision, Table, View};
use crate::StoreError;
use crate::policy_holds::{HeldDue, Settled, Settlement};
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
        self.write_hold(&job.new.id, &Hold::new(self.now, held.detail.clone()));
    }

    pub(super) fn hold(&self, job: &JobId) -> Result<Option<Hold>, StoreError> {
        self.read(Table::Held, &rows::job(self.id, job))
    }

    fn write_hold(&mut self, job: &JobId, hold: &Hold) {
        self.put(Table::Held, rows::job(self.id, job), hold);
        if let Some(at) = hold.look_at {
            self.mark(Table::HeldDue, rows::timed(self.id, at, job));
        }
    }

    /// Ends the hold on the job, if there is one, and returns it.
    pub(super) fn forget_hold(&mut self, job: &JobId) -> Result<Option<Hold>, StoreError> {
        let hold = self.hold(job)?;
        if let Some(hold) = &hold {
            self.delete(Table::Held, rows::job(self.id, job));
            if let Some(at) = hold.look_at {
                self.delete(Table::HeldDue, rows::timed(self.id, at, job));
            }
        }
        Ok(hold)
    }
}

impl Decide for AcquireHeldJobs {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Vec<HeldDue>> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let mut acquired = Vec::new();
        for row in draft.due(Table::HeldDue, now + self.ahead, self.limit)? {
            let job = rows::last_part(&row.key).parse::<JobId>();
            draft.delete(Table::HeldDue, row.key);
            let Ok(job) = job else { continue };
            let Some(hold) = draft.hold(&job)? else { continue };
            let Some(found) = draft.read::<Job>(Table::Jobs, &rows::job(&self.tenant, &job))? else {
                continue;
            };
            let hold = Hold { look_at: Some(now + self.in_hand), ..hold };
            draft.write_hold(&job, &hold);
            acquired.push(HeldDue { job: found.new, hold, now });
        }
        Ok(draft.answer(acquired))
    }
}

impl Decide for SettleHeldJob {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Settled> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let job = &self.job;
        let hold = draft.hold(job)?.filter(|hold| hold.reason != HoldReason::Approval);
        let open: Option<Job> = draft.read(Table::Jobs, &rows::job(&self.tenant, job))?;
        let Some((hold, open)) = hold.zip(open) else { return Ok(Decision::unchanged(Settled::NotHeld)) };
        draft.forget_hold(job)?;
        let settled = match self.settlement.clone() {
            Settlement::Release { told } => release(&mut draft, &open, told)?,
            Settlement::ReleaseWithin { rule, throttle, detail, told } => {
                match count_release(&mut draft, &rule, throttle)? {
                    None => release(&mut draft, &open, told)?,
                    Some(next) => {
                        let wait = Some(next.since(now));
                        let again = hold.clone().again(HoldReason::PolicyThrottled, detail, (now, wait));
                        hold_again(&mut draft, job, &hold, &again)?
                    }
                }
            }
            Settlement::Deny { reason } => {
                draft.end_and_post(job, JobOutcome::Denied { reason })?;
                Settled::Denied
            }
            Settlement::Wait { reason, detail, wait } => {
                let again = hold.clone().again(reason, detail, (now, Some(wait)));
                hold_again(&mut draft, job, &hold, &again)?
            }
            Settlement::Ask { approval, detail } => {
                draft.open_approval(&approval);
                let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
                draft.write_hold(job, &hold.again(HoldReason::Approval, detail, (now, None)));
                draft.post(job.run, &[event])?;
                Settled::Asked
            }
        };
        Ok(draft.answer(settled))
    }
}

fn release(draft: &mut Draft<'_>, open: &Job, told: Option<String>) -> Result<Settled, StoreError> {
    draft.enqueue(open);
    if let Some(told) = told {
        let event = Event::new(draft.now, EventKind::StepReleased).of_job(&open.new.id).saying(told);
        draft.append_events(open.new.id.run, &[event])?;
    }
    Ok(Settled::Released)
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
