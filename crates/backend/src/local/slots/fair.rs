//! Groups of fair queues: what they are charged, and which of them goes next.

use interlock_model::limit::GroupKey;
use interlock_model::limit::fair::{self, FairCharge, FairGroup, REMEMBERED_MAX};
use interlock_model::limit::place::{RunSlots, Waiting};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::time::millis;
use interlock_model::{RunId, Timestamp, WorkflowId};

use super::super::draft::Draft;
use super::super::rows::{self, FairState};
use super::super::tables::{Table, end_of};
use super::{QueueEntry, SlotHolder};
use crate::StoreError;

impl Draft<'_> {
    /// How long runs of the workflow hold their slots.
    pub(super) fn run_ms(&self, workflow: &WorkflowId) -> Result<u64, StoreError> {
        let known = self.get_seen(Table::RunMeans, &rows::workflow(self.id, workflow))?;
        Ok(known.unwrap_or(fair::RUN_MS_UNKNOWN))
    }

    pub(super) fn fair_group(
        &self,
        claim: &SlotClaim,
        group: &GroupKey,
    ) -> Result<Option<FairGroup>, StoreError> {
        self.get_seen(Table::FairGroups, &rows::fair_group(self.id, claim, group))
    }

    /// Writes a group of a fair queue, and its turn among the others. None: it is forgotten.
    fn put_fair_group(
        &mut self,
        claim: &SlotClaim,
        group: &GroupKey,
        (before, after): (Option<FairGroup>, Option<FairGroup>),
    ) -> Result<(), StoreError> {
        if before == after {
            return Ok(());
        }
        if let Some(before) = before {
            let turn = rows::fair_turn(self.id, claim, (FairState::of(&before), &before), group);
            self.delete_seen(Table::FairTurns, turn);
        }
        let key = rows::fair_group(self.id, claim, group);
        match after {
            Some(after) => {
                let turn = rows::fair_turn(self.id, claim, (FairState::of(&after), &after), group);
                self.mark_seen(Table::FairTurns, turn);
                self.put_seen(Table::FairGroups, key, &after);
            }
            None => self.delete_seen(Table::FairGroups, key),
        }
        let (before, after) = (before.as_ref().map(FairState::of), after.as_ref().map(FairState::of));
        let count = |state, is: Option<FairState>| u32::from(is == Some(state));
        self.change_group(claim, |known, _| {
            let fair = &mut known.fair;
            let counts =
                [(FairState::Waits, &mut fair.waiting), (FairState::Remembered, &mut fair.remembered)];
            for (state, number) in counts {
                *number = (*number + count(state, after)).saturating_sub(count(state, before));
            }
        })
    }

    /// The smallest charge of the groups with runs that wait, and that group.
    pub(super) fn next_fair_group(
        &self,
        claim: &SlotClaim,
        state: FairState,
    ) -> Result<Option<(u64, GroupKey)>, StoreError> {
        let row = self.first_seen(Table::FairTurns, &rows::fair_turns(self.id, claim, state))?;
        Ok(row.and_then(|row| rows::turn_of(&row.key)).map(|(charge, _, group)| (charge, group)))
    }

    /// What a group is charged that begins to wait, or gets a slot at once.
    fn charge_from(
        &mut self,
        claim: &SlotClaim,
        before: Option<FairGroup>,
        turn: u64,
    ) -> Result<u64, StoreError> {
        let least = self.next_fair_group(claim, FairState::Waits)?.map(|(charge, _)| charge);
        let least_charge = self.group(claim)?.group.fair.least_charge(least, turn);
        Ok(before.map_or(0, |group| group.charge).max(least_charge))
    }

    /// A run begins to wait in its group.
    pub(super) fn enter_fair_group(
        &mut self,
        waiting: &Waiting,
        group: &GroupKey,
        entry: &QueueEntry,
    ) -> Result<(), StoreError> {
        let claim = waiting.claim();
        let before = self.fair_group(&claim, group)?;
        let after = match before {
            Some(known) if known.queued > 0 => FairGroup { queued: known.queued + 1, ..known },
            Some(_) | None => {
                let turn = fair::cost(self.run_ms(&entry.workflow)?, self.weight(&claim, group)?);
                let charge = self.charge_from(&claim, before, turn)?;
                FairGroup { charge, turn: entry.place.arrival, queued: 1 }
            }
        };
        self.put_seen(Table::FairQueue, rows::fair_entry(self.id, waiting, group, entry.run), entry);
        self.put_fair_group(&claim, group, (before, Some(after)))
    }

    /// A run does not wait in its group any more.
    pub(super) fn leave_fair_group(
        &mut self,
        waiting: &Waiting,
        group: &GroupKey,
        run: RunId,
    ) -> Result<(), StoreError> {
        let claim = waiting.claim();
        self.delete_seen(Table::FairQueue, rows::fair_entry(self.id, waiting, group, run));
        let Some(before) = self.fair_group(&claim, group)? else { return Ok(()) };
        let after = FairGroup { queued: before.queued.saturating_sub(1), ..before };
        self.put_fair_group(&claim, group, (Some(before), Some(after)))?;
        self.forget_smallest_charge(&claim)
    }

    fn forget_smallest_charge(&mut self, claim: &SlotClaim) -> Result<(), StoreError> {
        if self.group(claim)?.group.fair.remembered <= REMEMBERED_MAX {
            return Ok(());
        }
        let Some((_, group)) = self.next_fair_group(claim, FairState::Remembered)? else { return Ok(()) };
        let before = self.fair_group(claim, &group)?;
        self.put_fair_group(claim, &group, (before, None))
    }

    /// Charges the group of a run that gets a slot. `has_waited`: in the queue of this limit, where its group has had its
    /// turn; another may have been idle.
    pub(super) fn charge_run(
        &mut self,
        (claim, group): (&SlotClaim, GroupKey),
        workflow: &WorkflowId,
        has_waited: bool,
    ) -> Result<FairCharge, StoreError> {
        let amount = fair::cost(self.run_ms(workflow)?, self.weight(claim, &group)?);
        let before = self.fair_group(claim, &group)?;
        let charge = match before {
            Some(known) if has_waited || known.queued > 0 => known.charge,
            Some(_) | None => self.charge_from(claim, before, amount)?,
        };
        let after = FairGroup { charge: charge.saturating_add(amount), ..before.unwrap_or_default() };
        self.put_fair_group(claim, &group, (before, Some(after)))?;
        self.change_group(claim, |known, _| {
            let others = known.fair.waiting.saturating_sub(u32::from(after.queued > 0));
            if has_waited {
                known.fair.grant(charge, amount, others);
            } else {
                known.fair.acquire(charge, amount);
            }
        })?;
        self.forget_smallest_charge(claim)?;
        Ok(FairCharge { group, amount })
    }

    /// Corrects what a run was charged, now that it has ended.
    pub(super) fn settle_run(
        &mut self,
        claim: &SlotClaim,
        charged: &FairCharge,
        run_ms: u64,
    ) -> Result<(), StoreError> {
        let FairCharge { group, amount } = charged;
        let before = self.fair_group(claim, group)?;
        let Some(known) = before else { return Ok(()) };
        let real = fair::cost(run_ms, self.weight(claim, group)?);
        let charge = known.charge.saturating_sub(*amount).saturating_add(real);
        self.put_fair_group(claim, group, (before, Some(FairGroup { charge, ..known })))
    }

    /// For how long a run has held its slots, without the time of its approvals. The mean of its workflow follows it.
    pub(super) fn measure_run(
        &mut self,
        slots: &RunSlots,
        SlotHolder { since, workflow, .. }: &SlotHolder,
    ) -> Result<u64, StoreError> {
        let now = self.now;
        let run_ms = millis(now.since(*since)).saturating_sub(slots.approvals.until(now));
        let key = rows::workflow(self.id, workflow);
        let before = self.get_seen(Table::RunMeans, &key)?;
        self.put_seen(Table::RunMeans, key, &fair::run_ms_after(before, run_ms));
        Ok(run_ms)
    }

    /// A run begins to wait for an approval, or stops to: that time is not charged.
    pub(in super::super) fn note_approvals(
        &mut self,
        run: RunId,
        is_waiting: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(slots) = self.run_slots(run)? else { return Ok(()) };
        if !slots.fair.is_empty() {
            let approvals = slots.approvals.after(is_waiting, now);
            self.put_run_slots(run, &RunSlots { approvals, ..slots });
        }
        Ok(())
    }

    /// Forgets all groups of a queue in which nothing happens any more.
    pub(super) fn forget_fair_groups(&mut self, claim: &SlotClaim) -> Result<(), StoreError> {
        for table in [Table::FairGroups, Table::FairTurns] {
            let all = rows::limit_slots(self.id, claim);
            for row in self.scan_seen(table, (&all, &end_of(&all)), usize::MAX)? {
                self.delete_seen(table, row.key);
            }
        }
        Ok(())
    }
}
