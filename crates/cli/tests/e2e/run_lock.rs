//! Results under the lock of their run, on one machine.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::server::{Caller, Server};

const ITEMS: usize = 30;

/// Reports many results of one run at once and asserts that each is recorded once.
pub(crate) async fn fan_in(callers: &[Caller]) {
    let first = &callers[0];
    let each = json!({"type": "worker", "topic": "work", "for_each": "input.items"});
    first.workflow("fan", json!({"each": each})).await;
    let input = json!({"items": (0..ITEMS).collect::<Vec<_>>()});
    let run = first.start("fan", None, &input).await.expect(200).text("run_id");
    let mut jobs = Vec::new();
    while jobs.len() < ITEMS {
        jobs.extend(first.claim("w", "work", 100).await);
    }
    let reports = jobs.iter().enumerate().map(|(number, job)| {
        let caller = &callers[number % callers.len()];
        async move { caller.complete(job, &job["job_id"]).await.expect(200) }
    });
    join_all(reports).await;
    let ended = first.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let children = &ended["steps"]["each"]["children"];
    let children: Vec<&Value> = children.as_object().unwrap().values().collect();
    assert_eq!(children.len(), ITEMS);
    assert!(
        children.iter().all(|child| child["attempts"] == 1 && child["output"] == child["job_id"]),
        "{ended}"
    );
    assert_eq!(first.get("/dlq").await.expect(200).body["items"], json!([]));
}

#[tokio::test]
async fn results_at_once_are_each_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["--run-strategy", "lock", "--lock-busy-max-wait-ms", "0", "--lock-busy-retry", "fixed:20ms"];
    let server = Server::start_with(folder.path(), &arguments);
    fan_in(&[server.caller("acme")]).await;
}
