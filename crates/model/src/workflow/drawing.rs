//! How a workflow looks: its steps, and what leads from one to another.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::compile::{InvalidWorkflow, Workflow};
use super::document::{StepDocument, StepType, WorkflowDocument};
use super::switch::SwitchDocument;
use crate::StepId;

/// Characters of a condition or of another text of the author.
const TEXT_CHARS_MAX: usize = 60;

/// A workflow as a graph. Each step comes after those that it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drawing {
    pub steps: Vec<DrawnStep>,
    pub edges: Vec<DrawnEdge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrawnStep {
    pub id: StepId,
    #[serde(rename = "type")]
    pub kind: StepType,
    /// What a person wants to know of it: one line each.
    pub details: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrawnEdge {
    pub from: StepId,
    pub to: StepId,
    #[serde(flatten)]
    pub way: Way,
}

/// Why one step leads to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "way", content = "case")]
pub enum Way {
    /// The step depends on the other.
    Next,
    /// A switch takes this case.
    Case(String),
    /// The other fails.
    OnError,
}

impl Drawing {
    pub fn of(document: &WorkflowDocument, workflow: &Workflow) -> Result<Self, InvalidWorkflow> {
        let steps = workflow.order.iter().filter_map(|id| Some((id, document.steps.get(id)?)));
        let mut drawing = Self { steps: Vec::new(), edges: Vec::new() };
        for (id, step) in steps {
            drawing.steps.push(DrawnStep { id: id.clone(), kind: step.kind, details: details(step) });
            drawing.edges.extend(cases(id, step)?);
            let handler = step.on_error.iter().map(|to| edge(id, to, Way::OnError));
            drawing.edges.extend(handler);
        }
        let drawn: BTreeSet<(StepId, StepId)> =
            drawing.edges.iter().map(|edge| (edge.from.clone(), edge.to.clone())).collect();
        for (id, step) in workflow.order.iter().filter_map(|id| Some((id, document.steps.get(id)?))) {
            let others =
                step.depends_on.iter().filter(|from| !drawn.contains(&((*from).clone(), id.clone())));
            drawing.edges.extend(others.map(|from| edge(from, id, Way::Next)));
        }
        Ok(drawing)
    }
}

fn edge(from: &StepId, to: &StepId, way: Way) -> DrawnEdge {
    DrawnEdge { from: from.clone(), to: to.clone(), way }
}

/// The edges of a switch.
fn cases(id: &StepId, step: &StepDocument) -> Result<Vec<DrawnEdge>, InvalidWorkflow> {
    if step.kind != StepType::Switch {
        return Ok(Vec::new());
    }
    let SwitchDocument { cases, default } = SwitchDocument::read(id, step.input.as_ref())?;
    let cases = cases.iter().map(|case| edge(id, &case.next, Way::Case(case.label())));
    Ok(cases.chain(default.iter().map(|next| edge(id, next, Way::Case("default".to_owned())))).collect())
}

fn details(step: &StepDocument) -> Vec<String> {
    let workflow = step.input.as_ref().and_then(|input| input.get("workflow_id")).and_then(Value::as_str);
    let workflow = workflow.filter(|_| step.kind == StepType::Subworkflow);
    let at_once = step.max_parallel.map(|count| format!(", {count} at once")).unwrap_or_default();
    let lines = [
        step.topic.as_ref().map(|topic| format!("topic {topic}")),
        workflow.map(|workflow| format!("workflow {workflow}")),
        step.for_each.as_ref().map(|items| format!("for each of {}{at_once}", shortened(items))),
        step.condition.as_ref().map(|condition| format!("if {}", shortened(condition))),
        step.delay_sec.map(|seconds| format!("{seconds} s")),
        step.delay_until.as_ref().map(|until| format!("until {}", shortened(until))),
    ];
    lines.into_iter().flatten().collect()
}

pub(super) fn shortened(text: &str) -> String {
    let short: String = text.chars().take(TEXT_CHARS_MAX).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_drawing_has_cases_handlers_and_what_fans_out() {
        let document: WorkflowDocument = serde_json::from_value(json!({"name": "w", "steps": {
            "plan": {"type": "worker", "topic": "plan", "on_error": "tell"},
            "kind": {"type": "switch", "condition": "steps.plan.output", "depends_on": ["plan"],
                     "input": {"cases": {"big": "split"}, "default": "small"}},
            "split": {"type": "subworkflow", "for_each": "input.parts", "max_parallel": 3,
                      "depends_on": ["kind"], "input": {"workflow_id": "part"}},
            "small": {"type": "transform", "input": {}},
            "tell": {"type": "notify", "input": {"message": "x"}},
        }}))
        .unwrap();
        let workflow = Workflow::compile("w".parse().unwrap(), 1, &document).unwrap();
        let Drawing { steps, edges } = Drawing::of(&document, &workflow).unwrap();
        let edges: Vec<String> =
            edges.iter().map(|edge| format!("{} {} {:?}", edge.from, edge.to, edge.way)).collect();
        assert_eq!(
            edges,
            [
                "plan tell OnError",
                "kind split Case(\"big\")",
                "kind small Case(\"default\")",
                "plan kind Next",
            ]
        );
        let split = steps.iter().find(|step| step.id.as_str() == "split").unwrap();
        assert_eq!(split.details, ["workflow part", "for each of input.parts, 3 at once"]);
        assert_eq!(steps[0].id.as_str(), "plan", "in the order of the graph");
    }
}
