//! Planted bugs of budgets.

use interlock_backend::local::{Decision, Table, View};
use interlock_backend::verbs::{CancelJob, Commit, ExpireLeases, RecordResult, SettleHeldJob};
use interlock_backend::{StoreError, Verb as _};
use interlock_model::budget::{Amount, Ledger, Permit, PermitState};

use crate::Bug;
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

/// The decision without anything of budgets.
fn without_budgets<R>(decided: Decision<R>) -> Decision<R> {
    let of_budgets = [Table::Budgets, Table::BudgetLedgers, Table::BudgetPermits, Table::BudgetEnded];
    let mut writes = decided.changes.into_writes();
    writes.retain(|(table, ..)| !of_budgets.contains(table));
    Decision { answer: decided.answer, changes: changes(writes) }
}

/// What a job has reserved stands in the ledgers twice.
fn count_again<R>(decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    let writes = decided.changes.into_writes();
    let granted = writes.iter().find_map(|(table, _, value)| {
        let permit: Permit = serde_json::from_str(value.as_ref()?).ok()?;
        (*table == Table::BudgetPermits && permit.job.is_some()).then_some(permit.granted)
    });
    alter(Decision { answer: decided.answer, changes: changes(writes) }, |write| {
        if let (Table::BudgetLedgers, _, Some(value), Some(granted)) = (write.0, write.1, write.2, granted) {
            *value = edit(Some(value.clone()), |ledger: &mut Ledger| {
                ledger.reserved = ledger.reserved.plus(granted);
            });
        }
        Ok(())
    })
}

/// Permits that the decision leaves unsettled are released.
fn release_unsettled<R>(decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    let forgotten = forget_unsettled(decided)?;
    alter(forgotten, |write| {
        if let (Table::BudgetPermits, _, Some(value)) = write {
            *value = edit(Some(value.clone()), |permit: &mut Permit| {
                if permit.state == PermitState::Unsettled {
                    permit.state = PermitState::Released;
                }
            });
        }
        Ok(())
    })
}

/// The decision as a bug of steps and their budgets writes it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are planted elsewhere")]
pub(crate) fn spoil<R>(bug: Bug, action: &str, decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    match bug {
        Bug::ResultNotSettled if action == RecordResult::ACTION => Ok(without_budgets(decided)),
        Bug::UnclaimedPermitLeaked if action == CancelJob::ACTION || action == Commit::ACTION => {
            Ok(without_budgets(decided))
        }
        Bug::JobReservedTwice if action == SettleHeldJob::ACTION => count_again(decided),
        Bug::LostWorkerReleased if action == ExpireLeases::ACTION => release_unsettled(decided),
        _ => Ok(decided),
    }
}
