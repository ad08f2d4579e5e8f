//! Adjustments by operators.

use interlock_model::budget::{BudgetGroup, EVENTS_MAX, GROUPS_MAX, INCREASES_MAX, Increase};
use interlock_model::{BudgetName, PermitId};

use super::super::draft::decide;
use super::super::tables::{Pick, Table, parse, scan_prefix};
use super::book::Book;
use super::rows;
use crate::StoreError;
use crate::budgets::{Adjusted, BudgetBound, BudgetEvent, BudgetEventKind};
use crate::verbs::AdjustBudget;

decide!(AdjustBudget, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    book.require(&verb.name)?;
    let answer = book.adjust(verb)?;
    let _ = book.close()?;
    Ok(answer)
});

impl Book<'_, '_> {
    fn adjust(&mut self, verb: &AdjustBudget) -> Result<Adjusted, StoreError> {
        let AdjustBudget { name, window, adjustment, .. } = verb;
        let now = self.wall;
        // Everyone's amount is that of a group without a name, for the answer.
        let group = adjustment.group.clone().unwrap_or_else(BudgetGroup::everyone);
        let place = group.place(window);
        if self.was_adjusted(name, &adjustment.id)? {
            return Ok(Adjusted::Done { state: self.state(name, (&place, &group))? });
        }
        let budget = self.require(name)?;
        if budget.revision != verb.revision || budget.document.per != window.per {
            return Ok(Adjusted::Outdated);
        }
        if !window.contains(now) {
            return Ok(Adjusted::WindowOver { now });
        }
        if let Some(until) = adjustment.until {
            budget.increases.retain(|increase| now < increase.until);
            if budget.increases.len() >= INCREASES_MAX {
                return Err(StoreError::Conflict(format!(
                    "{INCREASES_MAX} temporary increases are in force, the maximum; wait until one ends"
                )));
            }
            let delta = adjustment.delta.size();
            budget.increases.push(Increase { delta, until, group: adjustment.group.clone() });
        } else {
            let groups = budget.groups;
            if groups >= GROUPS_MAX && self.ledger(name, &place)?.is_none() {
                return Ok(Adjusted::TooMany { what: BudgetBound::Groups, most: GROUPS_MAX });
            }
            self.begin(name, (window, &group))?;
            self.change(name, &place, |ledger| ledger.adjusted = ledger.adjusted.plus(adjustment.delta))?;
            self.require(name)?.window = Some(window.to_string());
        }
        if adjustment.until.is_some() && adjustment.group.is_none() {
            self.draft.wake_all(name)?;
        } else {
            self.freed.insert((name.clone(), group.clone()));
        }
        self.note(name, BudgetEventKind::Adjusted(adjustment.clone()))?;
        Ok(Adjusted::Done { state: self.state(name, (&place, &group))? })
    }

    /// Whether this very adjustment is among those that are kept.
    fn was_adjusted(&self, name: &BudgetName, id: &PermitId) -> Result<bool, StoreError> {
        let all = rows::of_budget(self.draft.id, name);
        for row in scan_prefix(self.draft.view, Table::BudgetEvents, &all, Pick::First(EVENTS_MAX))? {
            let event: BudgetEvent = parse(Table::BudgetEvents, &row.key, &row.value)?;
            if matches!(event.kind, BudgetEventKind::Adjusted(known) if known.id == *id) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
