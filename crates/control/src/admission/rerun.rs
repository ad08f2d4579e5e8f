//! What a rerun takes over from the run that it repeats.

use std::collections::BTreeSet;

use interlock_model::run::Run;
use interlock_model::step::{StepRun, StepStatus};
use interlock_model::workflow::{ParallelRule, ParallelStrategy, StepKind, Workflow};
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
    let before = dependencies(workflow, step);
    let kept = branches_kept(workflow, source, step);
    // What a kept step owns has ended with it, in whatever way.
    let owned = before.iter().chain(&kept).flat_map(|step| owned_below(workflow, step));
    for step in kept.iter().cloned().chain(owned) {
        let key = StepKey::whole(&step);
        let found = source.steps.get(&key).filter(|found| found.status.is_settled());
        copied.extend(found.map(|found| (key, StepRun { fan_out: None, ..found.clone() })));
        copied.extend(rounds_that_stored(source, &step));
    }
    for before in before {
        let key = StepKey::whole(&before);
        match source.steps.get(&key) {
            Some(found) if matches!(found.status, StepStatus::Succeeded | StepStatus::Skipped) => {
                copied.push((key, StepRun { fan_out: None, kept_events: Vec::new(), ..found.clone() }));
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
        // The owner begins again, and so waits for its dependencies.
        open.extend(definition.owner.clone());
        for before in &definition.depends_on {
            if found.insert(before.clone()) {
                open.push(before.clone());
            }
        }
    }
    found
}

/// Of the rounds of a loop, what they have stored stays. Their outputs are part of that of the loop.
fn rounds_that_stored(source: &Run, step: &StepId) -> impl Iterator<Item = (StepKey, StepRun)> {
    let rounds = source.steps.range(StepKey::item(step, 0)..=StepKey::item(step, u32::MAX));
    let stored = rounds.filter(|(_, round)| round.context_change.is_some());
    stored.map(|(key, round)| (key.clone(), round.clone()))
}

/// The other branches of the parallel steps around `step` that succeeded, where none may fail: only this one is repeated.
fn branches_kept(workflow: &Workflow, source: &Run, step: &StepId) -> Vec<StepId> {
    let (mut kept, mut inner) = (Vec::new(), step);
    while let Some(owner) = workflow.steps.get(inner).and_then(|step| step.owner.as_ref()) {
        let rule = workflow.steps.get(owner).map(|owner| &owner.kind);
        if let Some(StepKind::Parallel(ParallelRule { branches, strategy: ParallelStrategy::All, .. })) = rule
        {
            let has_succeeded = |branch: &&StepId| {
                matches!(source.step_status(branch), StepStatus::Succeeded | StepStatus::Skipped)
            };
            kept.extend(branches.iter().filter(|branch| *branch != inner).filter(has_succeeded).cloned());
        }
        inner = owner;
    }
    kept
}

/// Everything that belongs to `step`, directly or not.
fn owned_below(workflow: &Workflow, step: &StepId) -> Vec<StepId> {
    let mut found = Vec::new();
    let mut open = vec![step];
    while let Some(next) = open.pop() {
        let owned = workflow.steps.get(next).map_or(&[][..], |step| step.kind.owned());
        found.extend(owned.iter().cloned());
        open.extend(owned);
    }
    found
}
