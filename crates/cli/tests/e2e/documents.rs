//! Workflow documents as people write them: YAML and JSON, checked and drawn without a server, with lines in errors.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::commands::Shell;
use super::server::{BINARY, Server};

const BUILD: &str = "\
id: build
name: Build
# What several steps have in common.
steps:
  compile: &job
    type: worker
    topic: build
    retry: {max_retries: 2}
  lint: *job
  ship:
    type: switch
    depends_on: [compile, lint]
    condition: input.stage
    input:
      cases: {production: ask, test: report}
      default: report
  ask: {type: approval, on_error: tell}
  tell: {type: notify, input: {message: denied}}
  report: {type: transform, input: {text: \"built ${input.stage}\"}}
";

fn file(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Runs the binary where no server is.
fn alone(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("INTERLOCK_GATEWAY", "http://127.0.0.1:1");
    command.output().expect("the binary runs")
}

fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[tokio::test]
async fn a_workflow_in_yaml_is_saved_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    let yaml = file(folder.path(), "build.yaml", BUILD);
    assert_eq!(shell.print(&["workflow", "create", "--file", &yaml]), "build");
    let saved = shell.json(&["workflow", "get", "build"]);
    assert_eq!(saved["steps"]["lint"], saved["steps"]["compile"], "an alias stands for what it names");
    let run = shell.print(&["run", "start", "build", "--input", r#"{"stage": "test"}"#]);
    let caller = server.caller("acme");
    for _job_of_a_step in ["compile", "lint"] {
        for job in caller.claim("w", "build", 1).await {
            let body = json!({"fence": job["fence"], "output": {}});
            let path = format!("/jobs/{}/complete", job["job_id"].as_str().unwrap());
            caller.post(&path, body).await.expect(200);
        }
    }
    assert_eq!(caller.ended(&run).await["steps"]["report"]["output"], json!({"text": "built test"}));
}

#[tokio::test]
async fn an_error_of_the_server_names_the_line_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    for (wrong, expected) in [
        (
            BUILD.replace("topic:", "topci:"),
            "steps.compile: unknown field `topci`; did you mean `topic`? (line 7)",
        ),
        (
            BUILD.replace("test: report", "test: repotr"),
            "steps.ship.input.cases.test: step repotr does not exist; did you mean `report`? (line 15)",
        ),
        (BUILD.replace("input.stage\n", "input.stage ==\n"), "steps.ship.condition: "),
    ] {
        let refused = shell.run(&["workflow", "create", "--file", &file(folder.path(), "w.yaml", &wrong)]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(printed(&refused).contains(expected), "{}\n  expected: {expected}", printed(&refused));
        let checked = alone(&["workflow", "validate", "--file", &file(folder.path(), "w.yaml", &wrong)]);
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        assert!(printed(&checked).contains(expected), "the same without a server: {}", printed(&checked));
    }
    assert!(shell.json(&["workflow", "list"])["items"].as_array().unwrap().is_empty());
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = file(folder.path(), "build.yaml", BUILD);
    let checked = alone(&["workflow", "validate", "--file", &yaml]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(printed(&checked).ends_with("is valid: workflow build, 6 steps\n"), "{}", printed(&checked));
    let json = |text: &str| {
        let checked =
            alone(&["workflow", "validate", "--file", &file(folder.path(), "w.json", text), "--json"]);
        (checked.status.code(), serde_json::from_slice::<Value>(&checked.stdout).unwrap())
    };
    let valid = r#"{"name": "w", "steps": {"a": {"type": "worker"}}}"#;
    assert_eq!(json(valid), (Some(0), json!({"valid": true, "id": null, "steps": 1})));
    let found = json!({"valid": false, "place": "steps.a.type", "line": 1,
        "problem": "unknown variant `wroker`; did you mean `worker`?"});
    assert_eq!(json(&valid.replace("worker", "wroker")), (Some(1), found));
    let broken = alone(&["workflow", "validate", "--file", &file(folder.path(), "b.yaml", "a: [1\n")]);
    assert_eq!(broken.status.code(), Some(2), "what is no document is wrong usage: {broken:?}");
    let large = format!("name: w # {}\n", "x".repeat(2 << 20));
    let large = alone(&["workflow", "validate", "--file", &file(folder.path(), "large.yaml", &large)]);
    assert!(printed(&large).contains("larger than the server's maximum of 2097152 bytes"), "{large:?}");
}

#[tokio::test]
async fn a_workflow_is_drawn_from_a_file_and_from_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = file(folder.path(), "build.yaml", BUILD);
    let drawn = alone(&["workflow", "graph", "--file", &yaml]);
    assert!(drawn.status.success(), "{drawn:?}");
    let mermaid = String::from_utf8(drawn.stdout).unwrap();
    assert!(mermaid.starts_with("flowchart TD\n"), "{mermaid}");
    for part in ["{\"ship<br/>switch<br/>if input.stage\"}", "-->|\"production\"|", "-.->|\"on error\"|"] {
        assert!(mermaid.contains(part), "{part} in {mermaid}");
    }
    let dot = alone(&["workflow", "graph", "--file", &yaml, "--format", "dot"]);
    assert!(printed(&dot).starts_with("digraph workflow {\n"), "{dot:?}");
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    shell.print(&["workflow", "create", "--file", &yaml]);
    assert_eq!(shell.print(&["workflow", "graph", "build"]), mermaid.trim(), "the same from the server");
    let edges = shell.json(&["workflow", "graph", "build"])["edges"].clone();
    assert!(
        edges
            .as_array()
            .unwrap()
            .contains(&json!({"from": "ship", "to": "ask", "way": "case", "case": "production"}))
    );
}
