//! Newcomers that join a run, or take the place of one.

use interlock_model::limit::judge::{RuledGroup, replaces_in};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::InboxEvent;
use interlock_model::{RunId, WorkflowId};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::{Pick, Table, end_of, parse, scan_prefix};
use super::{QueueEntry, SlotHolder};
use crate::StoreError;
use crate::limits::JOINED_AMONG_MAX;

impl Draft<'_> {
    /// The groups of a start with what their limits demand, the tenant's own last. If the narrowest limit that replaces
    /// replaces live runs, what the run that it would replace frees is known, and that run.
    pub(in super::super) fn met_groups(
        &mut self,
        claims: &[SlotClaim],
    ) -> Result<(Vec<RuledGroup>, Option<RunId>), StoreError> {
        let all: Vec<SlotClaim> = claims.iter().cloned().chain([SlotClaim::tenant_runs()]).collect();
        let mut met = all.iter().map(|claim| self.group(claim)).collect::<Result<Vec<_>, _>>()?;
        let Some(at) = replaces_in(&met, self.now) else { return Ok((met, None)) };
        let Some(victim) = self.oldest_live(&all[at])? else { return Ok((met, None)) };
        let held = self.run_slots(victim)?.map(|slots| slots.claims).unwrap_or_default();
        for (claim, ruled) in all.iter().zip(&mut met) {
            let is_freed = held.contains(claim) || *claim == SlotClaim::tenant_runs();
            ruled.freed = u32::from(is_freed);
        }
        Ok((met, Some(victim)))
    }

    fn oldest_live(&self, claim: &SlotClaim) -> Result<Option<RunId>, StoreError> {
        let slots = rows::limit_slots(self.id, claim);
        let rows = scan_prefix(self.view, Table::LimitSlots, &slots, Pick::First(1))?;
        Ok(rows.first().and_then(|row| rows::last_part(&row.key).parse().ok()))
    }

    /// The oldest run of the workflow that is live in the group, or waits in its queue.
    pub(in super::super) fn run_to_join(
        &self,
        claim: &SlotClaim,
        workflow: &WorkflowId,
    ) -> Result<Option<RunId>, StoreError> {
        let slots = rows::limit_slots(self.id, claim);
        for row in scan_prefix(self.view, Table::LimitSlots, &slots, Pick::First(JOINED_AMONG_MAX))? {
            let holder: SlotHolder = parse(Table::LimitSlots, &row.key, &row.value)?;
            if holder.workflow == *workflow
                && let Ok(run) = rows::last_part(&row.key).parse()
            {
                return Ok(Some(run));
            }
        }
        let waiting = super::queue::waiting_runs(self.view, self.id, claim, JOINED_AMONG_MAX)?;
        Ok(waiting.into_iter().find(|entry| entry.workflow == *workflow).map(|entry| entry.run))
    }

    /// Takes the last run of a queue out of it, for a newcomer that takes its place. The run ends with its next turn.
    pub(in super::super) fn supersede_last(
        &mut self,
        claim: &SlotClaim,
        by: RunId,
    ) -> Result<Option<QueueEntry>, StoreError> {
        let from = rows::run_queue(self.id, claim);
        let last = self.view.scan(Table::RunQueue, &from, &end_of(&from), Pick::Last(1))?;
        let Some(row) = last.first() else { return Ok(None) };
        let entry: QueueEntry = parse(Table::RunQueue, &row.key, &row.value)?;
        self.supersede(entry.run, claim, by)?;
        Ok(Some(entry))
    }

    fn supersede(&mut self, run: RunId, claim: &SlotClaim, by: RunId) -> Result<(), StoreError> {
        self.leave_queue(run)?;
        self.post(run, &[InboxEvent::Replaced { by, limit: claim.limit.clone() }])
    }

    /// Puts a newcomer first into the queue of a group, and has the live run cancelled that it replaces: unless it
    /// takes the place of another newcomer that waits for that.
    pub(in super::super) fn replace_running(
        &mut self,
        entry: &QueueEntry,
        (claim, victim): (&SlotClaim, RunId),
    ) -> Result<(), StoreError> {
        let newcomer = entry.run;
        match self.group(claim)?.group.replacing {
            Some(pending) => self.supersede(pending, claim, newcomer)?,
            None => {
                self.post(victim, &[InboxEvent::Replaced { by: newcomer, limit: claim.limit.clone() }])?;
            }
        }
        self.enter_queue_at(entry, claim, (0, None))?;
        self.change_group(claim, |group, _| group.replacing = Some(newcomer))
    }
}
