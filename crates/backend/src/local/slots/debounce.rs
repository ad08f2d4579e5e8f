//! Runs that wait for newer starts: one per workflow and group, with the input of the newest start.

use interlock_model::history::Event;
use interlock_model::limit::place::{Debounced, RunSlots};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Head, RunStatus};
use interlock_model::{LimitName, RunId, WorkflowId};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::{Pick, Table, scan_prefix};
use super::QueueEntry;
use crate::StoreError;
use crate::limits::{DEBOUNCED_AMONG_MAX, GRANT_STEPS_MAX};

impl Draft<'_> {
    /// The run of the workflow in this group that takes newer starts in: the youngest whose quiet period is not over, and
    /// which no turn has touched or is about to touch.
    pub(in super::super) fn run_to_debounce(
        &self,
        claim: &SlotClaim,
        workflow: &WorkflowId,
    ) -> Result<Option<(RunId, Debounced)>, StoreError> {
        let all = rows::debounced_runs(self.id, claim, workflow);
        for row in scan_prefix(self.view, Table::Debounced, &all, Pick::Last(DEBOUNCED_AMONG_MAX))? {
            let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
            let debounced = self.run_slots(run)?.and_then(|slots| slots.debounced);
            let key = rows::run(self.id, run);
            let head: Option<Head> = self.read(Table::Heads, &key)?;
            let is_untouched = head.is_some_and(|head| head.status == RunStatus::Queued && head.version == 0);
            if let Some(debounced) = debounced.filter(|debounced| self.now < debounced.quiet.until)
                && is_untouched
                && !self.has(Table::Ready, &key)?
            {
                return Ok(Some((run, debounced)));
            }
        }
        Ok(None)
    }

    /// Has a run wait for newer starts, from now or on.
    pub(in super::super) fn debounce(&mut self, run: RunId, debounced: Debounced) -> Result<(), StoreError> {
        self.leave_debounce(run)?;
        self.mark(Table::Debounced, rows::debounced_run(self.id, &debounced, run));
        self.mark(Table::LimitTimers, rows::quiet_timer(self.id, &debounced, run));
        let before = self.run_slots(run)?.unwrap_or_default();
        self.put_run_slots(run, &RunSlots { debounced: Some(debounced), ..before });
        Ok(())
    }

    /// A run waits for newer starts no more.
    pub(in super::super) fn leave_debounce(&mut self, run: RunId) -> Result<Option<Debounced>, StoreError> {
        let Some(mut slots) = self.run_slots(run)? else { return Ok(None) };
        let Some(debounced) = slots.debounced.take() else { return Ok(None) };
        self.delete(Table::Debounced, rows::debounced_run(self.id, &debounced, run));
        self.delete(Table::LimitTimers, rows::quiet_timer(self.id, &debounced, run));
        self.put_run_slots(run, &slots);
        Ok(Some(debounced))
    }

    /// The quiet period of a run ends, if it does not wait longer by now. Returns how many runs got their slots.
    pub(in super::super) fn quiet_due(&mut self, run: RunId) -> Result<u32, StoreError> {
        let before = self.granted;
        let Some(debounced) = self.run_slots(run)?.and_then(|slots| slots.debounced) else { return Ok(0) };
        if debounced.quiet.until <= self.now && self.grant_steps < GRANT_STEPS_MAX {
            self.end_debounce(run)?;
        } else {
            self.mark(Table::LimitTimers, rows::quiet_timer(self.id, &debounced, run));
        }
        Ok(self.granted - before)
    }

    /// The run starts, or has its place in the queue of the group that blocks it now.
    fn end_debounce(&mut self, run: RunId) -> Result<(), StoreError> {
        let Some(Debounced { workflow, place, quiet, .. }) = self.leave_debounce(run)? else { return Ok(()) };
        self.grant_steps += 1;
        self.append_events(run, &[Event::quiet_ended(self.now, quiet.starts)])?;
        self.grant_or_queue(&QueueEntry { run, workflow, place }, None)
    }

    /// A limit that debounces no more has no run wait.
    pub(super) fn end_debounces(&mut self, limit: &LimitName) -> Result<(), StoreError> {
        let document = self.stored_limit(limit)?.map(|limit| limit.document);
        if document.is_some_and(|document| document.group_rule(false).debounce.is_some()) {
            return Ok(());
        }
        let all = rows::limit_queues(self.id, limit);
        for row in scan_prefix(self.view, Table::Debounced, &all, Pick::First(GRANT_STEPS_MAX as usize + 1))?
        {
            if self.grant_steps >= GRANT_STEPS_MAX {
                self.mark(Table::LimitTimers, rows::limit_sweep(self.id, self.now, limit, None));
                break;
            }
            let run = rows::last_part(&row.key).parse::<RunId>();
            self.delete(Table::Debounced, row.key);
            if let Ok(run) = run {
                self.end_debounce(run)?;
            }
        }
        Ok(())
    }
}
