//! Permits: renewed, settled, released.

use interlock_model::budget::{Amount, Permit, PermitState, Warning};
use interlock_model::{BudgetName, PermitId};

use super::super::draft::decide;
use super::super::tables::Table;
use super::book::{Book, FORGOTTEN_AT_ONCE_MAX};
use crate::StoreError;
use crate::budgets::PermitChange;
use crate::verbs::{ReleasePermit, RenewPermit, SettlePermit};

decide!(RenewPermit, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    let mut permit = book.usable(&verb.name, &verb.permit)?;
    let is_over = permit.expires_at.is_none_or(|at| at <= book.now);
    if permit.state != PermitState::Open || is_over {
        let state = if permit.state == PermitState::Open { PermitState::Unsettled } else { permit.state };
        return Err(StoreError::Conflict(not_open(state)));
    }
    if let Some(before) = book.expiry(&verb.name, &permit) {
        book.draft.delete(Table::BudgetDue, before);
    }
    permit.expires_at = Some(book.now + verb.ttl);
    if let Some(after) = book.expiry(&verb.name, &permit) {
        book.draft.mark(Table::BudgetDue, after);
    }
    book.put_permit(&verb.name, &permit.id, Some(permit.clone()));
    book.answer(&verb.name, permit, None)
});

fn not_open(state: PermitState) -> String {
    match state {
        PermitState::Unsettled => {
            "the permit has expired; settle it with what was spent, or release it if nothing was".to_owned()
        }
        PermitState::Open | PermitState::Settled | PermitState::Released => {
            format!("the permit was {}; reserve again", state.name())
        }
    }
}

decide!(SettlePermit, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    let mut permit = book.usable(&verb.name, &verb.permit)?;
    if permit.state == PermitState::Settled {
        if permit.settled != verb.amount {
            return Err(StoreError::Conflict(format!(
                "the permit was settled with {}; an operator can adjust the budget",
                permit.settled
            )));
        }
        return book.answer(&verb.name, permit, None);
    }
    book.forget_ended(&verb.name, FORGOTTEN_AT_ONCE_MAX)?;
    let warnings = book.settle(&verb.name, &mut permit, verb.amount)?;
    book.answer(&verb.name, permit, Some(warnings))
});

decide!(ReleasePermit, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    let mut permit = book.usable(&verb.name, &verb.permit)?;
    if matches!(permit.state, PermitState::Settled | PermitState::Released) {
        return book.answer(&verb.name, permit, None);
    }
    book.forget_ended(&verb.name, FORGOTTEN_AT_ONCE_MAX)?;
    let warnings = book.end(&verb.name, &mut permit, |permit| permit.state = PermitState::Released)?;
    book.answer(&verb.name, permit, Some(warnings))
});

impl Book<'_, '_> {
    pub(super) fn settle(
        &mut self,
        name: &BudgetName,
        permit: &mut Permit,
        spent: Amount,
    ) -> Result<Vec<Warning>, StoreError> {
        // What was spent after a release was not reserved any more.
        let granted = if permit.state == PermitState::Released { Amount::ZERO } else { permit.granted };
        self.end(name, permit, |permit| {
            permit.state = PermitState::Settled;
            permit.granted = granted;
            permit.settled = spent;
        })
    }

    /// The permit, as long as it is remembered.
    fn known(&mut self, name: &BudgetName, id: &PermitId) -> Result<Permit, StoreError> {
        self.require(name)?;
        self.permit(name, id)?.ok_or_else(|| StoreError::not_found("permit", id))
    }

    /// The same, unless only the end of its job may change it.
    fn usable(&mut self, name: &BudgetName, id: &PermitId) -> Result<Permit, StoreError> {
        let permit = self.known(name, id)?;
        permit.why_of_job().map_or(Ok(permit), |why| Err(StoreError::Conflict(why)))
    }

    fn answer(
        mut self,
        name: &BudgetName,
        permit: Permit,
        ended: Option<Vec<Warning>>,
    ) -> Result<PermitChange, StoreError> {
        let state = self.state(name, (&permit.place(), &permit.group))?;
        let woken = self.close()?;
        let has_ended = ended.is_some();
        Ok(PermitChange { permit, state, has_ended, warnings: ended.unwrap_or_default(), woken })
    }
}
