//! Budgets: what their scripts decide by stands beside the document.

use interlock_backend::budgets::{Adjustment, BudgetEvent, BudgetEventKind, Reserved};
use interlock_backend::verbs::{AdjustBudget, ReserveBudget, SaveBudget};

use crate::encode;
use crate::known::Known;
use crate::script::Arguments;
use crate::store::Scripted;

impl Scripted for SaveBudget {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("name", &self.name)
            .with("expected", self.expected)
            .with("document", encode::json(&self.document))
            .with("amount", self.document.amount)
            .with("per", self.document.per)
            .with("marks", self.document.warn_marks())
            .packed()
    }
}

impl Scripted for ReserveBudget {
    fn learn(&self, answer: &Reserved, known: &Known) {
        if let Reserved::Granted { permit, .. } = answer {
            known.saw_fence(permit.fence);
        }
    }
}

impl Scripted for AdjustBudget {
    fn arguments(&self) -> Vec<u8> {
        let Adjustment { id, delta, until, group, .. } = &self.adjustment;
        let event = |at| BudgetEvent { at, kind: BudgetEventKind::Adjusted(self.adjustment.clone()) };
        Arguments::default()
            .with("name", &self.name)
            .with("revision", self.revision)
            .with("window", self.window)
            .with("id", id)
            .with("delta", delta)
            .with("ends_at", until)
            .with("group", group)
            .with("event", encode::around_time(event))
            .with("wall_lead", self.wall_lead)
            .packed()
    }
}
