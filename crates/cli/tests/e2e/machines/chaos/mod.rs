//! Everything at once: replicas, Redis and NATS are killed, paused and restarted at random, while clients start runs and
//! forty workers on HTTP and NATS complete, drop, delay and fail their jobs. Afterwards nothing may be left behind.

mod bus_worker;
mod http_worker;
mod ledger;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_poll::until_matches;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Machines, replica};
use crate::server::{BINARY, Caller, signal};
use bus_worker::BusWorker;
use http_worker::HttpWorker;
use ledger::Ledger;

const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];
const CAP: u32 = 4;
const HTTP_WORKERS: usize = 20;
const BUS_WORKERS: usize = 20;
const STARTERS: usize = 8;
const HTTP_TOPIC: &str = "job.http";
const BUS_TOPIC: &str = "job.bus";

/// Silence is detected soon, and loops tick often.
const QUICK: [&str; 8] = [
    "--worker-silence-ms",
    "2000",
    "--redelivery-delay-ms",
    "50",
    "--reconcile-ms",
    "2000",
    "--snapshot-ms",
    "1000",
];

fn lasts() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the soak runs the same test for longer")]
    let asked = std::env::var("INTERLOCK_SOAK_CHAOS_SECONDS");
    Duration::from_secs(asked.ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(20))
}

#[tokio::test]
async fn after_chaos_every_run_has_ended_and_nothing_is_left_behind() {
    let seed = 1_706;
    let mut machines = Machines::start_with(3, &QUICK).await;
    prepare(&machines).await;
    let ledger = Arc::new(Ledger::new(addresses(&machines)));
    let mut tasks = JoinSet::new();
    for number in 0..STARTERS {
        tasks.spawn(keep_starting(ledger.clone(), TENANTS[number % TENANTS.len()]));
    }
    for number in 0..HTTP_WORKERS {
        let tenant = TENANTS[number % TENANTS.len()];
        tasks.spawn(HttpWorker::new(number, tenant, seed).work(ledger.clone()));
    }
    for number in 0..BUS_WORKERS {
        tasks.spawn(BusWorker::new(number, seed, &machines.nats.url()).await.work(ledger.clone()));
    }
    let until = Instant::now() + lasts();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while Instant::now() < until {
        // The moment is part of the fault, not a wait.
        tokio::time::sleep(Duration::from_millis(random.random_range(200..1_200))).await;
        strike(&mut machines, &ledger, &mut random).await;
    }
    ledger.stop_starting();
    all_ended(&ledger).await;
    ledger.stop_working();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    check(&machines, &ledger).await;
}

async fn prepare(machines: &Machines) {
    let retry =
        json!({"max_retries": 5, "initial_backoff_sec": 0.05, "multiplier": 1, "max_backoff_sec": 0.1});
    for caller in TENANTS.map(|tenant| machines.replicas[0].caller(tenant)) {
        let steps = json!({
            "first": {"type": "worker", "topic": HTTP_TOPIC, "retry": retry},
            "pause": {"type": "delay", "delay_sec": 0.05, "depends_on": ["first"]},
            "second": {"type": "worker", "topic": BUS_TOPIC, "retry": retry, "depends_on": ["pause"]},
        });
        caller.workflow("chaos", steps).await;
        caller.limit(CAP).await;
    }
}

/// A client of each running replica.
fn addresses(machines: &Machines) -> Vec<Caller> {
    machines.callers(TENANTS[0])
}

/// Injects one fault. When it returns, every process runs again or is starting.
async fn strike(machines: &mut Machines, ledger: &Ledger, random: &mut ChaCha8Rng) {
    let victim = random.random_range(0..machines.replicas.len());
    let pause = Duration::from_millis(random.random_range(100..2_500));
    match random.random_range(0..10) {
        0..4 => {
            machines.replicas.remove(victim).kill();
            ledger.direct_to(addresses(machines));
            machines.replicas.push(replica(&machines.redis.url(), &machines.nats.url(), &QUICK));
            ledger.direct_to(addresses(machines));
        }
        4..7 => {
            let pid = machines.replicas[victim].pid();
            signal(pid, "STOP");
            tokio::time::sleep(pause).await;
            signal(pid, "CONT");
        }
        7 => {
            machines.nats.kill().await.unwrap();
            tokio::time::sleep(pause / 2).await;
            machines.nats.start_again().await.unwrap();
        }
        8 => {
            machines.redis.kill().await.unwrap();
            tokio::time::sleep(pause / 4).await;
            machines.redis.start_again().await.unwrap();
        }
        _ => {
            machines.redis.pause().unwrap();
            tokio::time::sleep(pause / 4).await;
            machines.redis.resume().unwrap();
        }
    }
}

/// Starts runs, each under its own key, and retries at any replica until one answers.
async fn keep_starting(ledger: Arc<Ledger>, tenant: &'static str) {
    while ledger.may_start() {
        let key = ledger.next_key();
        loop {
            let answer = ledger.start(tenant, &key).await;
            match answer.map(|answer| (answer.status.as_u16(), answer)) {
                Some((200, answer)) => {
                    ledger.acknowledged(tenant, answer.text("run_id"));
                    break;
                }
                Some((status, answer)) => assert!(matches!(status, 429 | 503), "{answer:?}"),
                None => {}
            }
            if !ledger.may_start() {
                // The last start may have happened without an answer; then its run ends as the others do.
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until no tenant has a live run.
async fn all_ended(ledger: &Ledger) {
    for tenant in TENANTS {
        let condition = format!("the runs of {tenant} end");
        until_matches(&condition, async || ledger.live_run(tenant).await, Option::is_none).await;
    }
}

async fn check(machines: &Machines, ledger: &Ledger) {
    let server = &machines.replicas[0];
    assert!(ledger.runs().len() > 20, "the load was too small: {} runs", ledger.runs().len());
    for (tenant, run) in ledger.runs() {
        check_run(&server.caller(&tenant), ledger, &run).await;
    }
    let metrics = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    for tenant in TENANTS {
        let line = format!("active_runs{{tenant=\"{tenant}\"}} 0");
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
        let letters = server.caller(tenant).get("/dlq?limit=500").await.expect(200);
        for letter in letters.body["items"].as_array().unwrap() {
            let has = |member: &str| letter[member].as_str().is_some_and(|text| !text.is_empty());
            assert!(has("reason") && has("reason_code"), "a dead letter has no reason: {letter}");
        }
    }
    let doctor = Command::new(BINARY).args(["--gateway", &server.base, "doctor", "--json"]).output().unwrap();
    let report = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(0), "{report} {}", String::from_utf8_lossy(&doctor.stderr));
}

/// Asserts that the run has ended, each step by exactly one result, which is the accepted one.
async fn check_run(caller: &Caller, ledger: &Ledger, run: &str) {
    let ended = caller.run(run).await;
    assert!(matches!(ended["status"].as_str(), Some("succeeded" | "failed")), "{ended:#}");
    let story = caller.get(&format!("/workflow-runs/{run}/timeline?limit=500")).await.expect(200);
    let events = story.body["items"].as_array().unwrap().clone();
    for step in ["first", "second"] {
        let is_completion = |event: &&Value| event["type"] == "step_completed" && event["step_id"] == step;
        let completed = events.iter().filter(is_completion).count();
        let expected = usize::from(ended["steps"][step]["status"] == "succeeded");
        assert_eq!(completed, expected, "a result of {step} counts once: {events:#?}");
    }
    if let Some(attempt) = ledger.accepted(&format!("{run}:first")) {
        assert_eq!(ended["steps"]["first"]["output"]["attempt"], json!(attempt), "{ended:#}");
    }
}
