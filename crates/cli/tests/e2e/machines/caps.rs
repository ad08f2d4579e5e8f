//! One cap over all replicas.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Machines;
use super::monitor::Monitor;
use crate::server::{Answer, Caller};

pub(super) async fn prepare(callers: &[Caller], cap: u32) {
    callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    callers[0].limit(cap).await;
}

/// This number of starts at once, spread over the replicas.
pub(super) async fn storm(callers: &[Caller], starts: usize, key: Option<&str>) -> Vec<Answer> {
    let input = json!({"n": 1});
    join_all((0..starts).map(|number| callers[number % callers.len()].start("job", key, &input))).await
}

pub(super) fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status.as_u16() == status).count()
}

#[tokio::test]
async fn three_hundred_starts_over_three_replicas_admit_exactly_two() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    let monitor = Monitor::begin(machines.redis.port()).await;
    let answers = storm(&callers, 300, None).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 298));
    machines.redis.command(&["ECHO", "end-of-the-storm"]).await.unwrap();
    let seen = monitor.read_until("end-of-the-storm").await;
    assert!(seen.contains("wf:runs:active:{acme}"), "the monitor does not show commands of scripts");
    // The whole key: scripts, whose text is sent sometimes, contain its first part.
    assert!(!seen.contains("wf:run:admission:acme"), "an admission lock was written");
}

#[tokio::test]
async fn three_hundred_starts_with_one_key_over_three_replicas_make_one_run() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    let answers = storm(&callers, 300, Some("one")).await;
    assert_eq!(count(&answers, 200), 300);
    let runs: BTreeSet<String> = answers.iter().map(|answer| answer.text("run_id")).collect();
    assert_eq!(runs.len(), 1);
    let fresh = answers.iter().filter(|answer| answer.body["replayed"] == json!(false)).count();
    assert_eq!(fresh, 1);
}

#[tokio::test]
async fn a_refused_start_sends_one_command_to_redis() {
    let machines = Machines::start(1).await;
    let callers = machines.callers("acme");
    prepare(&callers, 1).await;
    callers[0].start("job", None, &json!({})).await.expect(200);
    callers[0].start("job", None, &json!({})).await.expect(429);
    let sent =
        async || callers[0].get("/status").await.expect(200).body["store"]["commands_sent"].as_u64().unwrap();
    let before = sent().await;
    for _ in 0..200 {
        callers[0].start("job", None, &json!({})).await.expect(429);
    }
    let commands = sent().await - before;
    assert!((200..=240).contains(&commands), "{commands} commands for 200 refused starts");
}

#[tokio::test]
async fn ten_thousand_starts_over_a_thousand_connections_admit_exactly_fifty() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    prepare(&callers, 50).await;
    // Each client always has a request in progress, so each has its own connection.
    let connections = (0..1_000).map(|number| {
        let caller = callers[number % callers.len()].clone();
        tokio::spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..10 {
                answers.push(caller.start("job", None, &Value::Object(serde_json::Map::new())).await);
            }
            answers
        })
    });
    let answers: Vec<Answer> = join_all(connections).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!((count(&answers, 200), count(&answers, 429)), (50, 9_950));
}

#[tokio::test]
async fn a_limit_is_in_force_on_every_replica_once_it_is_acknowledged() {
    let machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    prepare(&callers, 0).await;
    callers[1].start("job", None, &json!({})).await.expect(429);
    callers[0].limit(1).await;
    callers[1].start("job", None, &json!({})).await.expect(200);
    callers[0].limit(0).await;
    callers[1].start("job", None, &json!({})).await.expect(429);
}
