//! Starts: fresh and repeated, with a key and without, under the admission lock or not.

use std::sync::Arc;

use interlock_model::RunId;
use interlock_model::admission::{FirstTurn, IdempotentIntent, RunRequest, StartPlan};
use interlock_model::dispatch_policy::{HeldJob, HoldReason};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::job::NewJob;
use interlock_model::limit::document::Labels;
use interlock_model::lock::LockName;
use interlock_model::run::StartedFrom;
use interlock_model::workflow::Workflow;
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::{deploy, document, name};
use super::Walk;
use crate::verbs::Admit;

impl Walk {
    /// A start that was tried or reserved before, or a new one.
    pub(super) fn start(&mut self) -> Admit {
        let known = self.pick(|known| &known.starts).filter(|_| self.flip(0.3));
        let is_new = known.is_none();
        let mut start = known.unwrap_or_else(|| self.new_start());
        // Callers may be wrong about this, too.
        start.is_repeat = self.flip(if is_new { 0.05 } else { 0.6 });
        if self.flip(0.3) {
            start.admission_fence = self.known.lock_fence(&LockName::Admission(start.request.tenant.clone()));
        }
        self.known.starts.push(start.clone());
        start
    }

    /// A start that is none of those that the walk knows, but for its run now and then.
    fn new_start(&mut self) -> Admit {
        let tenant = self.tenant();
        let input = json!({"n": self.random.random_range(0..2)});
        let key = self.flip(0.6).then(|| format!("key-{}", self.random.random_range(0..4)));
        let existing = self.pick(|known| &known.runs).filter(|(of, _)| *of == tenant && self.flip(0.1));
        let current = self.known.versions.get(&tenant).copied().unwrap_or(1);
        let now = self.now();
        let request = RunRequest {
            run: existing.map_or_else(|| RunId::new(now, self.random.random()), |(_, run)| run),
            intent: key.map(|key| IdempotentIntent {
                fingerprint: Fingerprint::of_start(&deploy(), &input),
                key: name(&key),
            }),
            tenant,
            workflow: self.workflow(),
            input,
            origin: self.origin(),
            labels: Labels::default(),
            priority: self.priority(),
            trace: self.trace(),
        };
        let mut plan = StartPlan {
            workflow_version: if self.flip(0.9) { current } else { 1 },
            limits_revision: if self.flip(0.95) { self.limits_revision(&request.tenant) } else { 0 },
            claims: self.claims(),
            fair: self.fair_claims(),
            copied_steps: if self.flip(0.2) { vec![self.step_run()] } else { Vec::new() },
            first_turn: None,
        };
        if self.flip(0.5) {
            plan.first_turn = self.first_turn(&request, &plan);
        }
        let plan = self.flip(0.95).then(|| Arc::new(plan));
        Admit { request: Arc::new(request), plan, admission_fence: None, is_repeat: false }
    }

    fn origin(&mut self) -> StartedFrom {
        match self.pick(|known| &known.runs) {
            Some((_, of)) if self.flip(0.2) => {
                StartedFrom::Rerun { of, from_step: self.flip(0.5).then(|| name("build")) }
            }
            _ => StartedFrom::Request,
        }
    }

    fn first_turn(&mut self, request: &RunRequest, plan: &StartPlan) -> Option<FirstTurn> {
        let workflow = Workflow::compile(request.workflow.clone(), plan.workflow_version, &document());
        let now = self.now();
        let mut turn =
            FirstTurn::of(&workflow.expect("it compiles"), request, plan, now, 0).ok().flatten()?;
        for job in &mut turn.dispatched {
            (job.meta, job.topic) = (self.meta(), self.topic());
        }
        if self.flip(0.3) {
            turn.held = self.held(&mut turn.dispatched);
        }
        Some(turn)
    }

    /// The dispatched jobs, held for a policy instead.
    pub(super) fn held(&mut self, dispatched: &mut Vec<NewJob>) -> Vec<HeldJob> {
        let detail = format!("to be decided by {}", self.person());
        let reason =
            self.one_of(&[HoldReason::PolicyPending, HoldReason::BudgetPending, HoldReason::BudgetPending]);
        dispatched.drain(..).map(|job| HeldJob { job, reason, detail: detail.clone() }).collect()
    }
}
