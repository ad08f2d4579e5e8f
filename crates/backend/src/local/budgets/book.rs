//! What one decision reads and changes of budgets, in memory until it is written at the end: a decision may come by the
//! same ledger more than once.

use std::collections::{BTreeMap, BTreeSet};

use interlock_model::budget::{
    BudgetGroup, ENDED_PERMITS_MAX, EVENTS_MAX, GROUP_CHECKED_EVERY, Ledger, LedgerState, Permit,
    PermitState, SETTLED_KEPT, UNSETTLED_KEPT, Warning, Window, limit,
};
use interlock_model::{BudgetName, PermitId, Timestamp};
use serde::Serialize;

use super::super::draft::Draft;
use super::super::tables::{Pick, Table, scan_prefix};
use super::rows::{self, DueItem};
use crate::StoreError;
use crate::budgets::{Budget, BudgetEvent, BudgetEventKind, wall};

/// Ended permits that are forgotten beside another change.
pub(super) const FORGOTTEN_AT_ONCE_MAX: usize = 8;

pub(super) struct Book<'d, 'v> {
    pub(super) draft: &'d mut Draft<'v>,
    pub(super) now: Timestamp,
    /// The same by the wall clock, and how far that is ahead.
    pub(super) wall: Timestamp,
    lead: i64,
    budgets: BTreeMap<BudgetName, Kept<Budget>>,
    /// By budget and place.
    ledgers: BTreeMap<(BudgetName, String), Kept<Ledger>>,
    permits: BTreeMap<(BudgetName, PermitId), Kept<Permit>>,
    /// Amounts of which something was freed, or that a job no longer waits for.
    pub(super) freed: BTreeSet<(BudgetName, BudgetGroup)>,
}

/// A row as it was, and as it is to be written. None: there is none.
struct Kept<T> {
    before: Option<T>,
    row: Option<T>,
}

impl<T: Clone + PartialEq> Kept<T> {
    fn read(before: Option<T>) -> Self {
        Self { row: before.clone(), before }
    }

    fn is_changed(&self) -> bool {
        self.before != self.row
    }
}

impl<'d, 'v> Book<'d, 'v> {
    pub(super) fn open(draft: &'d mut Draft<'v>, lead: i64) -> Self {
        let now = draft.now;
        let (budgets, ledgers, permits) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let freed = BTreeSet::new();
        Self { draft, now, wall: wall(now, lead), lead, budgets, ledgers, permits, freed }
    }

    /// A time of the wall clock by the store's.
    fn by_the_store(&self, time: Timestamp) -> Timestamp {
        wall(time, -self.lead)
    }

    /// The budget, if it exists.
    pub(super) fn find(&mut self, name: &BudgetName) -> Result<Option<&mut Budget>, StoreError> {
        if !self.budgets.contains_key(name) {
            let found = self.draft.read(Table::Budgets, &rows::budget(self.draft.id, name))?;
            self.budgets.insert(name.clone(), Kept::read(found));
        }
        Ok(self.budgets.get_mut(name).and_then(|kept| kept.row.as_mut()))
    }

    pub(super) fn require(&mut self, name: &BudgetName) -> Result<&mut Budget, StoreError> {
        self.find(name)?.ok_or_else(|| StoreError::not_found("budget", name))
    }

    /// The ledger at a place. None: nothing was counted there.
    pub(super) fn ledger(&mut self, name: &BudgetName, place: &str) -> Result<Option<Ledger>, StoreError> {
        let at = (name.clone(), place.to_owned());
        if let Some(known) = self.ledgers.get(&at) {
            return Ok(known.row);
        }
        let found = self.draft.read(Table::BudgetLedgers, &rows::ledger(self.draft.id, name, place))?;
        self.ledgers.insert(at, Kept::read(found));
        Ok(found)
    }

    /// Writes a ledger that was read before.
    fn put_ledger(&mut self, name: &BudgetName, place: &str, ledger: Option<Ledger>) {
        if let Some(kept) = self.ledgers.get_mut(&(name.clone(), place.to_owned())) {
            kept.row = ledger;
        }
    }

    /// Changes the ledger at a place, and the total of its window.
    pub(super) fn change(
        &mut self,
        name: &BudgetName,
        place: &str,
        change: impl Fn(&mut Ledger),
    ) -> Result<Ledger, StoreError> {
        let total = total_of(place);
        let mut ledger = self.ledger(name, place)?.unwrap_or_default();
        let mut sum = self.ledger(name, &total)?.unwrap_or_default();
        change(&mut ledger);
        self.put_ledger(name, place, Some(ledger));
        change(&mut sum);
        self.put_ledger(name, &total, Some(sum));
        Ok(ledger)
    }

    /// Begins the ledger of a group, unless there is one.
    pub(super) fn begin(
        &mut self,
        name: &BudgetName,
        (window, group): (&Window, &BudgetGroup),
    ) -> Result<(), StoreError> {
        let place = group.place(window);
        if self.ledger(name, &place)?.is_some() {
            return Ok(());
        }
        self.put_ledger(name, &place, Some(Ledger { ends_at: window.until, ..Ledger::default() }));
        let total = total_of(&place);
        let mut sum = self.ledger(name, &total)?.unwrap_or_default();
        sum.groups += 1;
        self.put_ledger(name, &total, Some(sum));
        self.require(name)?.groups += 1;
        let checked_at = match window.until {
            Some(until) => Some(self.by_the_store(until)),
            None => group.run().map(|_| self.now + GROUP_CHECKED_EVERY),
        };
        if let Some(at) = checked_at {
            self.draft.mark(Table::BudgetDue, DueItem::Ledger(place).row(self.draft.id, at, name));
        }
        Ok(())
    }

    /// Removes the ledger of a group whose window is over.
    pub(super) fn end_ledger(&mut self, name: &BudgetName, place: &str) -> Result<(), StoreError> {
        let Some(ledger) = self.ledger(name, place)? else { return Ok(()) };
        self.put_ledger(name, place, None);
        let total = total_of(place);
        if let Some(mut sum) = self.ledger(name, &total)? {
            sum.leave(&ledger);
            self.put_ledger(name, &total, Some(sum).filter(|sum| sum.groups > 0));
        }
        let budget = self.require(name)?;
        budget.groups = budget.groups.saturating_sub(1);
        Ok(())
    }

    pub(super) fn state(
        &mut self,
        name: &BudgetName,
        (place, group): (&str, &BudgetGroup),
    ) -> Result<LedgerState, StoreError> {
        let ledger = self.ledger(name, place)?.unwrap_or_default();
        let now = self.wall;
        let Budget { document, increases, .. } = self.require(name)?;
        Ok(ledger.under(limit(document.amount, increases, ledger.adjusted, (group, now))))
    }

    pub(super) fn permit(&mut self, name: &BudgetName, id: &PermitId) -> Result<Option<Permit>, StoreError> {
        let at = (name.clone(), id.clone());
        if let Some(known) = self.permits.get(&at) {
            return Ok(known.row.clone());
        }
        let found: Option<Permit> =
            self.draft.read(Table::BudgetPermits, &rows::permit(self.draft.id, name, id))?;
        self.permits.insert(at, Kept::read(found.clone()));
        Ok(found)
    }

    /// Writes a permit that was read before; without one, removes it.
    pub(super) fn put_permit(&mut self, name: &BudgetName, id: &PermitId, permit: Option<Permit>) {
        if let Some(kept) = self.permits.get_mut(&(name.clone(), id.clone())) {
            kept.row = permit;
        }
    }

    /// Where the expiry of a permit is due. None: it ends with its job.
    pub(super) fn expiry(&self, name: &BudgetName, permit: &Permit) -> Option<String> {
        Some(DueItem::Permit(permit.id.clone()).row(self.draft.id, permit.expires_at?, name))
    }

    /// Ends a permit, or changes how it ended, and counts it anew. Returns the thresholds that were just reached.
    pub(super) fn end(
        &mut self,
        name: &BudgetName,
        permit: &mut Permit,
        change: impl FnOnce(&mut Permit),
    ) -> Result<Vec<Warning>, StoreError> {
        let before = permit.clone();
        change(permit);
        permit.ended_at = Some(self.now);
        self.change(name, &permit.place(), |ledger| {
            ledger.remove(&before);
            ledger.add(permit);
        })?;
        if before.state == PermitState::Open {
            if let Some(expiry) = self.expiry(name, &before) {
                self.draft.delete(Table::BudgetDue, expiry);
            }
            let budget = self.require(name)?;
            budget.open = budget.open.saturating_sub(1);
            budget.ended += 1;
        } else {
            let row = self.forgotten_at(name, &before);
            self.draft.delete(Table::BudgetEnded, row);
        }
        let row = self.forgotten_at(name, permit);
        self.draft.mark(Table::BudgetEnded, row);
        self.put_permit(name, &permit.id, Some(permit.clone()));
        if permit.state == PermitState::Settled && !permit.overdraft().is_zero() {
            self.require(name)?.overdrafts += 1;
        }
        if permit.state != PermitState::Unsettled {
            self.freed.insert((name.clone(), permit.group.clone()));
        }
        self.warn(name, (&permit.place(), &permit.group))
    }

    fn forgotten_at(&self, name: &BudgetName, permit: &Permit) -> String {
        let kept = if permit.state == PermitState::Unsettled { UNSETTLED_KEPT } else { SETTLED_KEPT };
        let at = permit.ended_at.unwrap_or(self.now) + kept;
        rows::ended(self.draft.id, name, at, &permit.id)
    }

    /// Writes down the thresholds that a ledger has just reached.
    pub(super) fn warn(
        &mut self,
        name: &BudgetName,
        (place, group): (&str, &BudgetGroup),
    ) -> Result<Vec<Warning>, StoreError> {
        let Some(mut ledger) = self.ledger(name, place)? else { return Ok(Vec::new()) };
        let marks = self.require(name)?.document.warn_marks();
        let warnings = ledger.warn(&marks, group);
        if !warnings.is_empty() {
            self.put_ledger(name, place, Some(ledger));
            self.require(name)?.warnings += warnings.len() as u64;
            for warning in &warnings {
                self.note(name, BudgetEventKind::Warned(warning.clone()))?;
            }
        }
        Ok(warnings)
    }

    /// Adds to what is kept of what happened. The oldest makes room.
    pub(super) fn note(&mut self, name: &BudgetName, kind: BudgetEventKind) -> Result<(), StoreError> {
        let budget = self.require(name)?;
        budget.events += 1;
        let number = budget.events;
        let event = BudgetEvent { at: self.now, kind };
        self.draft.put(Table::BudgetEvents, rows::event(self.draft.id, name, number), &event);
        if let Some(forgotten) = number.checked_sub(EVENTS_MAX as u64).filter(|number| *number > 0) {
            self.draft.delete(Table::BudgetEvents, rows::event(self.draft.id, name, forgotten));
        }
        Ok(())
    }

    /// Forgets permits that ended long ago, or that must make room for another: at most `limit` of them. What they count
    /// for stays.
    pub(super) fn forget_ended(&mut self, name: &BudgetName, limit: usize) -> Result<(), StoreError> {
        let all = rows::of_budget(self.draft.id, name);
        for row in scan_prefix(self.draft.view, Table::BudgetEnded, &all, Pick::First(limit))? {
            let place = row.key.strip_prefix(&all).and_then(|rest| rest.split_once('/'));
            let Some((time, id)) = place else { continue };
            let is_due = time.parse().is_ok_and(|time| Timestamp::from_millis(time) <= self.now);
            if !is_due && self.require(name)?.ended < ENDED_PERMITS_MAX {
                break;
            }
            self.draft.delete(Table::BudgetEnded, row.key.clone());
            let Ok(id) = id.parse::<PermitId>() else { continue };
            let Some(permit) = self.permit(name, &id)? else { continue };
            self.change(name, &permit.place(), |ledger| ledger.forget(&permit))?;
            self.put_permit(name, &id, None);
            let budget = self.require(name)?;
            budget.ended = budget.ended.saturating_sub(1);
        }
        Ok(())
    }

    /// Writes what has changed, and makes waiting jobs due for which there is enough now. Returns how many. What cannot be
    /// read keeps nothing from its end: the doctor finds it, and the jobs are due later.
    pub(super) fn close(mut self) -> Result<u32, StoreError> {
        let mut woken = 0;
        for (name, group) in std::mem::take(&mut self.freed) {
            woken += match self.wake(&name, &group) {
                Err(StoreError::Damaged { .. }) => 0,
                woken => woken?,
            };
        }
        self.write();
        Ok(woken)
    }

    fn write(self) {
        let Self { draft, budgets, ledgers, permits, .. } = self;
        let tenant = draft.id;
        for (name, kept) in budgets {
            write(draft, Table::Budgets, rows::budget(tenant, &name), kept);
        }
        for ((name, place), kept) in ledgers {
            write(draft, Table::BudgetLedgers, rows::ledger(tenant, &name, &place), kept);
        }
        for ((name, id), kept) in permits {
            write(draft, Table::BudgetPermits, rows::permit(tenant, &name, &id), kept);
        }
    }
}

fn write<T: Serialize + Clone + PartialEq>(draft: &mut Draft<'_>, table: Table, key: String, kept: Kept<T>) {
    if kept.is_changed() {
        match kept.row {
            Some(row) => draft.put(table, key, &row),
            None => draft.delete(table, key),
        }
    }
}

/// The place of the total of a window.
pub(super) fn total_of(place: &str) -> String {
    let (window, _) = place.split_once('/').unwrap_or((place, ""));
    format!("{window}/{}", BudgetGroup::all())
}
