//! Everything at once: replicas, Redis and NATS are killed, paused and restarted at random, while clients start runs and
//! forty workers of both kinds do, drop, delay and fail their jobs. Afterwards nothing may be left behind.

mod bus_worker;
mod http_worker;
mod ledger;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Machines, replica};
use crate::server::{BINARY, Caller, LIMIT, signal};
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

/// Processes are missed soon, and loops tick often.
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
    #[expect(clippy::disallowed_methods, reason = "the soak asks the same test for more")]
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
        // The moment is part of the fault, not a wait for something.
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

/// Where the replicas that are up can be reached.
fn addresses(machines: &Machines) -> Vec<Caller> {
    machines.callers(TENANTS[0])
}

/// One fault. When it returns, everything is up again, or on its way up.
async fn strike(machines: &mut Machines, ledger: &Ledger, random: &mut ChaCha8Rng) {
    let victim = random.random_range(0..machines.replicas.len());
    let pause = Duration::from_millis(random.random_range(100..2_500));
    match random.random_range(0..10) {
        0..4 => {
            machines.replicas.remove(victim).kill();
            ledger.reach(addresses(machines));
            machines.replicas.push(replica(&machines.redis.url(), &machines.nats.url(), &QUICK));
            ledger.reach(addresses(machines));
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

/// Starts runs under keys of its own, blindly retried at any replica until somebody answers.
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
                // Whether this one was started nobody here knows; if so, it ends as the others do.
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until no tenant has a live run. Whoever started it.
async fn all_ended(ledger: &Ledger) {
    let until = Instant::now() + 2 * LIMIT;
    for tenant in TENANTS {
        while let Some(run) = ledger.live_run(tenant).await {
            assert!(Instant::now() < until, "a run of {tenant} never ends: {run:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn check(machines: &Machines, ledger: &Ledger) {
    let server = &machines.replicas[0];
    assert!(ledger.runs().len() > 20, "the load was real: {} runs", ledger.runs().len());
    for (tenant, run) in ledger.runs() {
        check_run(&server.caller(&tenant), ledger, &run).await;
    }
    let metrics = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    for tenant in TENANTS {
        let line = format!("active_runs{{tenant=\"{tenant}\"}} 0");
        assert!(metrics.lines().any(|told| told == line), "{line}: {metrics}");
        let letters = server.caller(tenant).get("/dlq?limit=500").await.expect(200);
        for letter in letters.body["items"].as_array().unwrap() {
            let told = |member: &str| letter[member].as_str().is_some_and(|text| !text.is_empty());
            assert!(told("reason") && told("reason_code"), "a dead letter says why: {letter}");
        }
    }
    let doctor = Command::new(BINARY).args(["--gateway", &server.base, "doctor", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(0), "{told} {}", String::from_utf8_lossy(&doctor.stderr));
}

/// The run has ended, each of its steps by one result, and that is the one that was accepted.
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
