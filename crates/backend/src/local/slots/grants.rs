//! Grants: free slots go to the runs that wait for them, in the step that frees them.

use interlock_model::limit::group::Fullness;
use interlock_model::limit::judge::RuledGroup;
use interlock_model::limit::place::RunSlots;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::InboxEvent;
use interlock_model::{LimitName, Timestamp};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::{Pick, Table, end_of};
use super::QueueEntry;
use crate::StoreError;
use crate::limits::GRANT_STEPS_MAX;

/// What keeps a waiting run from starting.
type Blocker = (SlotClaim, Fullness);

impl Draft<'_> {
    /// Gives the free slots of these groups to the runs that wait for them. What one step does not reach, a timer continues.
    /// Returns how many runs got their slots.
    pub(in super::super) fn grant_slots(&mut self, groups: &[SlotClaim]) -> Result<u32, StoreError> {
        let before = self.granted;
        for claim in groups {
            while self.grant_next(claim)? {}
        }
        Ok(self.granted - before)
    }

    /// One step for the run that goes next in a group: it starts, or moves to the queue that blocks it. False: there is no
    /// such run, or it must wait.
    fn grant_next(&mut self, claim: &SlotClaim) -> Result<bool, StoreError> {
        let RuledGroup { rule, group, .. } = self.group(claim)?;
        if group.queued == 0 {
            return Ok(false);
        }
        self.reorder(claim)?;
        match group.fullness(&rule, self.now) {
            None => {}
            Some(Fullness::Rate { next_at }) => {
                self.grant_at(next_at, claim);
                return Ok(false);
            }
            Some(Fullness::Slots | Fullness::Paused | Fullness::Others | Fullness::Quiet(_)) => {
                return Ok(false);
            }
        }
        if self.grant_steps == GRANT_STEPS_MAX {
            self.grant_at(self.now, claim);
            return Ok(false);
        }
        self.grant_steps += 1;
        let Some(entry) = self.first_waiting(claim)? else { return Ok(false) };
        self.leave_queue(entry.run)?;
        self.grant_or_queue(&entry, Some(claim))?;
        Ok(true)
    }

    /// Starts a run, or has it wait in the queue that blocks it. `own`: the group that it would not wait for.
    pub(super) fn grant_or_queue(
        &mut self,
        entry: &QueueEntry,
        own: Option<&SlotClaim>,
    ) -> Result<(), StoreError> {
        let slots = self.run_slots(entry.run)?.unwrap_or_default();
        match self.blocker(entry, &slots, own)? {
            None => self.grant(entry, &slots, own),
            Some((other, fullness)) => self.enter_queue(entry, (&other, fullness)),
        }
    }

    /// The narrowest of the other groups that keeps a run from starting which goes before all of its own queue.
    fn blocker(
        &mut self,
        entry: &QueueEntry,
        slots: &RunSlots,
        own: Option<&SlotClaim>,
    ) -> Result<Option<Blocker>, StoreError> {
        // A child runs in the slot of its root.
        let tenant_runs = slots.parent.is_none().then(SlotClaim::tenant_runs);
        for claim in slots.claims.iter().chain(&tenant_runs).filter(|claim| Some(*claim) != own) {
            let RuledGroup { rule, group, .. } = self.group(claim)?;
            if let Some(fullness) = group.fullness(&rule, self.now) {
                return Ok(Some((claim.clone(), fullness)));
            }
            // Its slot is promised to one that arrived earlier.
            let is_promised = group.queued > 0
                && self.first_waiting(claim)?.is_some_and(|first| first.place.arrival < entry.place.arrival);
            if is_promised {
                return Ok(Some((claim.clone(), Fullness::Others)));
            }
        }
        Ok(None)
    }

    fn grant(
        &mut self,
        entry: &QueueEntry,
        slots: &RunSlots,
        own: Option<&SlotClaim>,
    ) -> Result<(), StoreError> {
        match slots.parent {
            None => self.acquire_slots(entry.run, &entry.workflow, &slots.claims, own)?,
            Some(_) => self.acquire_limit_slots(entry.run, &entry.workflow, &slots.claims, own)?,
        }
        self.post(entry.run, &[InboxEvent::Granted { at: self.now }])?;
        self.granted += 1;
        Ok(())
    }

    /// Grants the slots of a group then, unless they are granted before.
    pub(in super::super) fn grant_at(&mut self, at: Timestamp, claim: &SlotClaim) {
        self.mark(Table::LimitTimers, rows::limit_timer(self.id, at, claim));
    }

    /// Grants what is free in all groups of a limit: it was raised, resumed or deleted.
    pub(in super::super) fn grant_all(&mut self, limit: &LimitName) -> Result<u32, StoreError> {
        self.grant_all_after(limit, None)
    }

    /// The same, for the groups behind this one.
    pub(in super::super) fn grant_all_after(
        &mut self,
        limit: &LimitName,
        after: Option<&str>,
    ) -> Result<u32, StoreError> {
        let all = rows::limit_queues(self.id, limit);
        let behind = |group: &str| end_of(&format!("{all}{group}/"));
        let mut last = after.map(str::to_owned);
        let before = self.granted;
        loop {
            let from = last.as_deref().map_or_else(|| all.clone(), behind);
            let rows = self.view.scan(Table::RunQueue, &from, &end_of(&all), Pick::First(1))?;
            let Some(claim) = rows.first().and_then(|row| rows::claim_of_group(&row.key)) else {
                self.end_debounces(limit)?;
                break;
            };
            if self.grant_steps == GRANT_STEPS_MAX {
                self.mark(Table::LimitTimers, rows::limit_sweep(self.id, self.now, limit, last.as_deref()));
                break;
            }
            // A group in which nothing can be granted costs a step, too.
            self.grant_steps += 1;
            self.grant_slots(std::slice::from_ref(&claim))?;
            last = Some(claim.group.escaped());
        }
        Ok(self.granted - before)
    }
}
