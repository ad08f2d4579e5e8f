//! Rollouts under load: results find their run's lock held by another client for a known time.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use interlock_poll::until_matches;
use serde_json::{Value, json};

use super::Machines;
use crate::server::Caller;

/// Results that find their run busy are deferred at once.
const LOCK: [&str; 4] = ["--run-strategy", "lock", "--lock-busy-max-wait-ms", "0"];

/// Results of one wave. Half of the runs are in each arm, and guards know the tail of an arm from about 130 results on.
const WAVE: usize = 360;

async fn prepare(caller: &Caller) {
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(10_000).await;
}

/// Starts a wave of runs and claims their jobs.
async fn jobs(machines: &Machines) -> Vec<Value> {
    let callers = machines.callers("acme");
    let starts = (0..WAVE).map(|number| {
        let caller = callers[number % callers.len()].clone();
        async move { caller.start("job", None, &json!({})).await.expect(200) }
    });
    join_all(starts).await;
    let mut jobs = Vec::new();
    while jobs.len() < WAVE {
        jobs.extend(claim(&callers[0]).await);
    }
    jobs
}

/// Completes the jobs, each while another client holds the lock of its run for this time.
async fn end(machines: &Machines, jobs: &[Value], held: Duration) {
    let (callers, lasts) = (machines.callers("acme"), held.as_millis().to_string());
    // A few at a time, so that the result arrives before the lock expires.
    let ended = stream::iter(jobs.iter().enumerate()).map(|(number, job)| {
        let (caller, lasts) = (&callers[number % callers.len()], &lasts);
        async move {
            let key = format!("cordum:wf:run:lock:{}", job["run_id"].as_str().expect("a job has a run"));
            machines
                .redis
                .command(&["SET", &key, "another client", "PX", lasts])
                .await
                .expect("Redis answers");
            caller.complete(job, &json!({})).await.expect(200);
        }
    });
    ended.buffer_unordered(6).collect::<()>().await;
}

async fn claim(caller: &Caller) -> Vec<Value> {
    let wanted = json!({"topics": ["work"], "max_jobs": 100, "wait_ms": 20_000, "lease_ms": 60_000});
    let claimed = caller.post("/workers/worker-1/claim", wanted).await.expect(200);
    claimed.body["jobs"].as_array().expect("jobs are a list").clone()
}

async fn begin(caller: &Caller, candidate: &str, duration: Duration) -> String {
    let wanted = json!({"candidate": candidate, "share_percent": 50, "duration_ms": duration.as_millis()});
    caller.post("/rollouts", wanted).await.expect(201).text("id")
}

/// The rollout, once it matches.
async fn when(caller: &Caller, id: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/rollouts/{id}");
    until_matches("the rollout matches", async || caller.get(&path).await.expect(200).body, matches).await
}

fn has_ended(rollout: &Value) -> bool {
    rollout["state"] != "running"
}

fn results(rollout: &Value) -> usize {
    let arms = rollout["arms"].as_array().unwrap();
    arms.iter().map(|arm| usize::try_from(arm["results"].as_u64().unwrap()).unwrap()).sum()
}

#[tokio::test]
async fn a_harmful_candidate_is_rolled_back_with_a_reason() {
    let machines = Machines::start_with(3, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers[0]).await;
    let jobs = jobs(&machines).await;
    let id = begin(&callers[0], "fixed:5s", Duration::from_hours(1)).await;
    end(&machines, &jobs, Duration::from_millis(400)).await;
    let rollout = when(&callers[1], &id, has_ended).await;
    assert_eq!(rollout["state"], "rolled_back", "{rollout}");
    let why = rollout["verdict"].as_str().unwrap();
    // The reason is either late results or deferred results that never arrived.
    assert!(why.contains("the candidate") && why.contains("more than 2 times"), "{why}");
    assert_eq!(rollout["history"][1]["by"], "interlock", "{rollout}");
    assert_eq!(callers[2].get("/retry-policies/lock_busy").await.expect(200).text("policy"), "fixed:500ms");
}

#[tokio::test]
async fn a_good_candidate_is_promoted_at_the_end_of_its_rollout() {
    let machines = Machines::start_with(3, &[&LOCK[..], &["--lock-busy-retry", "fixed:1s"]].concat()).await;
    let callers = machines.callers("acme");
    prepare(&callers[0]).await;
    let jobs = jobs(&machines).await;
    let id = begin(&callers[0], "fixed:1250ms", Duration::from_secs(20)).await;
    // The control retries after 1 s, finds the run still locked, and succeeds after 2 s; the candidate retries once.
    end(&machines, &jobs, Duration::from_millis(1_200)).await;
    let rollout = when(&callers[1], &id, has_ended).await;
    assert_eq!(rollout["state"], "promoted", "{rollout}");
    let in_force = callers[2].get("/retry-policies/lock_busy").await.expect(200);
    assert_eq!(
        (in_force.text("policy"), in_force.text("by")),
        ("fixed:1250ms".to_owned(), "interlock".to_owned())
    );
}

#[tokio::test]
async fn the_counts_of_both_arms_survive_the_death_of_every_replica() {
    let mut machines = Machines::start_with(2, &LOCK).await;
    let caller = machines.callers("acme").remove(0);
    prepare(&caller).await;
    let claimed = jobs(&machines).await;
    let id = begin(&caller, "fixed:600ms", Duration::from_hours(1)).await;
    end(&machines, &claimed, Duration::from_millis(400)).await;
    let before = when(&caller, &id, |rollout| results(rollout) == WAVE).await;
    for replica in machines.replicas.drain(..) {
        replica.kill();
    }
    let machines = machines.with_replicas(1, &LOCK);
    let caller = &machines.callers("acme")[0];
    let after = caller.get(&format!("/rollouts/{id}")).await.expect(200).body;
    for (known, found) in before["arms"].as_array().unwrap().iter().zip(after["arms"].as_array().unwrap()) {
        for figure in ["results", "retries", "first_retry_success"] {
            assert_eq!(known[figure], found[figure], "{figure}");
        }
    }
    // The times are those of the results that were observed for long enough, which is soon all of them.
    let is_known =
        |arm: &Value| arm["has_enough_samples"] == true && arm["lock_wait_p95_ms"]["high"].is_f64();
    when(caller, &id, |rollout| rollout["arms"].as_array().unwrap().iter().all(is_known)).await;
    end(&machines, &jobs(&machines).await, Duration::from_millis(400)).await;
    when(caller, &id, |rollout| results(rollout) == 2 * WAVE).await;
}
