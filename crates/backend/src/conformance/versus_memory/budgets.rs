//! Budgets, which a few requests reserve from.

use std::time::Duration;

use interlock_model::budget::{
    Amount, BudgetDocument, BudgetGroup, JobUsage, OnExhausted, Period, StepBudget, Window,
};
use interlock_model::{BudgetName, PermitId, RunId, TenantId};
use rand::RngExt as _;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::budgets::{Adjustment, Reserved, wall};
use crate::verbs::{
    AdjustBudget, DeleteBudget, ExpirePermits, ListBudgetEvents, ListBudgetGroups, ListBudgets, ReadBudget,
    ReleasePermit, RenewPermit, ReserveBudget, SaveBudget, SettlePermit,
};

sampled!(
    SaveBudget,
    4,
    |walk| {
        let (tenant, name) = walk.budget_name();
        let expected = walk.flip(0.2).then(|| walk.random.random_range(1..4));
        Some(SaveBudget { tenant, document: walk.budget_document(), name, expected })
    },
    |asked, answer, known| {
        known.budgets.push((
            asked.tenant.clone(),
            asked.name.clone(),
            asked.document.clone(),
            answer.revision,
        ));
    }
);

sampled!(DeleteBudget, 1, |walk| {
    let (tenant, name) = walk.budget_name();
    let expected = walk.flip(0.5).then(|| walk.random.random_range(1..4));
    Some(DeleteBudget { tenant, name, expected })
});

sampled!(ReadBudget, 2, |walk| {
    let (tenant, name) = walk.budget_name();
    Some(ReadBudget { tenant, name })
});

sampled!(ListBudgets, 1, |walk| Some(ListBudgets { tenant: walk.tenant() }));

sampled!(ListBudgetEvents, 2, |walk| {
    let (tenant, name) = walk.budget_name();
    Some(ListBudgetEvents { tenant, name })
});

sampled!(
    ListBudgetGroups,
    3,
    |walk| {
        let (tenant, name, document, _) = walk.pick(|known| &known.budgets)?;
        let wall_lead = walk.lead();
        let window = walk.budget_window(&document, wall_lead)?.to_string();
        let only = walk.flip(0.3).then(|| walk.budget_group(None));
        let page = walk.page(&groups_of(&tenant, &name, &window));
        Some(ListBudgetGroups { tenant, name, window, wall_lead, only, page })
    },
    |asked, answer, known| {
        known.learn_page(groups_of(&asked.tenant, &asked.name, &asked.window), answer);
    }
);

fn groups_of(tenant: &TenantId, name: &BudgetName, window: &str) -> String {
    format!("groups of {tenant}/{name} in {window}")
}

sampled!(
    ReserveBudget,
    16,
    |walk| {
        let (tenant, name, document, revision) = walk.pick(|known| &known.budgets)?;
        let revision = if walk.flip(0.05) { revision + 1 } else { revision };
        let wall_lead = walk.lead();
        let window = walk.budget_window(&document, wall_lead)?;
        let run = match document.per {
            Period::Run => Some(walk.run()?.1),
            Period::Hour | Period::Day | Period::Month | Period::Total => None,
        };
        let amount = walk.random.random_range(1..60);
        let least = if walk.flip(0.5) { amount } else { walk.random.random_range(1..=amount) };
        Some(ReserveBudget {
            group: walk.budget_group(run),
            permit: walk.permit_id(),
            ttl: walk.millis(50..2_000),
            amount: Amount::from_micros(amount),
            least: Amount::from_micros(least),
            tenant,
            name,
            revision,
            window,
            run,
            wall_lead,
        })
    },
    |asked, answer, known| {
        if let Reserved::Granted { permit, .. } = answer {
            known.permits.push((asked.tenant.clone(), asked.name.clone(), permit.id.clone()));
        }
    }
);

sampled!(RenewPermit, 3, |walk| {
    let (tenant, name, permit) = walk.pick(|known| &known.permits)?;
    let ttl = walk.millis(50..2_000);
    Some(RenewPermit { tenant, name, permit, ttl, wall_lead: walk.lead() })
});

sampled!(SettlePermit, 6, |walk| {
    let (tenant, name, permit) = walk.pick(|known| &known.permits)?;
    let amount = Amount::from_micros(walk.random.random_range(0..70));
    Some(SettlePermit { tenant, name, permit, amount, wall_lead: walk.lead() })
});

sampled!(ReleasePermit, 3, |walk| {
    let (tenant, name, permit) = walk.pick(|known| &known.permits)?;
    Some(ReleasePermit { tenant, name, permit, wall_lead: walk.lead() })
});

sampled!(AdjustBudget, 2, |walk| {
    let (tenant, name, document, revision) = walk.pick(|known| &known.budgets)?;
    let wall_lead = walk.lead();
    let window = walk.budget_window(&document, wall_lead)?;
    let is_temporary = walk.flip(0.4);
    let sign = if !is_temporary && walk.flip(0.5) { "-" } else { "" };
    let delta = format!("{sign}0.0000{:02}", walk.random.random_range(1..60));
    let number = walk.random.random_range(0..1_000_000);
    let adjustment = Adjustment {
        id: super::super::scene::name(&format!("adjustment{number}")),
        by: walk.person(),
        delta: delta.parse().expect("it is a number"),
        reason: "a wrong \"price\"".to_owned(),
        until: is_temporary.then(|| wall(walk.now(), wall_lead) + walk.millis(1..5_000)),
        group: walk.flip(0.5).then(|| walk.budget_group(None)),
    };
    Some(AdjustBudget { tenant, name, revision, window, adjustment, wall_lead })
});

sampled!(ExpirePermits, 4, |walk| {
    Some(ExpirePermits { tenant: walk.tenant(), limit: 10_000, wall_lead: walk.lead() })
});

impl Walk {
    /// What a job reserves, if anything.
    pub(super) fn step_budget(&mut self) -> Option<StepBudget> {
        let (_, name) = self.budget_name();
        let reserve = Amount::from_micros(self.random.random_range(1..40));
        self.flip(0.6).then_some(StepBudget { name, reserve })
    }

    /// What a worker says that it has spent.
    pub(super) fn job_usage(&mut self) -> JobUsage {
        let spent = Amount::from_micros(self.random.random_range(0..50));
        let (_, name) = self.budget_name();
        if self.flip(0.6) { JobUsage::from([(name, spent)]) } else { JobUsage::new() }
    }

    fn budget_name(&mut self) -> (TenantId, BudgetName) {
        (self.tenant(), name(self.one_of(&["llm", "calls", "llm-2"])))
    }

    fn budget_document(&mut self) -> BudgetDocument {
        BudgetDocument {
            unit: "usd".to_owned(),
            amount: Amount::from_micros(self.random.random_range(20..300)),
            per: self.one_of(&Period::ALL),
            timezone: None,
            key: None,
            warn_at: if self.flip(0.5) { vec![50, 80] } else { Vec::new() },
            on_exhausted: OnExhausted::Deny,
        }
    }

    /// Mostly the wall clock is where the store's is.
    pub(super) fn lead(&mut self) -> i64 {
        if self.flip(0.1) { self.one_of(&[-7_200_000, 7_200_000]) } else { 0 }
    }

    /// Mostly the window at this time.
    pub(super) fn budget_window(&mut self, document: &BudgetDocument, lead: i64) -> Option<Window> {
        let late = if self.flip(0.1) { Duration::from_hours(1) } else { Duration::ZERO };
        document.window_at(wall(self.now(), lead) + late)
    }

    pub(super) fn budget_group(&mut self, run: Option<RunId>) -> BudgetGroup {
        let key = self.one_of(&[None, Some("ann"), Some("bob/ö%")]);
        BudgetGroup::new(run, key).expect("the key is valid")
    }

    fn permit_id(&mut self) -> PermitId {
        let number = if self.flip(0.2) {
            self.random.random_range(0..6)
        } else {
            self.random.random_range(6..1_000_000)
        };
        name(&format!("permit{number}"))
    }
}
