//! Steps that belong to another step: the branches of a parallel step.

use std::collections::BTreeMap;

use super::compile::InvalidWorkflow;
use super::document::{StepDocument, StepType};
use super::graph::missing;
use super::parallel::ParallelDocument;
use crate::StepId;

/// Levels of parallel steps within each other. A turn follows them on its stack.
const NESTING_MAX: usize = 8;

/// The owner of each step that belongs to another.
pub(super) fn owners(
    steps: &BTreeMap<StepId, StepDocument>,
) -> Result<BTreeMap<StepId, StepId>, InvalidWorkflow> {
    let mut owners: BTreeMap<StepId, StepId> = BTreeMap::new();
    for (id, step) in steps {
        for (place, owned) in owned_by(id, step)? {
            let Some(found) = steps.get(&owned) else { return Err(missing(place, &owned)) };
            if let Some(owner) = owners.insert(owned.clone(), id.clone()) {
                return Err(belongs_elsewhere(place, &owned, &owner));
            }
            reject_misuse(id, (&owned, found))?;
        }
    }
    for (id, step) in steps {
        let dependencies = step.depends_on.iter().map(|step| ("depends_on", step));
        for (field, named) in dependencies.chain(step.on_error.iter().map(|step| ("on_error", step))) {
            if let Some(owner) = owners.get(named) {
                return Err(belongs_elsewhere(format!("steps.{id}.{field}"), named, owner));
            }
        }
    }
    Ok(owners)
}

/// The steps that this one owns, each with its place in the document.
fn owned_by(id: &StepId, step: &StepDocument) -> Result<Vec<(String, StepId)>, InvalidWorkflow> {
    if step.kind != StepType::Parallel {
        return Ok(Vec::new());
    }
    let branches = ParallelDocument::read(id, step.input.as_ref())?.branches;
    let placed = branches.into_iter().enumerate();
    Ok(placed.map(|(at, branch)| (format!("steps.{id}.input.steps[{at}]"), branch)).collect())
}

/// Rejects steps that belong to others through too many levels. The owners are without a cycle.
pub(super) fn bound_nesting(owners: &BTreeMap<StepId, StepId>) -> Result<(), InvalidWorkflow> {
    for step in owners.keys() {
        let above = std::iter::successors(owners.get(step), |owner| owners.get(*owner));
        if above.count() > NESTING_MAX {
            let problem = format!("it belongs to others through more than {NESTING_MAX} levels");
            return Err(InvalidWorkflow::new(format!("steps.{step}"), problem));
        }
    }
    Ok(())
}

/// An error where a step that belongs to another is named.
pub(super) fn belongs_elsewhere(place: String, step: &StepId, owner: &StepId) -> InvalidWorkflow {
    InvalidWorkflow::new(place, format!("step {step} belongs to step {owner}: name {owner} instead"))
}

/// When a branch begins, and what follows its end, is for its owner to say.
fn reject_misuse(owner: &StepId, (id, step): (&StepId, &StepDocument)) -> Result<(), InvalidWorkflow> {
    let fields = [("depends_on", !step.depends_on.is_empty()), ("on_error", step.on_error.is_some())];
    if let Some((field, _)) = fields.into_iter().find(|(_, is_present)| *is_present) {
        let problem = format!("the step belongs to step {owner}: give that one this field");
        return Err(InvalidWorkflow::new(format!("steps.{id}.{field}"), problem));
    }
    if step.kind == StepType::Switch {
        let problem = format!("the step belongs to step {owner}: a switch, which leads to others, cannot");
        return Err(InvalidWorkflow::new(format!("steps.{id}.type"), problem));
    }
    Ok(())
}
