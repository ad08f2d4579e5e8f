//! What people see of their runs: in the order of the graph, with reasons, at any width, in colours on a terminal.

use std::process::Command;

use interlock_poll::until;
use serde_json::{Value, json};

use super::commands::Shell;
use super::server::{BINARY, Server};

/// What a command prints on a terminal of this width.
fn on_a_terminal(server: &Server, columns: u32, environment: &str, arguments: &str) -> String {
    let line = format!(
        "stty cols {columns} rows 40; {environment} {BINARY} --gateway {} --tenant acme {arguments}",
        server.base
    );
    let output = Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").output();
    let output = output.expect("script runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The first words of lines.
fn order(table: &str) -> Vec<&str> {
    table.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

#[tokio::test]
async fn steps_come_in_the_order_of_the_graph_and_say_what_they_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    let caller = server.caller("acme");
    caller
        .workflow(
            "order",
            json!({
                "zeta": {"type": "worker", "topic": "first"},
                "mid": {"type": "worker", "topic": "items", "for_each": "[1, 2, 3]", "depends_on": ["zeta"]},
                "alpha": {"type": "approval", "depends_on": ["mid"]},
            }),
        )
        .await;
    let run = shell.print(&["run", "start", "order"]);
    let shown = shell.print(&["run", "get", &run]);
    let steps = order(shown.split_once("STEP").unwrap().1);
    assert_eq!(steps[1..], ["zeta", "mid", "alpha"], "{shown}");
    let queued = shown.lines().find(|line| line.starts_with("zeta")).unwrap();
    assert!(queued.contains(" queued ") && queued.contains("topic `first`"), "{shown}");
    assert_eq!(shell.json(&["run", "get", &run])["step_order"], json!(["zeta", "mid", "alpha"]));

    let job = caller.claim("w1", "first", 1).await.remove(0);
    let worked_on = shell.print(&["run", "get", &run]);
    assert!(worked_on.contains("worker w1 works on"), "{worked_on}");
    let finish = async |job: &Value| {
        let path = format!("/jobs/{}/complete", job["job_id"].as_str().unwrap());
        caller.post(&path, json!({"fence": job["fence"], "output": {}})).await.expect(200);
    };
    finish(&job).await;
    let item = caller.claim("w1", "items", 1).await.remove(0);
    finish(&item).await;
    let taken = caller.claim("w1", "items", 1).await.remove(0);
    until("one item is done, one in progress, one queued", async || {
        let shown = shell.print(&["run", "get", &run]);
        shown.contains("1/3 done, 1 running, 1 queued")
    })
    .await;
    finish(&taken).await;
    finish(&caller.claim("w1", "items", 1).await.remove(0)).await;
    caller.when(&run, |run| run["status"] == "waiting").await;
    assert!(shell.print(&["run", "get", &run]).contains("3/3 done"));
    assert_eq!(shell.print(&["approval", "job", &run, "--approve"]), format!("{run}:alpha@1"));
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}

#[tokio::test]
async fn what_does_not_apply_is_said_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    let caller = server.caller("acme");
    let gate = json!({"type": "approval"});
    caller.workflow("two", json!({"a": gate, "b": gate})).await;
    let run = shell.print(&["run", "start", "two"]);
    caller.when(&run, |run| run["status"] == "waiting").await;
    let refused = shell.run(&["approval", "job", &run, "--approve"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("2 open approvals") && said.contains(&format!("{run}:b@1")), "{said}");
    shell.print(&["run", "cancel", &run]);
    let again = shell.run(&["run", "cancel", &run]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert_eq!((again.status.code(), said.contains("is cancelled already")), (Some(1), true), "{said}");
    caller.post(&format!("/workflow-runs/{run}/cancel"), Value::Null).await.expect(204);
    let none = shell.run(&["approval", "job", &run, "--approve"]);
    let said = String::from_utf8(none.stderr).unwrap();
    assert_eq!((none.status.code(), said.contains("no open approval")), (Some(1), true), "{said}");
}

#[tokio::test]
async fn a_watch_without_a_terminal_says_percent_and_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    let caller = server.caller("acme");
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0.1});
    caller.workflow("tries", json!({"a": {"type": "worker", "topic": "t", "retry": retry}})).await;
    let run = shell.print(&["run", "start", "tries"]);
    let job = caller.claim("w1", "t", 1).await.remove(0);
    let call = async |job: &Value, verb: &str, mut body: Value| {
        body["fence"] = job["fence"].clone();
        caller.post(&format!("/jobs/{}/{verb}", job["job_id"].as_str().unwrap()), body).await.expect(200);
    };
    call(&job, "progress", json!({"percent": 40, "message": "halfway"})).await;
    call(&job, "fail", json!({"error": "boom", "retryable": true})).await;
    let job = caller.claim("w1", "t", 1).await.remove(0);
    call(&job, "complete", json!({"output": {}})).await;
    let watched = shell.print(&["run", "watch", &run]);
    for part in ["40%  halfway", "boom  next attempt at ", "step dispatched  a  attempt 2"] {
        assert!(watched.contains(part), "{part} in {watched}");
    }
    assert!(!watched.contains('\u{1b}'), "no colour into a pipe: {watched}");
}

#[tokio::test]
async fn ids_are_whole_on_a_terminal_of_any_width_and_colours_can_be_declined() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    let caller = server.caller("acme");
    caller.workflow("gate", json!({"gate": {"type": "approval"}})).await;
    let run = shell.print(&["run", "start", "gate"]);
    caller.when(&run, |run| run["status"] == "waiting").await;
    let job = format!("{run}:gate@1");
    for columns in [0, 1, 20, 80, 200] {
        let runs = on_a_terminal(&server, columns, "", "run list");
        assert!(runs.contains(&run), "{columns}: {runs}");
        assert!(runs.contains("\u{1b}["), "the status has a colour: {runs:?}");
        let approvals = on_a_terminal(&server, columns, "", "approval list");
        assert!(approvals.contains(&job), "{columns}: {approvals}");
        let steps = on_a_terminal(&server, columns, "NO_COLOR=1", &format!("run get {run}"));
        assert!(steps.contains(&run) && !steps.contains('\u{1b}'), "{columns}: {steps:?}");
    }
    assert!(!shell.print(&["run", "list"]).contains('\u{1b}'), "never into a pipe");
}
