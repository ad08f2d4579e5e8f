//! What the passing of time does to budgets: permits expire, and windows that are over go.

use interlock_model::BudgetName;
use interlock_model::budget::{BudgetGroup, GROUP_CHECKED_EVERY, PermitState};
use interlock_model::run::Head;

use super::super::draft::decide;
use super::super::rows as all_rows;
use super::super::tables::Table;
use super::book::Book;
use super::rows::DueItem;
use crate::StoreError;
use crate::budgets::ExpiredPermits;
use crate::verbs::ExpirePermits;

/// Ended permits that are forgotten when the ledger of one of their windows is looked at.
const FORGOTTEN_MAX: usize = 1_000;

decide!(ExpirePermits, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    let report = book.expire_due(verb.limit)?;
    let _ = book.close()?;
    Ok(report)
});

impl Book<'_, '_> {
    /// Acts on what is due of all budgets of the tenant, at most `limit` times.
    pub(super) fn expire_due(&mut self, limit: usize) -> Result<ExpiredPermits, StoreError> {
        let mut report = ExpiredPermits::default();
        for row in self.draft.due(Table::BudgetDue, self.now, limit)? {
            report.due += 1;
            self.draft.delete(Table::BudgetDue, row.key.clone());
            let Some((name, item)) = DueItem::read(&row.key) else { continue };
            if self.find(&name)?.is_none() {
                self.draft.delete_rows_of_budget(&name)?;
                continue;
            }
            match self.act_on(&name, &item, &mut report) {
                // What cannot be read does not keep the others from theirs. The doctor reports it.
                Err(StoreError::Damaged { .. }) => self.look_again(&name, &item),
                done => done?,
            }
        }
        Ok(report)
    }

    fn act_on(
        &mut self,
        name: &BudgetName,
        item: &DueItem,
        report: &mut ExpiredPermits,
    ) -> Result<(), StoreError> {
        let id = match item {
            DueItem::Ledger(place) => return self.look_at(name, place),
            DueItem::Permit(id) => id,
        };
        let Some(mut permit) = self.permit(name, id)? else { return Ok(()) };
        let is_over = permit.expires_at.is_some_and(|at| at <= self.now);
        if permit.state == PermitState::Open && is_over {
            let warnings = self.end(name, &mut permit, |permit| permit.state = PermitState::Unsettled)?;
            report.expired += 1;
            report.warnings.extend(warnings.into_iter().map(|warning| (name.clone(), warning)));
        }
        Ok(())
    }

    fn look_again(&mut self, name: &BudgetName, item: &DueItem) {
        let at = self.now + GROUP_CHECKED_EVERY;
        self.draft.mark(Table::BudgetDue, item.row(self.draft.id, at, name));
    }

    /// Removes the ledger of a window that is over, unless a permit of it may still be settled.
    fn look_at(&mut self, name: &BudgetName, place: &str) -> Result<(), StoreError> {
        self.forget_ended(name, FORGOTTEN_MAX)?;
        let Some(ledger) = self.ledger(name, place)? else { return Ok(()) };
        let (_, group) = place.split_once('/').unwrap_or((place, ""));
        let is_over = match (ledger.ends_at, BudgetGroup::written(group).run()) {
            (Some(ends_at), _) => ends_at <= self.wall,
            (None, Some(run)) => {
                let head: Option<Head> = self.draft.read(Table::Heads, &all_rows::run(self.draft.id, run))?;
                head.is_none_or(|head| head.status.is_final())
            }
            (None, None) => false,
        };
        if is_over && ledger.is_at_rest() {
            return self.end_ledger(name, place);
        }
        self.look_again(name, &DueItem::Ledger(place.to_owned()));
        Ok(())
    }
}
