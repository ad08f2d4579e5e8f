//! What the rules of budgets act with.

use std::time::Duration;

use interlock_model::budget::{
    Amount, BudgetDocument, BudgetGroup, LedgerState, OnExhausted, Period, Permit, Window,
};
use interlock_model::{BudgetName, RunId, TenantId, Timestamp};

use super::Subject;
use super::scene::{acme, name};
use crate::budgets::{Budget, ExpiredPermits, PermitChange, Reserved};
use crate::verbs::{
    ExpirePermits, ListBudgetGroups, ReadBudget, ReleasePermit, RenewPermit, ReserveBudget, SaveBudget,
    SettlePermit,
};
use crate::{PageRequest, Store, StoreError};

/// How long permits last in the suite.
pub(super) const TTL: Duration = Duration::from_secs(2);

pub(super) fn amount(text: &str) -> Amount {
    text.parse().expect("amounts in rules are valid")
}

pub(super) fn document(limit: &str, per: Period) -> BudgetDocument {
    BudgetDocument {
        unit: "usd".to_owned(),
        amount: amount(limit),
        per,
        timezone: None,
        key: None,
        warn_at: Vec::new(),
        on_exhausted: OnExhausted::Deny,
    }
}

/// One budget of a tenant.
pub(super) struct Spending {
    pub(super) store: Store,
    pub(super) tenant: TenantId,
    pub(super) budget: Budget,
}

/// A reservation in the making.
pub(super) struct Request {
    pub(super) id: String,
    pub(super) amount: Amount,
    pub(super) least: Amount,
    pub(super) key: Option<&'static str>,
    pub(super) run: Option<RunId>,
    pub(super) ttl: Duration,
}

pub(super) fn request(id: &str, limit: &str) -> Request {
    let (amount, id) = (amount(limit), id.to_owned());
    Request { id, amount, least: amount, key: None, run: None, ttl: TTL }
}

impl Spending {
    pub(super) async fn of(subject: &dyn Subject, document: BudgetDocument) -> Self {
        Self::named(subject, "llm", document).await
    }

    pub(super) async fn named(subject: &dyn Subject, budget: &str, document: BudgetDocument) -> Self {
        let (store, tenant) = (subject.store(), acme());
        let save = SaveBudget { tenant: tenant.clone(), name: name(budget), document, expected: None };
        let budget = store.call(save).await.expect("the budget is valid");
        Self { store, tenant, budget }
    }

    pub(super) fn name(&self) -> BudgetName {
        self.budget.name.clone()
    }

    /// Replaces the document.
    pub(super) async fn save(&mut self, document: BudgetDocument) {
        let (tenant, name) = (self.tenant.clone(), self.name());
        let save = SaveBudget { tenant, name, document, expected: Some(self.budget.revision) };
        self.budget = self.store.call(save).await.expect("the revision is the last");
    }

    pub(super) fn window(&self, now: Timestamp) -> Window {
        self.budget.document.window_at(now).expect("the calendar goes on")
    }

    pub(super) fn verb(&self, request: &Request, window: Window) -> ReserveBudget {
        ReserveBudget {
            tenant: self.tenant.clone(),
            name: self.name(),
            revision: self.budget.revision,
            window,
            group: BudgetGroup::new(request.run, request.key).expect("keys in rules are valid"),
            run: request.run,
            permit: name(&request.id),
            amount: request.amount,
            least: request.least,
            ttl: request.ttl,
            wall_lead: 0,
        }
    }

    /// Asks in the window that it is now, which the store says.
    pub(super) async fn ask(&self, request: &Request) -> Result<Reserved, StoreError> {
        let mut now = self.budget.updated_at;
        loop {
            match self.store.call(self.verb(request, self.window(now))).await? {
                Reserved::WindowOver { now: by_the_store } => now = by_the_store,
                answer => return Ok(answer),
            }
        }
    }

    pub(super) async fn granted(&self, request: &Request) -> (Permit, LedgerState) {
        match self.ask(request).await.expect("the store is up") {
            Reserved::Granted { permit, state, .. } => (permit, state),
            other => panic!("expected a permit, got {other:?}"),
        }
    }

    pub(super) async fn exhausted(&self, request: &Request) -> LedgerState {
        match self.ask(request).await.expect("the store is up") {
            Reserved::Exhausted { state, .. } => state,
            other => panic!("expected too little, got {other:?}"),
        }
    }

    pub(super) async fn settle(&self, permit: &Permit, spent: &str) -> Result<PermitChange, StoreError> {
        let (tenant, name, permit) = (self.tenant.clone(), self.name(), permit.id.clone());
        self.store.call(SettlePermit { tenant, name, permit, amount: amount(spent), wall_lead: 0 }).await
    }

    pub(super) async fn release(&self, permit: &Permit) -> Result<PermitChange, StoreError> {
        let (tenant, name, permit) = (self.tenant.clone(), self.name(), permit.id.clone());
        self.store.call(ReleasePermit { tenant, name, permit, wall_lead: 0 }).await
    }

    pub(super) async fn renew(&self, permit: &Permit, ttl: Duration) -> Result<PermitChange, StoreError> {
        let (tenant, name, permit) = (self.tenant.clone(), self.name(), permit.id.clone());
        self.store.call(RenewPermit { tenant, name, permit, ttl, wall_lead: 0 }).await
    }

    pub(super) async fn expire(&self) -> ExpiredPermits {
        let verb = ExpirePermits { tenant: self.tenant.clone(), limit: 1_000, wall_lead: 0 };
        self.store.call(verb).await.expect("the store is up")
    }

    /// The ledger of a group in the window of this time.
    pub(super) async fn state(&self, now: Timestamp, key: Option<&str>) -> LedgerState {
        self.of_group(now, BudgetGroup::new(None, key).expect("keys in rules are valid")).await
    }

    pub(super) async fn of_group(&self, now: Timestamp, group: BudgetGroup) -> LedgerState {
        let verb = ListBudgetGroups {
            tenant: self.tenant.clone(),
            name: self.name(),
            window: self.window(now).to_string(),
            wall_lead: 0,
            only: Some(group),
            page: PageRequest { limit: 1, after: None },
        };
        let mut found = self.store.call(verb).await.expect("there is such a budget");
        found.items.remove(0).state
    }

    /// The budget as it is now.
    pub(super) async fn read(&self) -> Budget {
        let read = ReadBudget { tenant: self.tenant.clone(), name: self.name() };
        self.store.call(read).await.expect("the store is up").expect("there is such a budget").budget
    }
}

/// Spent, reserved, unsettled, overdraft, and what is left.
pub(super) fn numbers(state: &LedgerState) -> [String; 5] {
    let ledger = &state.ledger;
    [ledger.spent, ledger.reserved, ledger.unsettled, ledger.overdraft, state.remaining]
        .map(|amount| amount.to_string())
}
