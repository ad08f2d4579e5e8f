//! Children: asked for, started, refused and given up.

use std::collections::BTreeMap;

use interlock_model::RunId;
use interlock_model::child::{ChildEffects, ChildReport, NewChild, ParentLink};
use interlock_model::run::Run;
use interlock_model::step::ErrorCode;
use interlock_model::{StepKey, TenantId};
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::children::{ChildSettled, ChildSettlement};
use crate::runs::{AcquiredRun, Commit};
use crate::verbs::{AcquireChildStarts, SettleChildStart};

sampled!(AcquireChildStarts, 3, |walk| {
    let in_progress = walk.millis(0..900);
    Some(AcquireChildStarts { tenant: walk.tenant(), in_progress, limit: walk.limit() })
});

sampled!(
    SettleChildStart,
    8,
    |walk| {
        let (tenant, child) = walk.pick(|known| &known.children)?;
        let settlement = walk.child_settlement(&tenant);
        Some(SettleChildStart { tenant, child, settlement })
    },
    |asked, answer, known| {
        let child = (asked.tenant.clone(), asked.child.run);
        match answer {
            ChildSettled::Queued(_) => known.queued.push(child.clone()),
            ChildSettled::Started => {}
            ChildSettled::Refused
            | ChildSettled::LimitReached(_)
            | ChildSettled::QueueFull(_)
            | ChildSettled::Outdated
            | ChildSettled::NotWanted => return,
        }
        known.runs.push(child);
    }
);

impl Walk {
    fn child_settlement(&mut self, tenant: &TenantId) -> ChildSettlement {
        if self.flip(0.1) {
            let (code, message) = (ErrorCode::WorkflowNotFound, "there is \"none\"".to_owned());
            return ChildSettlement::Refuse { code, message, retryable: self.flip(0.5) };
        }
        let current = self.known.versions.get(tenant).copied().unwrap_or(1);
        ChildSettlement::Start {
            workflow_version: if self.flip(0.9) { current } else { 1 },
            limits_revision: if self.flip(0.95) { self.limits_revision(tenant) } else { 0 },
            claims: self.claims(),
        }
    }

    /// What a turn does about children: those that it ends without are left over now and then.
    pub(super) fn children_of(&mut self, acquired: &AcquiredRun, turn: &Commit) -> ChildEffects {
        let mut children = ChildEffects::default();
        let start = &acquired.start;
        if !turn.head.status.is_final() && self.flip(0.4) {
            children.started.push(self.new_child(acquired));
        }
        if self.flip(0.3) {
            let mut known = self.known.children.iter().rev();
            let own = known.find(|(of, child)| *of == start.tenant && child.parent.run == start.run);
            children.cancelled.extend(own.map(|(_, child)| child.run));
        }
        if !acquired.head.status.is_final() {
            let run = Run { start: start.clone(), head: turn.head.clone(), steps: BTreeMap::new() };
            children.report = ChildReport::of(&run);
        }
        children
    }

    fn new_child(&mut self, acquired: &AcquiredRun) -> NewChild {
        let start = &acquired.start;
        let item = self.random.random_range(0..3);
        let parent = ParentLink {
            run: start.run,
            step: StepKey::item(&name("sub"), item),
            root: start.root(),
            depth: start.depth() + 1,
        };
        NewChild {
            run: RunId::new(acquired.now, self.random.random()),
            workflow: self.workflow(),
            input: json!({"n": [1.50, {}]}),
            parent,
            labels: start.labels.clone(),
            priority: self.priority(),
            trace: self.trace(),
        }
    }
}
