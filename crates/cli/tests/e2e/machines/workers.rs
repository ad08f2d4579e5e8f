//! Every replica and the snapshot in Redis list the same workers on HTTP and NATS.

use std::process::Command;

use interlock_poll::until;
use serde_json::{Value, json};

use super::Machines;
use super::nats_workers::{SCRIPTED, TOPIC, announce};
use crate::server::{BINARY, Caller};

/// What `interlock workers …` prints.
fn workers(base: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(BINARY);
    command.args(["--gateway", base, "--tenant", "acme", "--json", "workers"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn names(caller: &Caller) -> Vec<(String, String)> {
    let listed = caller.get("/workers").await.expect(200).body;
    let listed = listed["items"].as_array().unwrap().clone();
    listed.iter().map(|it| (it["worker_id"].to_string(), it["edge"].to_string())).collect()
}

async fn snapshot(machines: &Machines) -> Option<Value> {
    let text = machines.redis.command(&["GET", "sys:workers:snapshot"]).await.ok()?;
    serde_json::from_str(&text).ok()
}

#[tokio::test]
async fn every_replica_lists_workers_on_http_and_nats_and_the_snapshot_outlives_its_writer() {
    let mut machines = Machines::start_with(2, &["--snapshot-ms", "500"]).await;
    let callers = machines.callers("acme");
    let client = async_nats::connect(machines.nats.url()).await.unwrap();
    announce(&client).await;
    callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "http"}})).await;
    let claim = json!({"topics": ["http"], "capabilities": ["gpu"]});
    callers[0].post("/workers/over-http/claim", claim).await.expect(200);
    until("the worker on NATS is listed", async || names(&callers[1]).await.len() == 2).await;
    let expected = [("\"scripted\"", "\"nats\""), ("\"over-http\"", "\"http\"")];
    for caller in &callers {
        let found = names(caller).await;
        let found: Vec<_> = found.iter().map(|(name, edge)| (name.as_str(), edge.as_str())).collect();
        assert_eq!(found, expected);
    }
    let shown = callers[1].get(&format!("/workers/{SCRIPTED}")).await.expect(200).body;
    assert_eq!((&shown["online"], &shown["topics"]), (&json!(true), &json!([TOPIC])));

    until("the snapshot has both", async || {
        snapshot(&machines).await.is_some_and(|found| found["workers"].as_array().unwrap().len() == 2)
    })
    .await;
    let found = snapshot(&machines).await.unwrap();
    assert_eq!(found["topics"][TOPIC]["available"], 4);
    assert_eq!(found["topics"]["http"]["workers"], 1);
    // The writer dies, and the other replica takes over.
    let mut instances = Vec::new();
    for caller in &callers {
        instances.push(caller.get("/status").await.expect(200).body["instance_id"].clone());
    }
    let writer = instances.iter().position(|instance| *instance == found["writer"]).unwrap();
    machines.replicas.remove(writer).kill();
    let other = &instances[1 - writer];
    until("the other replica writes the snapshot", async || {
        snapshot(&machines).await.unwrap()["writer"] == *other
    })
    .await;
}

#[tokio::test]
async fn a_drained_worker_gets_no_job_from_any_replica_until_the_drain_is_undone() {
    let machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "http"}})).await;
    let claim = |wait_ms: u64| json!({"topics": ["http"], "wait_ms": wait_ms});
    callers[0].post("/workers/w1/claim", claim(0)).await.expect(200);
    let drained = workers(&machines.replicas[1].base, &["drain", "w1"]);
    assert_eq!(drained["draining"], true);
    let run = callers[0].start("job", None, &json!({})).await.expect(200).text("run_id");
    for caller in &callers {
        assert_eq!(caller.post("/workers/w1/claim", claim(0)).await.expect(200).body, json!({"jobs": []}));
    }
    let job = callers[1].get(&format!("/jobs/{run}:work@1")).await.expect(200).body;
    assert_eq!(job["waiting_for"]["reason"], "draining");
    assert_eq!((&job["waiting_for"]["position"], &job["waiting_for"]["workers"]), (&json!(0), &json!(0)));
    let waiting = async { callers[0].post("/workers/w1/claim", claim(20_000)).await.expect(200).body };
    let undone = async {
        let base = machines.replicas[1].base.clone();
        tokio::task::spawn_blocking(move || workers(&base, &["drain", "w1", "--undo"])).await.unwrap()
    };
    let (claimed, undone) = tokio::join!(waiting, undone);
    assert_eq!(undone["draining"], false);
    assert_eq!(claimed["jobs"][0]["run_id"], json!(run));
    let running = callers[1].get(&format!("/jobs/{run}:work@1")).await.expect(200).body;
    assert_eq!((&running["state"], running.get("waiting_for")), (&json!("running"), None));
}
