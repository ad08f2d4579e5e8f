//! Fair queues: the order in which their runs go, which is that of their groups.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use interlock_model::RunId;
use interlock_model::limit::GroupKey;
use interlock_model::limit::document::QueueOrder;
use interlock_model::limit::fair::{self, GROUPS_COUNTED, LANE, REORDERED_AT_ONCE};
use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::{POSITIONS_COUNTED, QueuedRun, Waiting, scores_of_other_orders};
use interlock_model::limit::rule::SlotClaim;

use super::super::draft::Draft;
use super::super::rows::{self, FairState};
use super::super::tables::{Pick, Row, Table, end_of, parse};
use super::QueueEntry;
use crate::{Page, PageRequest, StoreError};

/// How cursors begin behind the runs whose positions are counted.
const BEHIND_COUNTED: &str = "~";

impl Draft<'_> {
    /// The run that goes next in a fair queue: one that was put before all others, or the first of the next group.
    pub(super) fn first_fair(&self, claim: &SlotClaim) -> Result<Option<QueueEntry>, StoreError> {
        let first = self.first_seen(Table::RunQueue, &rows::run_queue(self.id, claim))?;
        let is_before_all = first.as_ref().is_some_and(|row| rows::score_of(&row.key) == Some(0));
        let mut next = None;
        if !is_before_all && let Some((_, group)) = self.next_fair_group(claim, FairState::Waits)? {
            next = self.first_seen(Table::FairQueue, &rows::fair_queue(self.id, claim, &group))?;
        }
        next.or(first).map(|row| parse(Table::RunQueue, &row.key, &row.value)).transpose()
    }

    /// Moves runs that wait since before the order of their queue has changed to where they belong now.
    pub(super) fn reorder(&mut self, claim: &SlotClaim) -> Result<(), StoreError> {
        let order = self.group(claim)?.rule.queue.order;
        let end = end_of(&rows::run_queue(self.id, claim));
        for (from, until) in scores_of_other_orders(order) {
            let from = rows::queue_from(self.id, claim, *from);
            let until =
                if *until == u64::MAX { end.clone() } else { rows::queue_from(self.id, claim, *until) };
            let rows =
                self.scan_seen(Table::RunQueue, (&from, &until), REORDERED_AT_ONCE - self.reordered)?;
            for row in rows {
                self.reordered += 1;
                let entry: QueueEntry = parse(Table::RunQueue, &row.key, &row.value)?;
                self.leave_queue(entry.run)?;
                self.enter_queue(&entry, (claim, Fullness::Others))?;
            }
        }
        Ok(())
    }

    /// Moves a run before all groups of its queue, or behind the others of its own.
    pub(in super::super) fn move_fair(
        &mut self,
        entry: &QueueEntry,
        claim: &SlotClaim,
        to_front: bool,
    ) -> Result<(), StoreError> {
        let run = entry.run;
        if to_front {
            self.leave_queue(run)?;
            return self.enter_queue_at(entry, claim, (0, None));
        }
        let group = self.run_slots(run)?.unwrap_or_default().fair_group(&claim.limit);
        let others = rows::fair_queue(self.id, claim, &group);
        let last = self.view.scan(Table::FairQueue, &others, &end_of(&others), Pick::Last(1))?;
        let score = match last.first() {
            Some(row) if rows::last_part(&row.key) == run.to_string() => return Ok(()),
            Some(row) => rows::fair_score_of(&row.key).unwrap_or_default() + 1,
            None => entry.place.score(QueueOrder::Fair),
        };
        self.leave_queue(run)?;
        self.enter_queue_at(entry, claim, (score, Some(group)))
    }

    /// How many runs go before one that waits in a group, and it, if nothing else arrives and each run takes as long as the
    /// runs of its workflow do. None: further back than is counted.
    pub(in super::super) fn fair_position(
        &mut self,
        waiting: &Waiting,
        group: &GroupKey,
        entry: &QueueEntry,
    ) -> Result<Option<u64>, StoreError> {
        let claim = waiting.claim();
        let Some(own) = self.fair_group(&claim, group)? else { return Ok(None) };
        let run_ms = self.run_ms(&entry.workflow)?;
        let (all, lane) = (rows::run_queue(self.id, &claim), rows::queue_from(self.id, &claim, LANE));
        let before_all = self.scan_seen(Table::RunQueue, (&all, &lane), POSITIONS_COUNTED)?.len() as u64;
        let of_group = rows::fair_queue(self.id, &claim, group);
        let until = rows::fair_entry(self.id, waiting, group, entry.run);
        let in_group = self.scan_seen(Table::FairQueue, (&of_group, &until), POSITIONS_COUNTED)?.len() as u64;
        let at = own.charge.saturating_add(in_group * fair::cost(run_ms, self.weight(&claim, group)?));
        let mut before = before_all + in_group;
        let turns = rows::fair_turns(self.id, &claim, FairState::Waits);
        let rows = self.scan_seen(Table::FairTurns, (&turns, &end_of(&turns)), GROUPS_COUNTED + 1)?;
        let turns = rows.iter().filter_map(|row| rows::turn_of(&row.key));
        let turns: Vec<_> = turns.take_while(|(charge, ..)| *charge <= at).collect();
        if turns.len() > GROUPS_COUNTED {
            return Ok(None);
        }
        for (_, _, other) in turns.into_iter().filter(|(.., other)| other != group) {
            if let Some(known) = self.fair_group(&claim, &other)? {
                let cost = fair::cost(run_ms, self.weight(&claim, &other)?);
                before += known.runs_before((at, own.turn), cost);
            }
        }
        Ok((before < POSITIONS_COUNTED as u64).then_some(before + 1))
    }

    /// A page of the runs of a fair queue. As far as positions are counted, in the order that charges give it now: a cursor
    /// is how many stand before the page. Behind that, by arrival: a cursor is the place of the last run.
    pub(super) fn fair_page(
        &mut self,
        claim: &SlotClaim,
        page: &PageRequest,
    ) -> Result<Page<QueuedRun>, StoreError> {
        let after = page.after.as_deref().unwrap_or_default();
        if let Some(place) = after.strip_prefix(BEHIND_COUNTED) {
            return self.behind_counted(claim, place, page.limit);
        }
        let before = after.strip_prefix('=').and_then(|count| count.parse().ok()).unwrap_or(0);
        let before = POSITIONS_COUNTED.min(before);
        let until = POSITIONS_COUNTED.min(before.saturating_add(page.limit));
        let items = self.fair_runs(claim, until)?.into_iter().skip(before).collect();
        let queued = self.group(claim)?.group.queued as usize;
        let next = if until < queued.min(POSITIONS_COUNTED) {
            Some(format!("={until}"))
        } else {
            (queued > POSITIONS_COUNTED).then(|| BEHIND_COUNTED.to_owned())
        };
        Ok(Page { items, next })
    }

    fn behind_counted(
        &mut self,
        claim: &SlotClaim,
        place: &str,
        limit: usize,
    ) -> Result<Page<QueuedRun>, StoreError> {
        let counted = self.fair_runs(claim, POSITIONS_COUNTED)?;
        let counted: BTreeSet<RunId> = counted.into_iter().map(|queued| queued.run).collect();
        let all = rows::run_queue(self.id, claim);
        let from =
            if place.is_empty() { rows::queue_from(self.id, claim, LANE) } else { format!("{all}{place}\0") };
        let rows_max = POSITIONS_COUNTED.saturating_add(limit).saturating_add(1);
        let (mut items, mut last) = (Vec::new(), None);
        for row in self.scan_seen(Table::RunQueue, (&from, &end_of(&all)), rows_max)? {
            let entry: QueueEntry = parse(Table::RunQueue, &row.key, &row.value)?;
            if counted.contains(&entry.run) {
                continue;
            }
            if items.len() == limit {
                let next = last.map(|place| format!("{BEHIND_COUNTED}{place}"));
                return Ok(Page { items, next });
            }
            last = row.key.strip_prefix(&all).map(str::to_owned);
            let waiting = self.run_slots(entry.run)?.and_then(|slots| slots.waiting);
            let queued = |waiting| QueuedRun { run: entry.run, waiting, position: None, quiet: None };
            items.extend(waiting.map(queued));
        }
        Ok(Page { items, next: None })
    }

    /// The runs of a fair queue, in the order in which they go if nothing else arrives.
    fn fair_runs(&mut self, claim: &SlotClaim, limit: usize) -> Result<Vec<QueuedRun>, StoreError> {
        let (all, lane) = (rows::run_queue(self.id, claim), rows::queue_from(self.id, claim, LANE));
        let mut runs = Vec::new();
        for row in self.scan_seen(Table::RunQueue, (&all, &lane), limit)? {
            let score = rows::score_of(&row.key).unwrap_or_default();
            runs.push(queued(claim, &row, (score, None))?.1);
        }
        let turns = rows::fair_turns(self.id, claim, FairState::Waits);
        let rows = self.scan_seen(Table::FairTurns, (&turns, &end_of(&turns)), limit)?;
        let mut groups: BinaryHeap<_> =
            rows.iter().filter_map(|row| rows::turn_of(&row.key)).map(Reverse).collect();
        // The last row of each group that has gone is where the next begins.
        let mut gone: BTreeMap<GroupKey, String> = BTreeMap::new();
        while runs.len() < limit
            && let Some(Reverse((charge, turn, group))) = groups.pop()
        {
            let of_group = rows::fair_queue(self.id, claim, &group);
            let from = gone.get(&group).map_or_else(|| of_group.clone(), |last| format!("{last}\0"));
            let Some(row) = self.scan_seen(Table::FairQueue, (&from, &end_of(&of_group)), 1)?.pop() else {
                continue;
            };
            let score = rows::fair_score_of(&row.key).unwrap_or_default();
            let (entry, run) = queued(claim, &row, (score, Some(group.clone())))?;
            let cost = fair::cost(self.run_ms(&entry.workflow)?, self.weight(claim, &group)?);
            runs.push(run);
            gone.insert(group.clone(), row.key);
            groups.push(Reverse((charge.saturating_add(cost), turn, group)));
        }
        (1..).zip(&mut runs).for_each(|(position, run)| run.position = Some(position));
        Ok(runs)
    }
}

fn queued(
    claim: &SlotClaim,
    row: &Row,
    (score, fair): (u64, Option<GroupKey>),
) -> Result<(QueueEntry, QueuedRun), StoreError> {
    let entry: QueueEntry = parse(Table::RunQueue, &row.key, &row.value)?;
    let SlotClaim { limit, group } = claim.clone();
    let waiting = Waiting { limit, group, score, place: entry.place, fair };
    let run = QueuedRun { run: entry.run, waiting, position: None, quiet: None };
    Ok((entry, run))
}
