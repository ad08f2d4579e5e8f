//! `interlock workflow validate` and `interlock workflow graph`: what needs no server.

use std::fmt::Write as _;

use clap::ValueEnum;
use interlock_api::workflows::WorkflowView;
use interlock_model::document::{DocumentText, InvalidDocument};
use interlock_model::workflow::{
    Drawing, DrawnEdge, DrawnStep, InvalidWorkflow, StepType, Way, Workflow, WorkflowDocument,
};
use serde_json::json;

use crate::exit::{Exit, Failure, Result};
use crate::input;
use crate::output::{Output, say};

/// A language for drawings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    #[default]
    Mermaid,
    Dot,
}

/// Checks a file as the server would. What only the server knows, such as other workflows, is not checked.
pub(super) fn validate(file: &str, output: Output) -> Result<Exit> {
    let written = input::document(file)?;
    match read(&written.text) {
        Ok((document, workflow)) => {
            let (id, steps) = (&document.id, workflow.order.len());
            output.result(&json!({"valid": true, "id": id, "steps": steps}), |_| {
                let id = id.as_ref().map(|id| format!("workflow {id}, ")).unwrap_or_default();
                format!("{file} is valid: {id}{steps} steps")
            })?;
            Ok(Exit::Done)
        }
        Err(invalid) if output.is_json() => {
            let InvalidDocument { place, problem, line } = &invalid;
            let found = json!({"valid": false, "place": place, "problem": problem, "line": line});
            output.result(&found, |_| String::new())?;
            Ok(Exit::Refused)
        }
        Err(invalid) => {
            say(&format!("{file}: {invalid}"));
            Ok(Exit::Refused)
        }
    }
}

pub(super) fn draw(file: &str, format: GraphFormat, output: Output) -> Result<()> {
    let written = input::document(file)?;
    let invalid = |invalid| Failure::Usage(format!("{file}: {invalid}"));
    let (document, workflow) = read(&written.text).map_err(invalid)?;
    show(&document, &workflow, format, output)
}

pub(super) fn draw_saved(saved: WorkflowView, format: GraphFormat, output: Output) -> Result<()> {
    let (id, version) = (saved.id.clone(), saved.version);
    let document = saved.into();
    let newer =
        |invalid| Failure::Usage(format!("this interlock does not know the workflow's format: {invalid}"));
    let workflow = Workflow::compile(id, version, &document).map_err(newer)?;
    show(&document, &workflow, format, output)
}

fn read(text: &DocumentText) -> std::result::Result<(WorkflowDocument, Workflow), InvalidDocument> {
    let document: WorkflowDocument = text.read()?;
    // A document without an id gets one when it is saved.
    let id = document.id.clone().unwrap_or_else(|| "workflow".parse().expect("a name"));
    let compiled = Workflow::compile(id, 1, &document);
    let workflow = compiled.map_err(|InvalidWorkflow { place, problem }| text.located(&place, &problem))?;
    Ok((document, workflow))
}

fn show(document: &WorkflowDocument, workflow: &Workflow, format: GraphFormat, output: Output) -> Result<()> {
    let drawing = Drawing::of(document, workflow);
    let drawing = drawing.map_err(|invalid| Failure::Usage(invalid.to_string()))?;
    output.result(&drawing, |drawing| match format {
        GraphFormat::Mermaid => mermaid(drawing),
        GraphFormat::Dot => dot(drawing),
    })
}

/// How the steps of a type are drawn.
enum Shape {
    Box,
    Decision,
    Child,
    Wait,
}

fn shape(kind: StepType) -> Shape {
    if matches!(kind, StepType::Switch | StepType::Condition) {
        Shape::Decision
    } else if kind == StepType::Subworkflow {
        Shape::Child
    } else if matches!(kind, StepType::Approval | StepType::Delay) {
        Shape::Wait
    } else {
        Shape::Box
    }
}

/// The number of the step with this id. Ids are no names in these languages.
fn number(drawing: &Drawing, id: &interlock_model::StepId) -> usize {
    drawing.steps.iter().position(|step| step.id == *id).unwrap_or_default()
}

fn lines(step: &DrawnStep) -> Vec<String> {
    [step.id.to_string(), step.kind.name().to_owned()].into_iter().chain(step.details.clone()).collect()
}

fn mermaid(drawing: &Drawing) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (step, number) in drawing.steps.iter().zip(0..) {
        let label = lines(step).iter().map(|line| mermaid_text(line)).collect::<Vec<_>>().join("<br/>");
        let (open, close) = match shape(step.kind) {
            Shape::Box => ("[", "]"),
            Shape::Decision => ("{", "}"),
            Shape::Child => ("[[", "]]"),
            Shape::Wait => ("([", "])"),
        };
        let _ = writeln!(text, "    n{number}{open}\"{label}\"{close}");
    }
    for edge in &drawing.edges {
        let (from, to) = (number(drawing, &edge.from), number(drawing, &edge.to));
        let arrow = match &edge.way {
            Way::Next => "-->".to_owned(),
            Way::Case(case) => format!("-->|\"{}\"|", mermaid_text(case)),
            Way::OnError => "-.->|\"on error\"|".to_owned(),
        };
        let _ = writeln!(text, "    n{from} {arrow} n{to}");
    }
    text
}

/// Letters that Mermaid would interpret, as its entities.
fn mermaid_text(text: &str) -> String {
    let letter = |letter: char| match letter {
        '"' | '#' | '<' | '>' | '&' | ';' | '`' | '|' | '\\' => format!("#{};", u32::from(letter)),
        letter if letter.is_control() => " ".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(letter).collect()
}

fn dot(drawing: &Drawing) -> String {
    let mut text = "digraph workflow {\n    node [fontname=\"sans-serif\"];\n".to_owned();
    for (step, number) in drawing.steps.iter().zip(0..) {
        let label = lines(step).iter().map(|line| dot_text(line)).collect::<Vec<_>>().join("\\n");
        let shape = match shape(step.kind) {
            Shape::Box => "shape=box",
            Shape::Decision => "shape=diamond",
            Shape::Child => "shape=box, peripheries=2",
            Shape::Wait => "shape=box, style=rounded",
        };
        let _ = writeln!(text, "    n{number} [label=\"{label}\", {shape}];");
    }
    for DrawnEdge { from, to, way } in &drawing.edges {
        let (from, to) = (number(drawing, from), number(drawing, to));
        let attributes = match way {
            Way::Next => String::new(),
            Way::Case(case) => format!(" [label=\"{}\"]", dot_text(case)),
            Way::OnError => " [label=\"on error\", style=dashed]".to_owned(),
        };
        let _ = writeln!(text, "    n{from} -> n{to}{attributes};");
    }
    text + "}\n"
}

fn dot_text(text: &str) -> String {
    let letter = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => " ".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing() -> Drawing {
        let document = "name: w\nsteps:\n  a: {type: worker, on_error: h, condition: 'input.x == \"1\"'}\n  \
            h: {type: approval}\n  s: {type: switch, depends_on: [a], condition: input.k, \
            input: {cases: {'a|b': c}}}\n  c: {type: subworkflow, input: {workflow_id: w}}\n";
        let text = DocumentText::new(
            document.as_bytes(),
            interlock_model::document::Format::Yaml,
            interlock_model::document::TextBounds::default(),
        );
        let (document, workflow) = read(&text.unwrap()).unwrap();
        Drawing::of(&document, &workflow).unwrap()
    }

    #[test]
    fn mermaid_has_shapes_branches_and_escaped_texts() {
        let expected = "\
flowchart TD
    n0[\"a<br/>worker<br/>if input.x == #34;1#34;\"]
    n1([\"h<br/>approval\"])
    n2{\"s<br/>switch<br/>if input.k\"}
    n3[[\"c<br/>subworkflow<br/>workflow w\"]]
    n0 -.->|\"on error\"| n1
    n2 -->|\"a#124;b\"| n3
    n0 --> n2
";
        assert_eq!(mermaid(&drawing()), expected);
    }

    #[test]
    fn dot_has_shapes_branches_and_escaped_texts() {
        let expected = "\
digraph workflow {
    node [fontname=\"sans-serif\"];
    n0 [label=\"a\\nworker\\nif input.x == \\\"1\\\"\", shape=box];
    n1 [label=\"h\\napproval\", shape=box, style=rounded];
    n2 [label=\"s\\nswitch\\nif input.k\", shape=diamond];
    n3 [label=\"c\\nsubworkflow\\nworkflow w\", shape=box, peripheries=2];
    n0 -> n1 [label=\"on error\", style=dashed];
    n2 -> n3 [label=\"a|b\"];
    n0 -> n2;
}
";
        assert_eq!(dot(&drawing()), expected);
    }
}
