//! Topological order of the steps.

use std::collections::{BTreeMap, BTreeSet};

use super::compile::InvalidWorkflow;
use super::document::StepDocument;
use crate::StepId;

/// Orders the steps so that each comes after its dependencies and, for an error handler, after the steps that it
/// handles.
pub(super) fn order(steps: &BTreeMap<StepId, StepDocument>) -> Result<Vec<StepId>, InvalidWorkflow> {
    let mut waits_for = edges(steps)?;
    let mut ordered = Vec::with_capacity(steps.len());
    loop {
        let free: Vec<StepId> =
            waits_for.iter().filter(|(_, before)| before.is_empty()).map(|(step, _)| step.clone()).collect();
        if free.is_empty() {
            break;
        }
        for step in free {
            waits_for.remove(&step);
            for before in waits_for.values_mut() {
                before.remove(&step);
            }
            ordered.push(step);
        }
    }
    if waits_for.is_empty() {
        return Ok(ordered);
    }
    let cycle: Vec<&str> = waits_for.keys().map(StepId::as_str).take(10).collect();
    Err(InvalidWorkflow::new(
        "steps",
        format!("the steps {} depend on each other in a cycle", cycle.join(", ")),
    ))
}

fn edges(
    steps: &BTreeMap<StepId, StepDocument>,
) -> Result<BTreeMap<StepId, BTreeSet<StepId>>, InvalidWorkflow> {
    let mut waits_for: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
    for (id, step) in steps {
        let before = waits_for.entry(id.clone()).or_default();
        for dependency in &step.depends_on {
            if !steps.contains_key(dependency) {
                let place = format!("steps.{id}.depends_on");
                return Err(InvalidWorkflow::new(place, format!("step {dependency} does not exist")));
            }
            before.insert(dependency.clone());
        }
    }
    for (id, step) in steps {
        let Some(handler) = &step.on_error else { continue };
        let Some(before) = waits_for.get_mut(handler) else {
            return Err(InvalidWorkflow::new(
                format!("steps.{id}.on_error"),
                format!("step {handler} does not exist"),
            ));
        };
        before.insert(id.clone());
    }
    Ok(waits_for)
}
