//! Fields of documents from other systems: kept, honoured, or rejected by name.

use serde_json::{Value, json};

use super::{Workflow, WorkflowDocument, expect_problems, steps};

fn compiled(document: &Value) -> (WorkflowDocument, Workflow) {
    let document: WorkflowDocument = serde_json::from_value(document.clone()).unwrap();
    let workflow = Workflow::compile("w".parse().unwrap(), 1, &document).unwrap();
    (document, workflow)
}

#[test]
fn what_means_nothing_to_the_engine_is_kept() {
    let written = json!({
        "id": "w", "name": "w", "org_id": "acme", "team_id": "red", "version": "1.4.0", "created_by": "ann",
        "config": {"models": ["a"]}, "parameters": [{"name": "n", "type": "string"}], "labels": {"tier": "gold"},
        "steps": {"a": {"id": "a", "name": "First", "type": "worker", "policy_gate": "require_approval"}},
    });
    let (document, _) = compiled(&written);
    assert_eq!(serde_json::to_value(&document).unwrap(), written);
    let (numbered, _) = compiled(&json!({"name": "w", "version": 2.10, "steps": written["steps"],
        "created_at": "2026-01-01T00:00:00Z", "updated_at": null, "policy_override": ""}));
    assert_eq!(numbered.version.map(|version| version.0), Some("2.1".to_owned()));
}

/// Tools write empty texts and zeros for what is absent.
#[test]
fn empty_members_count_as_absent() {
    compiled(&json!({
        "name": "w", "description": "", "version": "", "team_id": "", "created_by": "", "timeout_sec": 0,
        "steps": {"a": {"id": "a", "name": "", "type": "delay", "delay_sec": 1, "worker_id": "", "output_path": "",
                        "input_schema_id": "", "output_schema_id": "", "result_data_path": "", "policy_gate": ""}},
    }));
}

#[test]
fn what_cannot_be_honoured_is_rejected_by_name() {
    let worker = |field: &str, value: Value| steps(&json!({"a": {"type": "worker", field: value}}));
    let with = |field: &str, value: Value| {
        let mut document = steps(&json!({"a": {"type": "worker"}}));
        document[field] = value;
        document
    };
    let long = "x".repeat(300);
    let many: Value = (0..51).map(|n| (n.to_string(), json!(""))).collect::<serde_json::Map<_, _>>().into();
    expect_problems(&[
        (worker("id", json!("b")), "steps.a.id: use the step's own id, a"),
        (worker("name", json!(long)), "steps.a.name: use at most 256 characters"),
        (
            worker("input_schema_id", json!("s")),
            "steps.a.input_schema_id: there is no registry of schemas here",
        ),
        (worker("output_schema_id", json!("s")), "write the schema into output_schema"),
        (worker("output_path", json!("steps.x")), "steps.a.output_path: `steps` is a member of every run"),
        (worker("output_path", json!("a..b")), "steps.a.output_path: use 1 to 8 names between dots"),
        (worker("result_data_path", json!(".")), "steps.a.result_data_path: use names with dots"),
        (worker("route_labels", json!({"zone": "${input.zone}"})), "labels to route by are no templates"),
        (worker("route_labels", json!({"node.kind": "a b"})), "steps.a.route_labels: tag"),
        (worker("route_labels", many.clone()), "steps.a.meta.labels: use at most 50 labels"),
        (worker("policy_gate", json!("maybe")), "unknown variant `maybe`"),
        (worker("meta", json!({"actor_type": "robot"})), "unknown variant `robot`"),
        (
            steps(&json!({"a": {"type": "delay", "delay_sec": 1, "worker_id": "w"}})),
            "steps.a.worker_id: a delay step",
        ),
        (
            with("policy_override", json!("rules: []")),
            "policy_override: a workflow has no policy of its own here",
        ),
        (with("version", json!([1])), "use a text or a number"),
        (with("team_id", json!(long)), "team_id: use at most 256"),
        (with("labels", many), "labels: use at most 50 labels"),
        (with("org_id", json!("a b")), "tenant"),
    ]);
}

#[test]
fn labels_to_route_by_are_labels_and_requirements() {
    let (_, workflow) = compiled(&steps(&json!({"a": {
        "type": "worker", "worker_id": "coder", "meta": {"labels": {"team": "red"}, "requires": ["gpu"]},
        "route_labels": {"placement.region": "eu", "preferred_pool": "large"},
    }})));
    let meta = &workflow.steps.values().next().unwrap().meta;
    let requires: Vec<&str> = meta.requires.iter().map(crate::Tag::as_str).collect();
    assert_eq!(requires, ["gpu", "placement.region:eu"]);
    let labels: Vec<(&str, &str)> =
        meta.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [("placement.region", "eu"), ("preferred_pool", "large"), ("team", "red"), ("worker_id", "coder")]
    );
}
