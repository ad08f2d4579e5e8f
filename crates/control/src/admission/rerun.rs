//! What a rerun takes over from the run that it repeats.

use std::collections::BTreeSet;

use interlock_model::run::Run;
use interlock_model::step::{StepRun, StepStatus};
use interlock_model::workflow::Workflow;
use interlock_model::{StepId, StepKey};

use super::StartError;

/// Everything that `step` depends on. An error, if there is no such step, or if something of it did not succeed.
pub(super) fn steps_before(
    workflow: &Workflow,
    source: &Run,
    step: &StepId,
) -> Result<Vec<(StepKey, StepRun)>, StartError> {
    if !workflow.steps.contains_key(step) {
        return Err(StartError::UnknownStep(step.clone()));
    }
    let mut copied = Vec::new();
    for before in dependencies(workflow, step) {
        let key = StepKey::whole(&before);
        match source.steps.get(&key) {
            Some(found) if matches!(found.status, StepStatus::Succeeded | StepStatus::Skipped) => {
                copied.push((key, StepRun { fan_out: None, ..found.clone() }));
            }
            _ => {
                return Err(StartError::NotRerunnable(format!(
                    "step {step} depends on {before}, which is {} in run {}; rerun from there or from the beginning",
                    source.step_status(&before).name(),
                    source.start.run,
                )));
            }
        }
    }
    Ok(copied)
}

fn dependencies(workflow: &Workflow, step: &StepId) -> BTreeSet<StepId> {
    let mut found = BTreeSet::new();
    let mut open = vec![step.clone()];
    while let Some(next) = open.pop() {
        let Some(definition) = workflow.steps.get(&next) else { continue };
        for before in &definition.depends_on {
            if found.insert(before.clone()) {
                open.push(before.clone());
            }
        }
    }
    found
}
