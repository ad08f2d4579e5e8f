//! Queues: in which order runs wait for the slots of a group.

use interlock_model::limit::GroupKey;
use interlock_model::limit::document::QueueOrder;
use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::{
    Debounced, JOINED_KEYS_MAX, POSITIONS_COUNTED, QueuePlace, QueuedRun, RunSlots, StartPriority, Waiting,
};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::{RunId, TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::{Pick, Table, View, end_of, parse, scan_prefix};
use crate::{Page, PageRequest, StoreError};

/// What is known of a run in the row of its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct QueueEntry {
    pub run: RunId,
    pub workflow: WorkflowId,
    pub place: QueuePlace,
}

impl Draft<'_> {
    /// The groups that the run counts in, and where it waits. None: it counts in no named limit, and does not wait.
    pub(in super::super) fn run_slots(&self, run: RunId) -> Result<Option<RunSlots>, StoreError> {
        self.get_seen(Table::RunSlots, &rows::run(self.id, run))
    }

    pub(in super::super) fn put_run_slots(&mut self, run: RunId, slots: &RunSlots) {
        if *slots == RunSlots::default() {
            return self.forget_run_slots(run);
        }
        self.put_seen(Table::RunSlots, rows::run(self.id, run), slots);
    }

    pub(in super::super) fn forget_run_slots(&mut self, run: RunId) {
        self.delete_seen(Table::RunSlots, rows::run(self.id, run));
    }

    /// A place behind all runs of the tenant that have ever waited.
    pub(in super::super) fn next_place(&mut self, priority: StartPriority) -> Result<QueuePlace, StoreError> {
        let at = self.now;
        let tenant = self.tenant()?;
        tenant.arrivals += 1;
        Ok(QueuePlace { arrival: tenant.arrivals, at, priority })
    }

    /// Puts a run into the queue of the group that keeps it from starting.
    pub(in super::super) fn enter_queue(
        &mut self,
        entry: &QueueEntry,
        (claim, fullness): (&SlotClaim, Fullness),
    ) -> Result<(), StoreError> {
        let order = self.group(claim)?.rule.queue.order;
        let mut fair = None;
        if order == QueueOrder::Fair {
            fair = Some(self.run_slots(entry.run)?.unwrap_or_default().fair_group(&claim.limit));
        }
        let score = entry.place.score(order);
        self.enter_queue_at(entry, claim, (score, fair))?;
        if let Fullness::Rate { next_at } = fullness {
            self.grant_at(next_at, claim);
        }
        Ok(())
    }

    /// Puts a run at this score into a queue, or into a group of a fair one.
    pub(in super::super) fn enter_queue_at(
        &mut self,
        entry: &QueueEntry,
        claim: &SlotClaim,
        (score, fair): (u64, Option<GroupKey>),
    ) -> Result<(), StoreError> {
        let (run, place) = (entry.run, entry.place);
        let SlotClaim { limit, group } = claim.clone();
        let waiting = Waiting { limit, group, score, place, fair };
        self.put_seen(Table::RunQueue, rows::queued_run(self.id, &waiting, run), entry);
        if let Some(fair) = &waiting.fair {
            self.enter_fair_group(&waiting, fair, entry)?;
        }
        self.change_group(claim, |group, _| group.queued += 1)?;
        let before = self.run_slots(run)?.unwrap_or_default();
        self.put_run_slots(run, &RunSlots { waiting: Some(waiting), ..before });
        Ok(())
    }

    /// Takes a run out of the queue that it waits in, if it does.
    pub(in super::super) fn leave_queue(&mut self, run: RunId) -> Result<(), StoreError> {
        let Some(mut slots) = self.run_slots(run)? else { return Ok(()) };
        let Some(waiting) = slots.waiting.take() else { return Ok(()) };
        self.delete_seen(Table::RunQueue, rows::queued_run(self.id, &waiting, run));
        if let Some(fair) = &waiting.fair {
            self.leave_fair_group(&waiting, fair, run)?;
        }
        self.change_group(&waiting.claim(), |group, _| {
            group.queued = group.queued.saturating_sub(1);
            group.replacing = group.replacing.filter(|newcomer| *newcomer != run);
        })?;
        self.put_run_slots(run, &slots);
        Ok(())
    }

    /// Counts one more key of another start that this run answers. False: it answers as many as it may.
    pub(in super::super) fn count_joined_key(&mut self, run: RunId) -> Result<bool, StoreError> {
        let slots = self.run_slots(run)?.unwrap_or_default();
        if slots.joined_keys >= JOINED_KEYS_MAX {
            return Ok(false);
        }
        self.put_run_slots(run, &RunSlots { joined_keys: slots.joined_keys + 1, ..slots });
        Ok(true)
    }

    /// The run that goes next in a queue.
    pub(in super::super) fn first_waiting(
        &mut self,
        claim: &SlotClaim,
    ) -> Result<Option<QueueEntry>, StoreError> {
        if self.group(claim)?.rule.queue.order == QueueOrder::Fair {
            return self.first_fair(claim);
        }
        let first = self.first_seen(Table::RunQueue, &rows::run_queue(self.id, claim))?;
        first.map(|row| parse(Table::RunQueue, &row.key, &row.value)).transpose()
    }

    /// How many runs go before one that waits here, and it. None: further back than is counted.
    pub(in super::super) fn position(
        &mut self,
        waiting: &Waiting,
        run: RunId,
    ) -> Result<Option<u64>, StoreError> {
        let (claim, key) = (waiting.claim(), rows::queued_run(self.id, waiting, run));
        let is_fair = self.group(&claim)?.rule.queue.order == QueueOrder::Fair;
        if is_fair && let Some(group) = &waiting.fair {
            let entry = self.get_seen(Table::RunQueue, &key)?;
            return entry.map_or(Ok(None), |entry| self.fair_position(waiting, group, &entry));
        }
        let all = rows::run_queue(self.id, &claim);
        let before = self.scan_seen(Table::RunQueue, (&all, &key), POSITIONS_COUNTED)?.len();
        Ok((before < POSITIONS_COUNTED).then_some(before as u64 + 1))
    }
}

/// Where a run waits now, and how many go first.
pub(in super::super) fn queued_run(
    view: &dyn View,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<QueuedRun>, StoreError> {
    // No time is needed to look.
    let mut draft = Draft::new(view, Timestamp::ZERO, tenant);
    let Some(slots) = draft.run_slots(run)? else { return Ok(None) };
    if let Some(debounced) = slots.debounced {
        return Ok(Some(debounced_run(run, &debounced)));
    }
    let Some(waiting) = slots.waiting else { return Ok(None) };
    let position = draft.position(&waiting, run)?;
    Ok(Some(QueuedRun { run, waiting, position, quiet: None }))
}

/// A run that waits for newer starts, and has no position yet.
pub(in super::super) fn debounced_run(run: RunId, debounced: &Debounced) -> QueuedRun {
    QueuedRun { run, waiting: debounced.waiting(), position: None, quiet: Some(debounced.quiet) }
}

/// The rows of a group's queue, in order.
pub(super) fn waiting_runs(
    view: &dyn View,
    tenant: &TenantId,
    claim: &SlotClaim,
    limit: usize,
) -> Result<Vec<QueueEntry>, StoreError> {
    let rows = scan_prefix(view, Table::RunQueue, &rows::run_queue(tenant, claim), Pick::First(limit))?;
    rows.iter().map(|row| parse(Table::RunQueue, &row.key, &row.value)).collect()
}

/// The runs of a group's queue, in order. A cursor is the place of the last one of a page.
pub(in super::super) fn queued_runs(
    view: &dyn View,
    tenant: &TenantId,
    claim: &SlotClaim,
    page: &PageRequest,
) -> Result<Page<QueuedRun>, StoreError> {
    let mut draft = Draft::new(view, Timestamp::ZERO, tenant);
    if draft.group(claim)?.rule.queue.order == QueueOrder::Fair {
        return draft.fair_page(claim, page);
    }
    let all = rows::run_queue(tenant, claim);
    // The first key after another is that one with the smallest character behind it.
    let from = page.after.as_ref().map_or_else(|| all.clone(), |after| format!("{all}{after}\0"));
    let before = view.scan(Table::RunQueue, &all, &from, Pick::First(POSITIONS_COUNTED))?.len();
    let rows = view.scan(Table::RunQueue, &from, &end_of(&all), Pick::First(page.limit.saturating_add(1)))?;
    let runs = (before..).zip(rows.iter().take(page.limit)).map(|(before, row)| {
        let entry: QueueEntry = parse(Table::RunQueue, &row.key, &row.value)?;
        let score = rows::score_of(&row.key).unwrap_or_default();
        let SlotClaim { limit, group } = claim.clone();
        let waiting = Waiting { limit, group, score, place: entry.place, fair: None };
        let position = (before < POSITIONS_COUNTED).then_some(before as u64 + 1);
        Ok(QueuedRun { run: entry.run, waiting, position, quiet: None })
    });
    let items = runs.collect::<Result<_, StoreError>>()?;
    let last = rows.get(page.limit.saturating_sub(1)).filter(|_| rows.len() > page.limit);
    let next = last.and_then(|row| row.key.strip_prefix(&all)).map(str::to_owned);
    Ok(Page { items, next })
}

/// The first entry of a queue, or the last, with its score.
pub(in super::super) fn queue_end(
    view: &dyn View,
    tenant: &TenantId,
    claim: &SlotClaim,
    is_first: bool,
) -> Result<Option<(QueueEntry, u64)>, StoreError> {
    let pick = if is_first { Pick::First(1) } else { Pick::Last(1) };
    let rows = scan_prefix(view, Table::RunQueue, &rows::run_queue(tenant, claim), pick)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let entry = parse(Table::RunQueue, &row.key, &row.value)?;
    Ok(Some((entry, rows::score_of(&row.key).unwrap_or_default())))
}
