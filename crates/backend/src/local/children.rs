//! Children: wanted by a commit, started once, and reported to the step that waits for them.

use interlock_model::child::{ChildEffects, ChildOutcome, ChildReport, NewChild};
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::group::Fullness;
use interlock_model::limit::judge::{Arrival, RuledGroup, judge_child};
use interlock_model::limit::place::RunSlots;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::{RunId, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, decide};
use super::rows::{self, WorkflowHead};
use super::slots::QueueEntry;
use super::tables::{Pick, Table, scan_prefix};
use crate::StoreError;
use crate::children::{ChildSettled, ChildSettlement};
use crate::verbs::{AcquireChildStarts, SettleChildStart};

/// A child that is to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ChildStart {
    pub(super) child: NewChild,
    /// When it is looked at.
    pub(super) due_at: Timestamp,
}

impl Draft<'_> {
    /// What a commit of `run` does about children.
    pub(super) fn settle_children(&mut self, run: RunId, children: &ChildEffects) -> Result<(), StoreError> {
        for child in &children.started {
            self.mark(Table::Children, rows::child(self.id, run, child.run));
            self.write_child_start(&ChildStart { child: child.clone(), due_at: self.now });
        }
        for child in &children.cancelled {
            self.give_up_child(run, *child)?;
        }
        if let Some(report) = &children.report {
            self.report_child(run, report)?;
        }
        Ok(())
    }

    fn write_child_start(&mut self, start: &ChildStart) {
        let run = start.child.run;
        self.mark(Table::ChildrenDue, rows::timed(self.id, start.due_at, &run));
        self.put(Table::ChildStarts, rows::run(self.id, run), start);
    }

    /// Ends the wait for the start of a child. None: it has started, or is not wanted.
    pub(super) fn forget_child_start(&mut self, child: RunId) -> Result<Option<ChildStart>, StoreError> {
        let key = rows::run(self.id, child);
        let start: Option<ChildStart> = self.read(Table::ChildStarts, &key)?;
        if let Some(start) = &start {
            self.delete(Table::ChildrenDue, rows::timed(self.id, start.due_at, &child));
            self.delete(Table::ChildStarts, key);
        }
        Ok(start)
    }

    /// The step that waited for a child continues without it: it is not started, or cancelled.
    fn give_up_child(&mut self, parent: RunId, child: RunId) -> Result<(), StoreError> {
        self.delete(Table::Children, rows::child(self.id, parent, child));
        if self.forget_child_start(child)?.is_none() {
            let head: Option<Head> = self.read(Table::Heads, &rows::run(self.id, child))?;
            if head.is_some_and(|head| !head.status.is_final()) {
                self.request_cancel(child, &InboxEvent::cancel_by_parent(parent))?;
            }
        }
        Ok(())
    }

    /// The same for all children of a run.
    pub(super) fn give_up_children(&mut self, parent: RunId) -> Result<(), StoreError> {
        let all = rows::of_run(self.id, parent);
        for row in scan_prefix(self.view, Table::Children, &all, Pick::First(usize::MAX))? {
            match rows::last_part(&row.key).parse() {
                Ok(child) => self.give_up_child(parent, child)?,
                Err(_) => self.delete(Table::Children, row.key),
            }
        }
        Ok(())
    }

    /// Posts the end of a child to the run that waits for it. Nothing if that does not.
    pub(super) fn report_child(&mut self, child: RunId, report: &ChildReport) -> Result<(), StoreError> {
        let key = rows::child(self.id, report.parent, child);
        if self.has(Table::Children, &key)? {
            self.delete(Table::Children, key);
            self.post(report.parent, std::slice::from_ref(&report.event))?;
        }
        Ok(())
    }

    /// A run is deleted: the step that waits for it continues.
    pub(super) fn report_deleted(&mut self, run: RunId) -> Result<(), StoreError> {
        let start: Option<Start> = self.read(Table::Starts, &rows::run(self.id, run))?;
        let Some(parent) = start.and_then(|start| start.parent) else { return Ok(()) };
        let report = ChildReport::about(&parent, run, ChildOutcome::deleted());
        self.report_child(run, &report)
    }

    /// The groups that a child counts in: not those in which a run above it counts.
    fn own_claims(&self, parent: RunId, claims: &[SlotClaim]) -> Result<Vec<SlotClaim>, StoreError> {
        let (mut own, mut above) = (claims.to_vec(), Some(parent));
        while let Some(run) = above.filter(|_| !own.is_empty()) {
            let slots = self.run_slots(run)?.unwrap_or_default();
            own.retain(|claim| !slots.claims.contains(claim));
            above = slots.parent;
        }
        Ok(own)
    }

    fn start_child(
        &mut self,
        child: &NewChild,
        (version, claims): (u32, &[SlotClaim]),
    ) -> Result<ChildSettled, StoreError> {
        let claims = self.own_claims(child.parent.run, claims)?;
        let met = claims.iter().map(|claim| self.group(claim)).collect::<Result<Vec<RuledGroup>, _>>()?;
        let claim = |at: usize| &claims[at];
        match judge_child(&met, self.now) {
            Arrival::Reject { at, fullness } => {
                Ok(ChildSettled::LimitReached(self.blocked(claim(at), fullness)?))
            }
            Arrival::QueueFull { at, fullness } => {
                Ok(ChildSettled::QueueFull(self.blocked(claim(at), fullness)?))
            }
            Arrival::Queue { at, fullness } => {
                self.queue_child(child, version, (&claims, claim(at), fullness))
            }
            // A child joins and replaces nothing.
            Arrival::Start
            | Arrival::Debounce { .. }
            | Arrival::Join { .. }
            | Arrival::ReplaceQueued { .. }
            | Arrival::ReplaceRunning { .. } => {
                self.write_child(child, version, &Head::admitted(self.now))?;
                self.mark(Table::Ready, rows::run(self.id, child.run));
                let slots = self.slots_of(child, &claims)?;
                self.put_run_slots(child.run, &slots);
                self.acquire_limit_slots(child.run, &child.workflow, &claims, None)?;
                Ok(ChildSettled::Started)
            }
        }
    }

    /// Writes a child that waits for slots.
    fn queue_child(
        &mut self,
        child: &NewChild,
        version: u32,
        (claims, claim, fullness): (&[SlotClaim], &SlotClaim, Fullness),
    ) -> Result<ChildSettled, StoreError> {
        let blocked = self.blocked(claim, fullness)?;
        let until = self.now + self.group(claim)?.rule.queue.wait_max;
        self.write_child(child, version, &Head::queued(self.now, until))?;
        self.mark(Table::Timers, rows::timed(self.id, until, &child.run));
        let place = self.next_place(child.priority)?;
        let entry = QueueEntry { run: child.run, workflow: child.workflow.clone(), place };
        let slots = self.slots_of(child, claims)?;
        self.put_run_slots(child.run, &slots);
        self.enter_queue(&entry, (claim, fullness))?;
        Ok(ChildSettled::Queued(blocked))
    }

    /// The groups that a child counts in. In fair queues it stands for whom its root stands for.
    fn slots_of(&self, child: &NewChild, claims: &[SlotClaim]) -> Result<RunSlots, StoreError> {
        let parent = child.parent.run;
        let fair = self.run_slots(parent)?.unwrap_or_default().fair;
        Ok(RunSlots { claims: claims.to_vec(), parent: Some(parent), fair, ..RunSlots::default() })
    }

    fn write_child(&mut self, child: &NewChild, version: u32, head: &Head) -> Result<(), StoreError> {
        let (key, now) = (rows::run(self.id, child.run), self.now);
        if self.has(Table::Starts, &key)? {
            return Err(StoreError::Conflict(format!("there is a run {} already", child.run)));
        }
        self.forget_child_start(child.run)?;
        self.put(Table::Starts, key.clone(), &child.start(self.id, version, now));
        self.put(Table::Heads, key, head);
        let admitted = Event::new(now, EventKind::RunStatus).with_status(head.status.name());
        self.put(Table::Timeline, rows::numbered(self.id, child.run, 1), &admitted);
        Ok(())
    }
}

decide!(AcquireChildStarts, |verb, draft| {
    let mut acquired = Vec::new();
    for row in draft.due(Table::ChildrenDue, draft.now, verb.limit)? {
        let child = rows::last_part(&row.key).parse::<RunId>();
        draft.delete(Table::ChildrenDue, row.key);
        let Ok(child) = child else { continue };
        let Some(start) = draft.read::<ChildStart>(Table::ChildStarts, &rows::run(&verb.tenant, child))?
        else {
            continue;
        };
        let due_at = draft.now + verb.in_progress;
        draft.write_child_start(&ChildStart { due_at, ..start.clone() });
        acquired.push(start.child);
    }
    Ok(acquired)
});

decide!(SettleChildStart, |verb, draft| {
    let child = &verb.child;
    if !draft.has(Table::ChildStarts, &rows::run(&verb.tenant, child.run))? {
        return Ok(ChildSettled::NotWanted);
    }
    match &verb.settlement {
        ChildSettlement::Refuse { code, message, retryable } => {
            let (code, message, retryable) = (*code, message.clone(), *retryable);
            draft.forget_child_start(child.run)?;
            let outcome = ChildOutcome::Refused { code, message, retryable };
            draft.report_child(child.run, &ChildReport::about(&child.parent, child.run, outcome))?;
            Ok(ChildSettled::Refused)
        }
        ChildSettlement::Start { workflow_version, limits_revision, claims } => {
            let workflow = rows::workflow(&verb.tenant, &child.workflow);
            let head: Option<WorkflowHead> = draft.read(Table::WorkflowHeads, &workflow)?;
            let current = head.filter(|head| !head.is_deleted).map(|head| head.version);
            if current != Some(*workflow_version) || draft.tenant()?.limits_revision != *limits_revision {
                return Ok(ChildSettled::Outdated);
            }
            draft.start_child(child, (*workflow_version, claims))
        }
    }
});
