//! Roll-outs under load, on three replicas: what they measure is what results really waited.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Machines;
use super::retry_policies::in_force_everywhere;
use crate::server::{Caller, LIMIT};

/// Results that find their run busy, at once.
const CROWD: usize = 12;

struct Trial {
    machines: Machines,
    callers: Vec<Caller>,
    id: String,
}

impl Trial {
    /// Three replicas under `policy`, and a roll-out of `candidate` to half of the runs.
    async fn begin(policy: &str, candidate: &str, duration: Duration) -> Self {
        let strategy =
            ["--run-strategy", "lock", "--lock-busy-max-wait-ms", "0", "--lock-busy-retry", policy];
        let machines = Machines::start_with(3, &strategy).await;
        let callers = machines.callers("acme");
        callers[0].limit(10_000).await;
        callers[0].workflow("one", json!({"work": {"type": "worker", "topic": "t"}})).await;
        let wanted = json!({
            "candidate": candidate, "share_percent": 50, "guards": {"min_samples": 20},
            "duration_ms": u64::try_from(duration.as_millis()).unwrap(),
        });
        let id = callers[0].post("/rollouts", wanted).await.expect(201).text("id");
        Self { machines, callers, id }
    }

    async fn seen(&self) -> Value {
        self.callers[1].get(&format!("/rollouts/{}", self.id)).await.expect(200).body
    }

    /// Some results, each of a run that somebody else holds for a while.
    async fn load(&self, held: Duration) {
        let held = held.as_millis().to_string();
        join_all((0..CROWD).map(|number| {
            let (caller, held) = (&self.callers[number % self.callers.len()], &held);
            async move {
                caller.start("one", None, &json!({})).await.expect(200);
                let job = caller.claim(&format!("w-{number}"), "t", 1).await.remove(0);
                let lock = format!("cordum:wf:run:lock:{}", job["run_id"].as_str().unwrap());
                let taken =
                    self.machines.redis.command(&["SET", &lock, "an outsider", "PX", held, "NX"]).await;
                assert_eq!(taken.unwrap(), "OK");
                caller.complete(&job, &json!({})).await.expect(200);
            }
        }))
        .await;
    }

    /// Goes on until the roll-out has ended by itself.
    async fn under_load(&self, held: Duration) -> Value {
        let ended = async {
            loop {
                self.load(held).await;
                let seen = self.seen().await;
                if seen["state"] != "running" {
                    return seen;
                }
            }
        };
        tokio::time::timeout(LIMIT, ended).await.expect("it ends by itself within a minute")
    }
}

#[tokio::test]
async fn a_harmful_candidate_is_rolled_back_by_itself_within_a_minute_with_the_reason() {
    let trial = Trial::begin("fixed:200ms", "fixed:5s", Duration::from_hours(1)).await;
    let ended = trial.under_load(Duration::from_millis(100)).await;
    let end = ended["history"].as_array().unwrap().last().unwrap();
    assert_eq!((&ended["state"], &end["by"]), (&json!("rolled_back"), &json!("interlock")), "{ended}");
    let why = ended["verdict"].as_str().unwrap();
    assert!(why.contains("the candidate") && why.contains("more than 2 times"), "{why}");
    in_force_everywhere(&trial.callers, "fixed:200ms").await;
}

/// The control comes back twice in vain for each time that the candidate does, and later.
#[tokio::test]
async fn a_better_candidate_is_promoted_when_its_time_is_over() {
    let trial = Trial::begin("fixed:400ms", "fixed:560ms", Duration::from_secs(10)).await;
    let ended = trial.under_load(Duration::from_millis(500)).await;
    assert_eq!(ended["state"], "promoted", "{ended}");
    in_force_everywhere(&trial.callers, "fixed:560ms").await;
    let per_result = |arm: usize| ended["arms"][arm]["retries_per_result"]["value"].as_f64().unwrap();
    assert!(per_result(1) < per_result(0), "{ended}");
}
