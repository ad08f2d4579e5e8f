//! Switches: which branch is taken, and what is skipped because it is not.

use serde_json::Value;

use super::{Illegal, Machine};
use crate::StepKey;
use crate::history::EventKind;
use crate::step::{ErrorCode, StepEvent};
use crate::workflow::{Step, SwitchRule};

impl Machine<'_> {
    /// Evaluates the cases of a switch. Its output is the name of the step that it takes.
    pub(super) fn choose_branch(&mut self, key: &StepKey, rule: &SwitchRule) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Begin)?;
        match rule.choose(&self.scope(key)) {
            Ok(Some(next)) => {
                let next = Value::String(next.as_str().to_owned());
                self.end_computed(key, Ok(next), EventKind::StepSwitchEvaluated)
            }
            Ok(None) => {
                let message = "no case matches, and there is no default".to_owned();
                self.settle_failure(key, ErrorCode::NoCaseMatches, message)
            }
            Err(problem) => self.fail_expression(key, problem),
        }
    }

    /// The switch that keeps this step from beginning: the step is only reached through branches that it has not taken.
    pub(super) fn closed_route(&self, step: &Step) -> Option<String> {
        let closed = step.routes.iter().find(|route| {
            let switch = self.run.steps.get(&StepKey::whole(&route.switch));
            let Some(switch) = switch.filter(|switch| switch.status.is_settled()) else { return false };
            let taken = switch.output.as_ref().and_then(Value::as_str);
            !taken.is_some_and(|taken| route.branches.iter().any(|branch| branch.as_str() == taken))
        });
        closed.map(|route| format!("switch {} has not taken its branch", route.switch))
    }
}
