//! The output and the exit codes of commands.

use std::process::{Command, Output};

use interlock_poll::until;
use serde_json::{Value, json};

use super::dead_letters::{bury, embedded_store};
use super::secrets;
use super::server::{BINARY, Server};

pub(super) struct Shell<'a> {
    pub(super) server: &'a Server,
    pub(super) tenant: &'static str,
}

impl Shell<'_> {
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(["--gateway", &self.server.base, "--tenant", self.tenant]).args(arguments);
        command.output().expect("the binary runs")
    }

    /// What it prints. Asserts that it succeeds.
    pub(super) fn print(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.print(&[arguments, &["--json"]].concat());
        let printed = serde_json::from_str(&text);
        let printed = printed.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        secrets::record_key_of(&printed);
        printed
    }

    pub(super) fn exit(&self, arguments: &[&str]) -> Option<i32> {
        self.run(arguments).status.code()
    }
}

fn workflow_file(folder: &std::path::Path) -> String {
    let file = folder.join("workflow.json");
    let gate = json!({"type": "approval"});
    let document = json!({"id": "job", "name": "job", "steps": {"gate": gate}});
    std::fs::write(&file, document.to_string()).unwrap();
    file.display().to_string()
}

#[tokio::test]
async fn a_workflow_is_created_started_approved_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    assert_eq!(shell.print(&["workflow", "create", "--file", &workflow_file(folder.path())]), "job");
    assert!(shell.print(&["workflow", "list"]).contains("job"));
    assert_eq!(shell.json(&["workflow", "get", "job"])["id"], "job");
    let run = shell.print(&["run", "start", "job", "--input", r#"{"n": 1}"#, "--idempotency-key", "k"]);
    assert_eq!(shell.print(&["run", "start", "job", "--input", r#"{"n":1}"#, "--idempotency-key", "k"]), run);
    let caller = server.caller("acme");
    caller.when(&run, |run| run["status"] == "waiting").await;
    assert_eq!(shell.json(&["run", "list"])["items"][0]["id"], json!(run));
    let job = format!("{run}:gate@1");
    shell.print(&["approval", "job", &job, "--approve"]);
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
    assert_eq!(shell.exit(&["run", "watch", &run]), Some(0));
    assert!(shell.print(&["run", "timeline", &run]).contains("step_approved"));
    let again = shell.print(&["run", "rerun", &run]);
    shell.print(&["run", "cancel", &again]);
    assert_eq!(caller.run(&again).await["status"], "cancelled");
    assert_eq!(shell.exit(&["run", "watch", &again]), Some(1));
    shell.print(&["run", "delete", &run]);
    shell.print(&["workflow", "delete", "job"]);
    assert_eq!(shell.exit(&["workflow", "get", "job"]), Some(1));
}

#[tokio::test]
async fn a_start_that_waits_prints_the_output_and_exits_by_the_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    let file = folder.path().join("doubled.json");
    let steps = json!({"double": {"type": "transform", "input": {"n": "${input.n * 2}"}}});
    std::fs::write(&file, json!({"id": "doubled", "name": "doubled", "steps": steps}).to_string()).unwrap();
    shell.print(&["workflow", "create", "--file", &file.display().to_string()]);
    let printed = shell.print(&["run", "start", "doubled", "--input", r#"{"n": 21}"#, "--wait"]);
    let output: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(output, json!({"double": {"n": 42}}));
    let run = shell.json(&["run", "start", "doubled", "--input", r#"{"n": 1}"#, "--wait=60"]);
    assert_eq!((&run["status"], &run["output"]["double"]["n"]), (&json!("succeeded"), &json!(2)));
    assert_eq!(shell.exit(&["run", "start", "doubled", "--input", "{}", "--wait"]), Some(1));
    shell.print(&["workflow", "create", "--file", &workflow_file(folder.path())]);
    assert_eq!(shell.exit(&["run", "start", "job", "--wait=0"]), Some(3), "it waits for its approval");
    assert_eq!(shell.exit(&["run", "start", "job", "--wait=soon"]), Some(2));
}

#[tokio::test]
async fn a_dead_letter_is_listed_shown_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let job = "0192f0c1-0000-7000-8000-000000000001:build[3]@10";
    bury(&embedded_store(folder.path()), "acme", job).await;
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    let table = shell.print(&["dlq", "list"]);
    assert!(table.contains(job) && table.contains("worker_lost"), "{table}");
    assert_eq!(shell.json(&["dlq", "list"])["items"][0]["attempts"], 10);
    assert!(shell.print(&["dlq", "show", job]).contains("10 dispatches lost their worker"));
    assert_eq!(shell.json(&["dlq", "show", job])["job_id"], job);
    assert_eq!(Shell { server: &server, tenant: "globex" }.exit(&["dlq", "show", job]), Some(1));
    assert_eq!(shell.json(&["dlq", "delete", job]), json!({"job_id": job, "deleted": true}));
    assert_eq!(shell.exit(&["dlq", "delete", job]), Some(1));
    assert_eq!(shell.exit(&["dlq", "show", job]), Some(1));
    assert_eq!(shell.json(&["dlq", "list"])["items"], json!([]));
    assert_eq!(shell.exit(&["dlq", "show"]), Some(2));
}

#[tokio::test]
async fn dead_letters_are_retried_and_deleted_by_filter_after_a_dry_run() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [1, 2].map(|run| format!("0192f0c1-0000-7000-8000-00000000000{run}:build@10"));
    for job in &jobs {
        bury(&embedded_store(folder.path()), "acme", job).await;
    }
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "acme" };
    // Their runs do not exist.
    assert!(shell.print(&["dlq", "show", &jobs[0]]).contains("start another"));
    assert_eq!(shell.exit(&["dlq", "retry", &jobs[0]]), Some(1));
    assert_eq!(shell.exit(&["dlq", "retry", "--reason-code", "worker_lost"]), Some(1), "both were refused");
    let dry =
        shell.json(&["dlq", "delete", "--topic", "build", "--before", "2027-01-01T00:00:00Z", "--dry-run"]);
    assert_eq!((&dry["matched"], &dry["dry_run"]), (&json!(2), &json!(true)));
    let run = jobs[0].split(':').next().unwrap();
    let deleted = shell.json(&["dlq", "delete", "--run", run]);
    assert_eq!(deleted["done"], json!([jobs[0]]));
    let table = shell.print(&["dlq", "delete", "--all"]);
    assert!(table.contains(&jobs[1]) && table.contains("deleted"), "{table}");
    assert_eq!(shell.json(&["dlq", "list"])["items"], json!([]));
    for wrong in [&["dlq", "retry"][..], &["dlq", "retry", "--dry-run"], &["dlq", "delete", "j", "--all"]] {
        assert_eq!(shell.exit(wrong), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn refused_wrong_usage_and_unreachable_have_different_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let shell = Shell { server: &server, tenant: "acme" };
    assert_eq!(shell.exit(&["run", "start", "missing"]), Some(1));
    assert_eq!(shell.exit(&["run", "begin"]), Some(2));
    let unreachable =
        Command::new(BINARY).args(["--gateway", "http://127.0.0.1:1", "status"]).output().unwrap();
    assert_eq!(unreachable.status.code(), Some(3));
    assert!(unreachable.stdout.is_empty());
}

#[tokio::test]
async fn a_key_permits_what_its_role_permits() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Server::start_with(&folder.path().join("data"), &["--admin-key", "a-long-admin-key-of-a-test"]);
    let shell = Shell { server: &server, tenant: "acme" };
    assert_eq!(shell.exit(&["status"]), Some(1));
    let admin = ["--api-key", "a-long-admin-key-of-a-test"];
    let admin_says = |arguments: &[&str]| shell.json(&[&admin[..], arguments].concat());
    let file = workflow_file(folder.path());
    shell.print(&[&admin[..], &["workflow", "create", "--file", &file]].concat());
    let made = admin_says(&["keys", "create", "--name", "ci", "--role", "starter", "--for-tenant", "acme"]);
    let key = made["key"].as_str().expect("the key is shown once").to_owned();
    let starter = ["--api-key", key.as_str()];
    shell.print(&[&starter[..], &["run", "start", "job"]].concat());
    assert_eq!(shell.exit(&[&starter[..], &["workflow", "delete", "job"]].concat()), Some(1));
    let elsewhere = Shell { server: &server, tenant: "globex" };
    assert_eq!(elsewhere.exit(&[&starter[..], &["run", "list"]].concat()), Some(1));
    let listed = admin_says(&["keys", "list"]);
    assert!(!listed.to_string().contains(&key), "a secret is shown once");
    shell.print(&[&admin[..], &["keys", "revoke", made["id"].as_str().unwrap()]].concat());
    assert_eq!(shell.exit(&[&starter[..], &["run", "list"]].concat()), Some(1));
}

/// Whether `run list` is answered with this key.
fn is_accepted(shell: &Shell<'_>, key: &str) -> bool {
    shell.exit(&["--api-key", key, "run", "list"]) == Some(0)
}

#[tokio::test]
async fn a_rotated_key_works_beside_its_successor_for_the_overlap_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let admin = "the-admin-key-of-a-rotating-test";
    let server = Server::start_with(folder.path(), &["--admin-key", admin]);
    let shell = Shell { server: &server, tenant: "acme" };
    let admin_says = |arguments: &[&str]| shell.json(&[&["--api-key", admin], arguments].concat());
    let key_of = |made: &Value| made["key"].as_str().unwrap().to_owned();
    let flags = ["--role", "starter", "--for-tenant", "acme", "--workflows", "job,build-*"];
    let first = admin_says(&[&["keys", "create", "--name", "ci"], &flags[..]].concat());
    let second = admin_says(&["keys", "rotate", "ci", "--overlap", "1h"]);
    for member in ["name", "role", "tenant", "workflows"] {
        assert_eq!(second[member], first[member], "{member}");
    }
    assert_ne!(second["id"], first["id"]);
    assert!(is_accepted(&shell, &key_of(&first)) && is_accepted(&shell, &key_of(&second)));
    let listed = admin_says(&["keys", "list"]);
    let listed = listed["items"].as_array().unwrap();
    let old = listed.iter().find(|key| key["id"] == first["id"]).unwrap();
    assert_eq!(old["replaced_by"], second["id"], "{old}");
    assert!(old["expires_at"].is_string() && old["expired"] == false, "{old}");
    // By its name again, which now means the successor: of three, the last two work.
    let third = admin_says(&["keys", "rotate", "ci", "--overlap", "1s"]);
    assert!(!is_accepted(&shell, &key_of(&first)));
    until("the overlap has ended", async || !is_accepted(&shell, &key_of(&second))).await;
    assert!(is_accepted(&shell, &key_of(&third)));
    let again = shell.run(&["--api-key", admin, "keys", "rotate", second["id"].as_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "it was rotated before");
    assert_eq!(shell.exit(&["--api-key", admin, "keys", "rotate", "another"]), Some(2));
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(BINARY).args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 1_000, "{shell}");
    }
}
