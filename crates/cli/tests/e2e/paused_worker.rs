//! A worker is paused past its lease: another worker completes its job, and its late writes are refused.

use std::process::{Child, Command, Stdio};

use interlock_poll::until_matches;
use serde_json::json;

use super::server::{Answer, BINARY, Caller, Server, signal};

/// A worker process, ended with its guard.
struct Worker(Child);

impl Worker {
    fn start(server: &Server, id: &str, script: &str) -> Self {
        let child = Command::new(BINARY)
            .args(["--gateway", &server.base, "--tenant", "acme", "worker", "run", "--topic", "work"])
            .args(["--id", id, "--lease-ms", "1000", "--", "sh", "-c", script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("the worker runs"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn rejections(server: &Server) -> u64 {
    let text = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    let lines = text.lines().filter(|line| line.starts_with("fence_rejections_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

async fn job_when(caller: &Caller, job: &str, state: &str) -> serde_json::Value {
    let path = format!("/jobs/{job}");
    let is_in_state = |found: &Answer| found.status == 200 && found.body["state"] == json!(state);
    until_matches(&format!("{job} is {state}"), async || caller.get(&path).await, is_in_state).await.body
}

#[tokio::test]
async fn late_writes_of_a_worker_that_was_paused_past_its_lease_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("go-on");
    let server = Server::start(&folder.path().join("data"));
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let first_job = format!("{run}:work@1");

    let slow = format!("while [ ! -e '{}' ]; do sleep 0.05; done; echo '\"first\"'", flag.display());
    let first = Worker::start(&server, "first", &slow);
    let held = job_when(&caller, &first_job, "running").await;
    assert_eq!(held["worker_id"], "first");
    signal(first.0.id(), "STOP");
    let _second = Worker::start(&server, "second", "echo '\"second\"'");
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({"work": "second"})));
    assert_eq!(ended["steps"]["work"]["job_id"], json!(format!("{run}:work@2")));

    // The first worker continues. Every call with its fence is refused.
    std::fs::write(&flag, "").unwrap();
    signal(first.0.id(), "CONT");
    let before = rejections(&server).await;
    let fence = held["fence"].as_u64().unwrap();
    for (call, body) in [
        ("heartbeat", json!({"fence": fence})),
        ("progress", json!({"fence": fence, "percent": 50, "message": "late"})),
        ("complete", json!({"fence": fence, "output": "first"})),
        ("fail", json!({"fence": fence, "error": "late", "retryable": true})),
    ] {
        let refused = caller.post(&format!("/jobs/{first_job}/{call}"), body).await.expect(409);
        assert_eq!(
            (refused.text("code"), refused.number("held")),
            ("stale_fence".to_owned(), fence),
            "{call}"
        );
        assert!(refused.number("current") > fence);
    }
    assert!(rejections(&server).await >= before + 4, "refusals are not counted");
    // The first worker gives up its job and claims the next one.
    let next = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(caller.ended(&next).await["status"], "succeeded");
    assert_eq!(caller.run(&run).await["output"], json!({"work": "second"}));
}
