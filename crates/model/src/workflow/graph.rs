//! How the steps follow each other: what each waits for, their order, and what each switch leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::compile::InvalidWorkflow;
use super::document::{StepDocument, StepType, WorkflowDocument};
use super::owner;
use super::switch::SwitchDocument;
use crate::StepId;
use crate::spelling::nearest;

/// The steps of a document, and what their references say.
pub(super) struct Graph {
    /// Each step comes after those that it waits for.
    pub(super) order: Vec<StepId>,
    /// What must have ended before a step begins: what it names itself, and the switch that leads to it.
    pub(super) follows: BTreeMap<StepId, BTreeSet<StepId>>,
    pub(super) routes: BTreeMap<StepId, Vec<Route>>,
    /// The owner of each step that belongs to another.
    pub(super) owners: BTreeMap<StepId, StepId>,
}

/// A step that is only reached through some branches of a switch. It is skipped unless the switch takes one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub switch: StepId,
    pub branches: BTreeSet<StepId>,
}

impl Graph {
    pub(super) fn of(steps: &BTreeMap<StepId, StepDocument>) -> Result<Self, InvalidWorkflow> {
        let owners = owner::owners(steps)?;
        let mut follows = dependencies(steps)?;
        let switches = steps.iter().filter(|(_, step)| step.kind == StepType::Switch);
        let switches =
            switches.map(|(id, step)| Ok((id.clone(), SwitchDocument::read(id, step.input.as_ref())?)));
        let switches: BTreeMap<StepId, SwitchDocument> = switches.collect::<Result<_, _>>()?;
        let leads_to = follow_switches(&mut follows, &switches, &owners)?;
        let mut waits_for = follows.clone();
        add_handlers(&mut waits_for, steps)?;
        for (step, owner) in &owners {
            waits_for.entry(step.clone()).or_default().insert(owner.clone());
        }
        let order = order(&waits_for)?;
        owner::bound_nesting(&owners)?;
        let routes = routes(&order, &waits_for, &leads_to);
        Ok(Self { order, follows, routes, owners })
    }
}

pub(super) fn missing<'a>(
    place: String,
    step: &StepId,
    steps: impl IntoIterator<Item = &'a StepId>,
) -> InvalidWorkflow {
    let meant = nearest(step.as_str(), steps.into_iter().map(StepId::as_str));
    let hint = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    InvalidWorkflow::new(place, format!("step {step} does not exist{hint}"))
}

fn dependencies(
    steps: &BTreeMap<StepId, StepDocument>,
) -> Result<BTreeMap<StepId, BTreeSet<StepId>>, InvalidWorkflow> {
    for (id, step) in steps {
        if let Some(unknown) = step.depends_on.iter().find(|step| !steps.contains_key(step)) {
            return Err(missing(format!("steps.{id}.depends_on"), unknown, steps.keys()));
        }
    }
    Ok(steps.iter().map(|(id, step)| (id.clone(), step.depends_on.iter().cloned().collect())).collect())
}

/// Lets each target of a switch follow it. Returns the switch of each target.
fn follow_switches(
    follows: &mut BTreeMap<StepId, BTreeSet<StepId>>,
    switches: &BTreeMap<StepId, SwitchDocument>,
    owners: &BTreeMap<StepId, StepId>,
) -> Result<BTreeMap<StepId, StepId>, InvalidWorkflow> {
    let mut leads_to: BTreeMap<StepId, StepId> = BTreeMap::new();
    for (id, switch) in switches {
        for (place, target) in switch.targets(id) {
            let Some(before) = follows.get_mut(target) else {
                return Err(missing(place, target, follows.keys()));
            };
            before.insert(id.clone());
            if let Some(owner) = owners.get(target) {
                return Err(owner::belongs_elsewhere(place, target, owner));
            }
            if let Some(other) = leads_to.insert(target.clone(), id.clone()).filter(|other| other != id) {
                let problem =
                    format!("switch {other} leads to step {target}, too: give each a step of its own");
                return Err(InvalidWorkflow::new(place, problem));
            }
        }
    }
    Ok(leads_to)
}

/// A handler waits for all steps that it handles.
fn add_handlers(
    waits_for: &mut BTreeMap<StepId, BTreeSet<StepId>>,
    steps: &BTreeMap<StepId, StepDocument>,
) -> Result<(), InvalidWorkflow> {
    for (id, step) in steps {
        let Some(handler) = &step.on_error else { continue };
        let Some(before) = waits_for.get_mut(handler) else {
            return Err(missing(format!("steps.{id}.on_error"), handler, steps.keys()));
        };
        before.insert(id.clone());
    }
    Ok(())
}

/// Orders the steps so that each comes after those that it waits for: those that are free first, by name.
fn order(waits_for: &BTreeMap<StepId, BTreeSet<StepId>>) -> Result<Vec<StepId>, InvalidWorkflow> {
    let mut followers: BTreeMap<&StepId, Vec<&StepId>> = BTreeMap::new();
    for (step, before) in waits_for {
        for before in before {
            followers.entry(before).or_default().push(step);
        }
    }
    let mut awaited: BTreeMap<&StepId, usize> =
        waits_for.iter().map(|(step, before)| (step, before.len())).collect();
    let mut ordered = Vec::with_capacity(awaited.len());
    loop {
        let free: Vec<&StepId> =
            awaited.iter().filter(|(_, count)| **count == 0).map(|(step, _)| *step).collect();
        if free.is_empty() {
            break;
        }
        for step in free {
            awaited.remove(step);
            for follower in followers.get(step).into_iter().flatten() {
                if let Some(count) = awaited.get_mut(follower) {
                    *count -= 1;
                }
            }
            ordered.push(step.clone());
        }
    }
    if awaited.is_empty() {
        return Ok(ordered);
    }
    let cycle: Vec<&str> = awaited.keys().map(|step| step.as_str()).take(10).collect();
    Err(InvalidWorkflow::new(
        "steps",
        format!("the steps {} depend on each other in a cycle", cycle.join(", ")),
    ))
}

impl WorkflowDocument {
    /// The steps, each after those that it waits for. None, if they depend on each other in a cycle.
    pub fn order(&self) -> Vec<StepId> {
        Graph::of(&self.steps).map(|graph| graph.order).unwrap_or_default()
    }
}

/// The branches through which each step is reached. As sets of bits, because a document may have very many edges.
fn routes(
    order: &[StepId],
    waits_for: &BTreeMap<StepId, BTreeSet<StepId>>,
    leads_to: &BTreeMap<StepId, StepId>,
) -> BTreeMap<StepId, Vec<Route>> {
    let targets: BTreeMap<&StepId, usize> = leads_to.keys().zip(0..).collect();
    let mut reached: BTreeMap<&StepId, Vec<u64>> = BTreeMap::new();
    for step in order.iter().filter(|_| !targets.is_empty()) {
        let mut bits = vec![0; targets.len().div_ceil(64)];
        if let Some(at) = targets.get(step) {
            bits[at / 64] |= 1 << (at % 64);
        }
        for before in waits_for[step].iter().filter_map(|before| reached.get(before)) {
            bits.iter_mut().zip(before).for_each(|(bits, more)| *bits |= more);
        }
        reached.insert(step, bits);
    }
    let routes = reached.into_iter().map(|(step, bits)| {
        let mut branches: BTreeMap<&StepId, BTreeSet<StepId>> = BTreeMap::new();
        let is_set = |at: usize| bits[at / 64] & (1 << (at % 64)) != 0;
        for (target, _) in targets.iter().filter(|(_, at)| is_set(**at)) {
            branches.entry(&leads_to[*target]).or_default().insert((*target).clone());
        }
        let routes =
            branches.into_iter().map(|(switch, branches)| Route { switch: switch.clone(), branches });
        (step.clone(), routes.collect())
    });
    routes.collect()
}
