//! `interlock why` names the cause of each kind of wait, on one machine and on many.

use std::path::Path;
use std::process::Command;

use interlock_poll::until;
use serde_json::{Value, json};

use super::machines::Machines;
use super::server::{BINARY, Caller, Server};

/// Configures an unreachable policy service, for which only one tenant waits.
fn configured(folder: &Path) -> String {
    let policy = "[dispatch_policy.service]\nurl = \"http://127.0.0.1:9/\"\ntimeout_ms = 500\nfailures_max = 1\n\
                  pause_ms = 60000\nfailure = \"closed\"\n[dispatch_policy.service.tenants]\n";
    let open = ["acme", "capped"].map(|tenant| format!("{tenant} = \"open\"\n")).concat();
    let file = folder.join("interlock.toml");
    std::fs::write(&file, format!("poll_ms = 100\n{policy}{open}")).unwrap();
    file.display().to_string()
}

/// What the command prints, as JSON and as text.
fn why(server: &Server, tenant: &str, subject: &[&str]) -> (Value, String) {
    let ask = |more: &[&str]| {
        let flags = ["--gateway", &server.base, "--tenant", tenant, "why"];
        let output = Command::new(BINARY).args(flags).args(subject).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (serde_json::from_str(&ask(&["--json"])).unwrap(), ask(&[]))
}

/// The cause with this code, once the JSON and the text have it.
async fn because(server: &Server, tenant: &str, subject: &[&str], code: &str) -> Value {
    until(&format!("{subject:?} waits because of {code}"), async || {
        let (answer, text) = why(server, tenant, subject);
        let causes = answer["causes"].as_array().unwrap();
        let cause = causes.iter().find(|cause| cause["code"] == code).filter(|_| text.contains(code));
        cause.cloned().ok_or(text)
    })
    .await
}

async fn started(caller: &Caller, workflow: &str) -> String {
    caller.start(workflow, None, &json!({})).await.expect(200).text("run_id")
}

async fn each_cause_is_named(server: &Server) {
    let caller = server.caller("acme");
    let retry =
        json!({"max_retries": 1, "initial_backoff_sec": 600, "multiplier": 1, "max_backoff_sec": 600});
    for (id, step) in [
        ("unserved", json!({"type": "worker", "topic": "unserved"})),
        ("busy", json!({"type": "worker", "topic": "busy"})),
        ("flaky", json!({"type": "worker", "topic": "flaky", "retry": retry})),
        ("ask", json!({"type": "approval"})),
        ("pause", json!({"type": "delay", "delay_sec": 600})),
    ] {
        caller.workflow(id, json!({"step": step})).await;
    }
    let run = started(&caller, "unserved").await;
    because(server, "acme", &[&run], "no_worker").await;

    let taken = started(&caller, "busy").await;
    let claim = json!({"topics": ["busy"], "max_jobs": 1, "wait_ms": 20_000, "lease_ms": 600_000});
    caller.post("/workers/worker-1/claim", claim).await.expect(200);
    let working = because(server, "acme", &[&format!("{taken}:step@1")], "working").await;
    assert_eq!(working["holders"][0]["name"], "worker-1");
    let next = started(&caller, "busy").await;
    let last = started(&caller, "busy").await;
    let saturated = because(server, "acme", &[&next], "worker_saturated").await;
    assert_eq!(saturated["position"], 1);
    let queued = because(server, "acme", &[&format!("{last}:step@1")], "queue").await;
    assert_eq!(queued["position"], 2);

    let run = started(&caller, "ask").await;
    because(server, "acme", &[&run], "approval_open").await;
    let run = started(&caller, "pause").await;
    let delay = because(server, "acme", &[&run], "delay").await;
    assert!(delay["expected_wait_ms"].as_u64().unwrap() > 500_000, "{delay}");
    let run = started(&caller, "flaky").await;
    let job = caller.claim("worker-2", "flaky", 1).await.remove(0);
    let path = format!("/jobs/{}/fail", job["job_id"].as_str().unwrap());
    let failure = json!({"fence": job["fence"], "error": "out of luck", "retryable": true});
    caller.post(&path, failure).await.expect(200);
    let retry = because(server, "acme", &[&run], "retry_backoff").await;
    assert!(retry["detail"].as_str().unwrap().contains("out of luck"), "{retry}");

    let ask = json!({"resource": "doc/1", "owner": "ann", "mode": "exclusive", "ttl_ms": 600_000});
    caller.post("/locks/acquire", ask).await.expect(200);
    let held = because(server, "acme", &["doc/1"], "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "ann");

    let capped = server.caller("capped");
    capped.workflow("ask", json!({"step": {"type": "approval"}})).await;
    capped.limit(1).await;
    let holder = started(&capped, "ask").await;
    let full = because(server, "capped", &["--workflow", "ask"], "cap_full").await;
    assert_eq!(full["holders"][0]["name"], json!(holder));

    let closed = server.caller("closed");
    closed.workflow("work", json!({"step": {"type": "worker", "topic": "work"}})).await;
    let run = started(&closed, "work").await;
    let policy = because(server, "closed", &[&run], "policy_unavailable").await;
    assert!(policy["since"].is_string(), "{policy}");
}

#[tokio::test]
async fn each_cause_is_named_on_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let config = configured(folder.path());
    let server = Server::start_with(&folder.path().join("data"), &["--config", &config]);
    each_cause_is_named(&server).await;
}

#[tokio::test]
async fn each_cause_is_named_on_many() {
    let folder = tempfile::tempdir().unwrap();
    let config = configured(folder.path());
    let machines = Machines::start_with(2, &["--config", &config]).await;
    each_cause_is_named(&machines.replicas[1]).await;
    // A foreign value in the lock of a run.
    let caller = machines.replicas[0].caller("acme");
    let run = started(&caller, "ask").await;
    because(&machines.replicas[0], "acme", &[&run], "approval_open").await;
    let lock = format!("cordum:wf:run:lock:{run}");
    machines.redis.command(&["SET", &lock, "an operator's hand"]).await.unwrap();
    let held = because(&machines.replicas[0], "acme", &[&run], "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "a value that is not ours");
}

#[tokio::test]
async fn a_step_that_times_out_says_what_it_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let step = json!({"type": "worker", "topic": "unserved", "queue_timeout_sec": 0.2});
    caller.workflow("wait", json!({"step": step})).await;
    let run = started(&caller, "wait").await;
    let ended = caller.ended(&run).await;
    let message = ended["steps"]["step"]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the step timed out"), "{message}");
    assert!(message.contains("no online worker serves topic `unserved`"), "{message}");
}
