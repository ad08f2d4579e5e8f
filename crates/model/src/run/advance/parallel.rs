//! Parallel steps: their branches begin together, and their ends decide the step.

use serde_json::{Map, Value, json};

use super::ready::Readiness;
use super::{Illegal, Machine};
use crate::history::EventKind;
use crate::step::{ErrorCode, StepEvent, StepRun, StepStatus};
use crate::workflow::{ParallelRule, ParallelStrategy, StepKind};
use crate::{StepId, StepKey, Timestamp};

impl Machine<'_> {
    /// Lets the branches begin. A rerun may have copied some of them.
    pub(super) fn begin_parallel(&mut self, key: &StepKey, rule: &ParallelRule) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Begin)?;
        self.begin_timeout(key);
        let data = json!({"branches": rule.branches, "required": required(rule)});
        self.record(self.event(EventKind::StepParallelStarted, key).with_data(data));
        self.judge_branches(&key.step, rule)
    }

    /// Why a step that belongs to `owner` does not begin now; none if it does.
    pub(super) fn wait_for_owner(&self, owner: &StepId) -> Option<Readiness> {
        match self.status(owner) {
            StepStatus::Pending => return Some(Readiness::Later),
            StepStatus::Running => {}
            StepStatus::Waiting
            | StepStatus::Succeeded
            | StepStatus::Failed
            | StepStatus::Denied
            | StepStatus::Cancelled
            | StepStatus::TimedOut
            | StepStatus::Skipped => {
                return Some(Readiness::Never(format!("step {owner}, which it belongs to, has ended")));
            }
        }
        let Some(StepKind::Parallel(rule)) = self.definition(owner).map(|step| &step.kind) else {
            // A loop begins its rounds itself.
            return Some(Readiness::Later);
        };
        let parallel_max = rule.parallel_max?.get() as usize;
        let is_open = |status| matches!(status, StepStatus::Running | StepStatus::Waiting);
        let open = rule.branches.iter().filter(|branch| is_open(self.status(branch))).count();
        (open >= parallel_max).then_some(Readiness::Later)
    }

    /// A step has ended: if it belongs to another, that one may end too.
    pub(super) fn owned_ended(&mut self, step: &StepId) -> Result<(), Illegal> {
        let Some(owner) = self.definition(step).and_then(|step| step.owner.as_ref()) else { return Ok(()) };
        if self.status(owner) != StepStatus::Running {
            return Ok(());
        }
        match self.definition(owner).map(|step| &step.kind) {
            Some(StepKind::Parallel(rule)) => {
                self.branches_ended += 1;
                self.judge_branches(owner, rule)
            }
            Some(StepKind::Loop(_)) => self.round_failed(owner, step),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the step as soon as its branches decide it.
    fn judge_branches(&mut self, id: &StepId, rule: &ParallelRule) -> Result<(), Illegal> {
        let key = StepKey::whole(id);
        let statuses: Vec<StepStatus> = rule.branches.iter().map(|branch| self.status(branch)).collect();
        let open = statuses.iter().filter(|status| !status.is_settled()).count();
        let succeeded = statuses.iter().filter(|status| **status == StepStatus::Succeeded).count();
        match rule.strategy {
            ParallelStrategy::All => {
                let failed = rule.branches.iter().find(|branch| self.status(branch).is_failure());
                let failed = failed.map(|branch| (branch, &self.run.steps[&StepKey::whole(branch)]));
                if let Some((branch, failed)) = failed {
                    let (code, message) = match &failed.error {
                        Some(error) => (error.code, format!("{branch}: {}", error.message)),
                        None => (ErrorCode::TooFewBranches, format!("{branch} is {}", failed.status.name())),
                    };
                    return self.settle_failure(&key, code, message);
                }
                if open == 0 { self.succeed_parallel(&key, rule) } else { Ok(()) }
            }
            ParallelStrategy::AtLeast(required) if succeeded >= required => self.succeed_parallel(&key, rule),
            ParallelStrategy::AtLeast(required) if succeeded + open < required => {
                let ends = rule.branches.iter().zip(&statuses);
                let ends = ends.filter(|(_, status)| status.is_settled());
                let ends: Vec<String> =
                    ends.map(|(branch, end)| format!("{branch} {}", end.name())).collect();
                let message = format!(
                    "{required} of {} branches must succeed, and no more than {} can: {}",
                    rule.branches.len(),
                    succeeded + open,
                    ends.join(", "),
                );
                self.settle_failure(&key, ErrorCode::TooFewBranches, message)
            }
            ParallelStrategy::AtLeast(_) => Ok(()),
        }
    }

    /// Cancels the branches that are open, and ends the step with what became of each.
    fn succeed_parallel(&mut self, key: &StepKey, rule: &ParallelRule) -> Result<(), Illegal> {
        self.cancel_owned(&key.step)?;
        let output = self.output_of_branches(rule);
        match self.keep("the outputs of its branches", &output) {
            Ok(()) => self.succeed(key, output, EventKind::StepParallelCompleted),
            Err(problem) => self.fail_as_too_large(key, problem),
        }
    }

    /// Each branch with its end, and those that succeeded, the first first.
    fn output_of_branches(&self, rule: &ParallelRule) -> Value {
        let found = rule.branches.iter().filter_map(|branch| {
            let found = self.run.steps.get(&StepKey::whole(branch))?;
            Some((branch, found))
        });
        let mut succeeded: Vec<(Option<Timestamp>, &StepId)> = found
            .clone()
            .filter(|(_, step)| step.status == StepStatus::Succeeded)
            .map(|(branch, step)| (step.completed_at, branch))
            .collect();
        // The sort is stable: of those that ended together, the first in the document comes first.
        succeeded.sort_by_key(|(at, _)| *at);
        let succeeded: Vec<&StepId> = succeeded.into_iter().map(|(_, branch)| branch).collect();
        let branches: Map<String, Value> =
            found.map(|(branch, step)| (branch.as_str().to_owned(), end_of(step))).collect();
        json!({"succeeded": succeeded, "branches": branches})
    }

    /// Cancels whatever belongs to a step that ends.
    pub(super) fn cancel_owned(&mut self, owner: &StepId) -> Result<(), Illegal> {
        let Some(definition) = self.definition(owner) else { return Ok(()) };
        for step in definition.kind.owned() {
            let key = StepKey::whole(step);
            if self.status(step).is_settled() {
                continue;
            }
            self.cancel_items(step)?;
            self.revoke_job(&key);
            self.step(&key).pending_items = Vec::new();
            self.move_step(&key, StepEvent::Cancel)?;
            let event = self.event(EventKind::StepCancelled, &key).with_status(StepStatus::Cancelled.name());
            self.record(event.saying(format!("step {owner}, which it belongs to, needs it no more")));
            self.cancel_owned(step)?;
        }
        Ok(())
    }
}

fn required(rule: &ParallelRule) -> usize {
    match rule.strategy {
        ParallelStrategy::All => rule.branches.len(),
        ParallelStrategy::AtLeast(required) => required,
    }
}

fn end_of(step: &StepRun) -> Value {
    let mut end = json!({"status": step.status});
    if let Some(output) = &step.output {
        end["output"] = output.clone();
    }
    if let Some(error) = &step.error {
        end["error"] = json!(error.message);
    }
    end
}
