//! Steps that belong to another step: the branches of a parallel step, the body of a loop.

use std::collections::BTreeMap;

use super::compile::InvalidWorkflow;
use super::document::{StepDocument, StepType};
use super::graph::missing;
use super::parallel::ParallelDocument;
use super::rounds::LoopDocument;
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
            let Some(found) = steps.get(&owned) else { return Err(missing(place, &owned, steps.keys())) };
            if let Some(owner) = owners.insert(owned.clone(), id.clone()) {
                return Err(belongs_elsewhere(place, &owned, &owner));
            }
            reject_misuse((id, step.kind), (&owned, found))?;
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
    if step.kind == StepType::Loop {
        let LoopDocument { place, body, .. } = LoopDocument::read(id, step.input.as_ref())?;
        return Ok(vec![(place, body)]);
    }
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

/// When it begins, and what follows its end, is for its owner to say. The items of a loop's body are its rounds.
fn reject_misuse(
    (owner, kind): (&StepId, StepType),
    (id, step): (&StepId, &StepDocument),
) -> Result<(), InvalidWorkflow> {
    let is_body = kind == StepType::Loop;
    let fields = [
        ("depends_on", !step.depends_on.is_empty()),
        ("on_error", step.on_error.is_some()),
        ("for_each", is_body && step.for_each.is_some()),
        ("condition", is_body && step.condition.is_some() && step.kind != StepType::Condition),
    ];
    if let Some((field, _)) = fields.into_iter().find(|(_, is_present)| *is_present) {
        let problem = match field {
            "for_each" => format!("the step is the body of loop {owner}: a child run of its own can fan out"),
            _ => format!("the step belongs to step {owner}: give that one this field"),
        };
        return Err(InvalidWorkflow::new(format!("steps.{id}.{field}"), problem));
    }
    let owns = matches!(step.kind, StepType::Parallel | StepType::Loop);
    if step.kind == StepType::Switch || (is_body && owns) {
        let kind = step.kind.name();
        let problem = format!("a {kind} step cannot belong to step {owner}: put it into a child run");
        return Err(InvalidWorkflow::new(format!("steps.{id}.type"), problem));
    }
    Ok(())
}
