//! Budgets, as the calls and answers say that they must be, and as the rows add up.

use std::collections::BTreeMap;

use interlock_backend::StoreError;
use interlock_backend::budgets::{PermitChange, ReserveBudget, Reserved};
use interlock_backend::local::Table;
use interlock_backend::verbs::SaveBudget;
use interlock_model::budget::{Amount, Ledger, LedgerState, Permit, PermitState};
use interlock_model::{BudgetName, PermitId, TenantId};

use super::Checker;
use crate::Invariant;

#[derive(Default)]
pub(super) struct Budgets {
    amounts: BTreeMap<Place, Amount>,
    /// By the calls.
    permits: BTreeMap<(Place, PermitId), Known>,
    /// By the rows: permits, and ledgers by `tenant/budget/window/group`.
    pub(super) permit_rows: BTreeMap<String, Permit>,
    pub(super) ledger_rows: BTreeMap<String, Ledger>,
}

type Place = (TenantId, BudgetName);

/// A permit, as its answers say that it must be.
struct Known {
    place: String,
    granted: Amount,
    /// None: it holds what it was granted, whether or not it has expired.
    settled: Option<Amount>,
}

impl Budgets {
    /// By the key of its row.
    pub(super) fn amount_of(&self, budget: &str) -> Amount {
        let is_it = |(tenant, name): &&Place| budget == format!("{tenant}/{name}");
        let known = self.amounts.keys().find(is_it);
        known.and_then(|place| self.amounts.get(place)).copied().unwrap_or_default()
    }

    /// What is left for the group of a queue, `tenant/budget/group/`. None: in more than one window, or nothing was ever
    /// reserved.
    pub(super) fn left_in(&self, budget: &str, queue: &str) -> Option<Amount> {
        let group = queue.strip_prefix(budget)?.trim_matches('/');
        let is_of_group = |key: &str| {
            let place = key.strip_prefix(budget).and_then(|rest| rest.strip_prefix('/'));
            place.and_then(|place| place.split_once('/')).is_some_and(|(_, of)| of == group)
        };
        let mut ledgers = self.ledger_rows.iter().filter(|(key, _)| is_of_group(key));
        let (_, ledger) = ledgers.next().filter(|_| ledgers.next().is_none())?;
        Some(ledger.remaining(self.amount_of(budget)))
    }

    /// What counts against the amount at a place: what was settled, and what may still be.
    fn sums(&self, budget: &Place, place: &str) -> (Amount, Amount) {
        let all = self.permits.iter().filter(|((of, _), known)| of == budget && known.place == place);
        all.fold((Amount::ZERO, Amount::ZERO), |(spent, held), (_, known)| match known.settled {
            Some(settled) => (spent.plus(settled), held),
            None => (spent, held.plus(known.granted)),
        })
    }
}

impl Checker {
    pub(crate) fn budget_saved(&mut self, asked: &SaveBudget) {
        self.budgets.amounts.insert((asked.tenant.clone(), asked.name.clone()), asked.document.amount);
    }

    pub(crate) fn reserved(&mut self, asked: &ReserveBudget, answer: &Result<Reserved, StoreError>) {
        let budget = (asked.tenant.clone(), asked.name.clone());
        match answer {
            Ok(Reserved::Granted { permit, is_replay: true, .. }) => {
                let known = self.budgets.permits.get(&(budget, permit.id.clone()));
                let is_same = known.is_some_and(|known| known.granted == permit.granted);
                self.counts.permits_asked_again += 1;
                self.require(is_same, Invariant::AnswersAreTrue, || {
                    format!("{} was answered with another permit: {permit:?}", permit.id)
                });
            }
            Ok(Reserved::Granted { permit, state, .. }) => {
                self.fence_given(&asked.tenant, permit.fence);
                let known = Known { place: permit.place(), granted: permit.granted, settled: None };
                self.budgets.permits.insert((budget.clone(), permit.id.clone()), known);
                let (spent, held) = self.budgets.sums(&budget, &permit.place());
                let most = self.budgets.amounts.get(&budget).copied().unwrap_or_default();
                self.counts.permits_granted += 1;
                self.require(spent.plus(held) <= most, Invariant::Budget, || {
                    format!(
                        "{} of {budget:?} was granted, and makes {} of {most}",
                        permit.granted,
                        spent.plus(held)
                    )
                });
                let fits = asked.least <= permit.granted && permit.granted <= asked.amount;
                self.require(fits, Invariant::AnswersAreTrue, || format!("{asked:?} was granted {permit:?}"));
                self.judge_state(&budget, &permit.place(), state);
            }
            Ok(Reserved::Exhausted { state, .. }) => {
                let place = asked.group.place(&asked.window);
                let (spent, held) = self.budgets.sums(&budget, &place);
                let most = self.budgets.amounts.get(&budget).copied().unwrap_or_default();
                let left = most.minus(spent).minus(held);
                self.counts.permits_refused += 1;
                self.require(left < asked.least, Invariant::NoNeedlessRefusal, || {
                    format!("{} of {budget:?} was refused, and {left} was left", asked.least)
                });
                self.judge_state(&budget, &place, state);
            }
            Ok(
                Reserved::Outdated
                | Reserved::WindowOver { .. }
                | Reserved::TooMany { .. }
                | Reserved::RunOver { .. },
            )
            | Err(_) => {}
        }
    }

    /// The permit was settled or released, as its answer says, or was before.
    pub(crate) fn permit_ended(
        &mut self,
        budget: (&TenantId, &BudgetName),
        spent: Amount,
        answer: &Result<PermitChange, StoreError>,
    ) {
        let Ok(PermitChange { permit, state, has_ended, .. }) = answer else { return };
        let budget = (budget.0.clone(), budget.1.clone());
        let Some(known) = self.budgets.permits.get_mut(&(budget.clone(), permit.id.clone())) else {
            let what = format!("{} was ended, and was never granted", permit.id);
            return self.violate(Invariant::AnswersAreTrue, what);
        };
        let place = known.place.clone();
        let before = known.settled;
        if *has_ended {
            known.settled = Some(spent);
        }
        // What was released may be settled, and what was settled stays.
        let may_end = before.is_none_or(Amount::is_zero);
        self.counts.permits_ended += u64::from(*has_ended);
        self.counts.permits_ended_again += u64::from(!has_ended);
        self.require(!has_ended || may_end, Invariant::SettledOnce, || {
            format!("{} was settled with {before:?}, and then with {spent}", permit.id)
        });
        self.judge_state(&budget, &place, state);
    }

    /// An answer shows what was granted and settled. What has expired is spent or not; together it is known.
    fn judge_state(&mut self, budget: &Place, place: &str, state: &LedgerState) {
        let (spent, held) = self.budgets.sums(budget, place);
        let ledger = state.ledger;
        let shown = (ledger.spent, ledger.reserved.plus(ledger.unsettled));
        self.require(shown == (spent, held), Invariant::LedgerAddsUp, || {
            format!("{budget:?} shows {shown:?} at {place} where the calls make {:?}", (spent, held))
        });
    }

    /// Takes in a row of a budget.
    pub(super) fn budget_row_written(&mut self, table: Table, key: &str, value: Option<&str>) {
        let budgets = &mut self.budgets;
        let is_read = match (table, value) {
            (Table::BudgetPermits, Some(value)) => {
                serde_json::from_str::<Permit>(value).is_ok_and(|permit| {
                    let before = budgets.permit_rows.insert(key.to_owned(), permit.clone());
                    let has_expired = permit.state == PermitState::Unsettled
                        && before.is_some_and(|before| before.state == PermitState::Open);
                    self.counts.permits_expired += u64::from(has_expired);
                    true
                })
            }
            (Table::BudgetPermits, None) => budgets.permit_rows.remove(key).is_some(),
            (Table::BudgetLedgers, Some(value)) => {
                serde_json::from_str::<Ledger>(value).is_ok_and(|ledger| {
                    budgets.ledger_rows.insert(key.to_owned(), ledger);
                    true
                })
            }
            (Table::BudgetLedgers, None) => budgets.ledger_rows.remove(key).is_some(),
            _ => true,
        };
        self.require(is_read, Invariant::NothingBreaks, || format!("{} {key} cannot be read", table.name()));
    }

    /// Every ledger is the sum of its permits.
    pub(super) fn check_ledgers(&mut self) {
        let mut counted: BTreeMap<String, Ledger> = BTreeMap::new();
        for (key, permit) in &self.budgets.permit_rows {
            let budget = key.rsplit_once('/').map_or(key.as_str(), |(budget, _)| budget);
            counted.entry(format!("{budget}/{}", permit.place())).or_default().add(permit);
        }
        let wrong = self.budgets.ledger_rows.iter().find(|(key, ledger)| {
            let kept = counted.get(*key).copied().unwrap_or_default();
            !key.ends_with("/*")
                && (ledger.reserved, ledger.unsettled, ledger.open)
                    != (kept.reserved, kept.unsettled.plus(ledger.past_unsettled), kept.open)
        });
        let wrong =
            wrong.map(|(key, ledger)| format!("{key} counts {ledger:?}, and its permits something else"));
        self.require(wrong.is_none(), Invariant::LedgerAddsUp, || wrong.clone().unwrap_or_default());
    }

    /// Whether every permit has ended.
    pub(crate) fn has_open_permits(&self) -> bool {
        self.budgets.permit_rows.values().any(|permit| permit.state == PermitState::Open)
    }

    pub(crate) fn left_permits(&mut self) {
        let open = self.budgets.permit_rows.iter().filter(|(_, permit)| permit.state == PermitState::Open);
        let open: Vec<_> = open.map(|(key, _)| key.clone()).collect();
        self.require(open.is_empty(), Invariant::NothingIsLeft, || {
            format!("faults have stopped, and these permits never ended: {}", open.join(", "))
        });
    }
}
