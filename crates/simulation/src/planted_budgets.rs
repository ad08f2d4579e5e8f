//! Planted bugs of budgets.

use interlock_backend::StoreError;
use interlock_backend::local::{Decision, Table, View};
use interlock_model::budget::{Amount, Ledger, Permit, PermitState};

use crate::planted::{Found, alter, edit};
use crate::tables::changes;

/// Every permit that was settled is open.
pub(crate) fn reopen_permits(view: &dyn View, table: Table, key: &str) -> Found {
    let found = view.get(table, key)?;
    if table != Table::BudgetPermits {
        return Ok(found);
    }
    let reopen = |permit: &mut Permit| {
        if permit.state == PermitState::Settled {
            permit.state = PermitState::Open;
        }
    };
    Ok(found.map(|row| edit(Some(row), reopen)))
}

pub(crate) fn without_expiry<R>(decided: Decision<R>) -> Decision<R> {
    let mut writes = decided.changes.into_writes();
    writes.retain(|(table, _, value)| *table != Table::BudgetDue || value.is_none());
    Decision { answer: decided.answer, changes: changes(writes) }
}

pub(crate) fn forget_unsettled<R>(decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    alter(decided, |write| {
        if let (Table::BudgetLedgers, _, Some(value)) = write {
            *value = edit(Some(value.clone()), |ledger: &mut Ledger| ledger.unsettled = Amount::ZERO);
        }
        Ok(())
    })
}
