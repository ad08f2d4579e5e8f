//! Results under the lock of their run, whose workers hang up before they are answered.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use interlock_poll::until;
use serde_json::{Value, json};

use super::Machines;
use crate::server::{Caller, signal};

const RESULTS: usize = 40;

const ARGUMENTS: [&str; 8] = [
    "--run-strategy",
    "lock",
    "--lock-busy-max-wait-ms",
    "20000",
    "--lock-busy-retry",
    "fixed:20ms",
    "--shutdown-grace-ms",
    "20000",
];

/// Sends a result and does not wait for the answer.
fn send_result(caller: &Caller, job: &Value) -> TcpStream {
    let address = caller.base.strip_prefix("http://").unwrap();
    let body = json!({"fence": job["fence"], "output": job["job_id"]}).to_string();
    let head = format!(
        "POST /api/v1/jobs/{}/complete HTTP/1.1\r\nhost: {address}\r\nx-tenant-id: {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        job["job_id"].as_str().unwrap(),
        caller.tenant,
        body.len(),
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
    stream
}

/// How often results have found their run busy.
async fn retries(caller: &Caller) -> u64 {
    let text = reqwest::get(format!("{}/metrics", caller.base)).await.unwrap().text().await.unwrap();
    let counts = text.lines().filter(|line| line.starts_with("lock_busy_retry_count"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn a_shutdown_loses_no_result_whose_worker_hung_up() {
    let mut machines = Machines::start_with(1, &ARGUMENTS).await;
    let server = machines.replicas.remove(0);
    let caller = server.caller("acme");
    let each = json!({"type": "worker", "topic": "work", "for_each": "input.items"});
    caller.workflow("fan", json!({"each": each})).await;
    let input = json!({"items": (0..RESULTS).collect::<Vec<_>>()});
    let run = caller.start("fan", None, &input).await.expect(200).text("run_id");
    let mut jobs = Vec::new();
    let claim = json!({"topics": ["work"], "max_jobs": 100, "wait_ms": 1_000, "lease_ms": 600_000});
    while jobs.len() < RESULTS {
        let claimed = caller.post("/workers/w/claim", claim.clone()).await.expect(200);
        jobs.extend(claimed.body["jobs"].as_array().unwrap().clone());
    }

    // Another client holds the run, so that its results wait in the server.
    let lock = format!("cordum:wf:run:lock:{run}");
    machines.redis.command(&["SET", &lock, "another client"]).await.unwrap();
    let sent: Vec<TcpStream> = jobs.iter().map(|job| send_result(&caller, job)).collect();
    // Ten tries of each: by then the server has read them all.
    until("all results wait", async || retries(&caller).await >= 10 * RESULTS as u64).await;
    drop(sent);
    signal(server.pid(), "TERM");
    until("the server stops to accept", async || {
        reqwest::get(format!("{}/healthz", caller.base)).await.is_err()
    })
    .await;
    machines.redis.command(&["DEL", &lock]).await.unwrap();
    let stopped = tokio::task::spawn_blocking(move || server.wait());
    assert_eq!(tokio::time::timeout(Duration::from_mins(1), stopped).await.unwrap().unwrap(), Some(0));

    let machines = machines.with_replicas(1, &ARGUMENTS);
    let caller = machines.callers("acme").remove(0);
    let ended = caller.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let children = ended["steps"]["each"]["children"].as_object().unwrap();
    assert_eq!(children.len(), RESULTS);
    let is_whole = |child: &Value| child["attempts"] == 1 && child["output"] == child["job_id"];
    assert!(children.values().all(is_whole), "{ended}");
}
