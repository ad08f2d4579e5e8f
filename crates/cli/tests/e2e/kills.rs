//! `kill -9` at random moments under load: nothing acknowledged is lost, and no cap is exceeded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{Caller, Server};

const CAP: usize = 3;
const STARTERS: u64 = 8;
const WORKERS: usize = 4;

/// What the clients know: keys that were sent, and which run each was acknowledged with.
#[derive(Default)]
struct Ledger {
    sent: BTreeSet<String>,
    acknowledged: BTreeMap<String, String>,
}

/// The load, which outlives the servers: it goes on against whichever one is up.
struct Load {
    caller: Mutex<Caller>,
    ledger: Mutex<Ledger>,
    stopped: AtomicBool,
    keys: AtomicU64,
    live_max: AtomicU64,
    samples: AtomicU64,
}

impl Load {
    fn caller(&self) -> Caller {
        self.caller.lock().unwrap().clone()
    }

    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }
}

fn kills() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak asks the same test for more")]
    let asked = std::env::var("INTERLOCK_SOAK_KILLS");
    asked.ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_no_cap_is_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(u32::try_from(CAP).unwrap()).await;
    let load = Arc::new(Load {
        caller: Mutex::new(caller),
        ledger: Mutex::default(),
        stopped: AtomicBool::new(false),
        keys: AtomicU64::new(0),
        live_max: AtomicU64::new(0),
        samples: AtomicU64::new(0),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..STARTERS {
        tasks.spawn(keep_starting(load.clone()));
    }
    for number in 0..WORKERS {
        tasks.spawn(keep_working(load.clone(), number));
    }
    tasks.spawn(keep_counting(load.clone()));

    let mut random = ChaCha8Rng::seed_from_u64(4_711);
    for _ in 0..kills() {
        // The moment of the kill is the fault that is injected, not a wait for something.
        tokio::time::sleep(Duration::from_millis(random.random_range(20..400))).await;
        server.kill();
        server = Server::start(folder.path());
        *load.caller.lock().unwrap() = server.caller("acme");
    }
    load.stopped.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    check(&load).await;
}

async fn check(load: &Arc<Load>) {
    let live_max = load.live_max.load(Ordering::SeqCst);
    assert!(live_max <= CAP as u64, "{live_max} live runs were seen under a cap of {CAP}");
    assert!(load.samples.load(Ordering::SeqCst) > 10, "the cap was looked at");
    let ledger = std::mem::take(&mut *load.ledger.lock().unwrap());
    assert!(ledger.acknowledged.len() > 20, "the load was real: {}", ledger.acknowledged.len());
    let caller = load.caller();

    // What is still open ends, with a worker that lives.
    load.stopped.store(false, Ordering::SeqCst);
    let worker = tokio::spawn(keep_working(load.clone(), WORKERS));
    for (key, run) in &ledger.acknowledged {
        let ended = caller.ended(run).await;
        assert_eq!((&ended["status"], &ended["idempotency_key"]), (&json!("succeeded"), &json!(key)));
        let replay = caller.start("job", Some(key), &json!({"key": key})).await.expect(200);
        assert_eq!((replay.text("run_id"), &replay.body["replayed"]), (run.clone(), &json!(true)));
    }
    // A key whose answer was lost stands for a run that is there, or for none at all.
    for key in ledger.sent.iter().filter(|key| !ledger.acknowledged.contains_key(*key)) {
        let answer = caller.start("job", Some(key), &json!({"key": key})).await;
        if answer.status == 200 {
            caller.ended(&answer.text("run_id")).await;
        } else {
            answer.expect(429);
        }
    }
    load.stopped.store(true, Ordering::SeqCst);
    worker.await.unwrap();
}

async fn keep_starting(load: Arc<Load>) {
    while load.goes_on() {
        let key = format!("key-{}", load.keys.fetch_add(1, Ordering::SeqCst));
        load.ledger.lock().unwrap().sent.insert(key.clone());
        // A blind retry: the same key until somebody answers.
        while load.goes_on() {
            let input = json!({"key": key});
            let answer =
                load.caller().try_send(Method::POST, "/workflows/job/runs", Some(&key), &input).await;
            match answer {
                Some(answer) if answer.status == 200 => {
                    let run = answer.text("run_id");
                    let before = load.ledger.lock().unwrap().acknowledged.insert(key.clone(), run.clone());
                    assert!(before.is_none_or(|before| before == run), "one key, two runs");
                    break;
                }
                Some(answer) => assert!(matches!(answer.status.as_u16(), 429 | 503), "{answer:?}"),
                None => {}
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn keep_working(load: Arc<Load>, number: usize) {
    let path = format!("/workers/w-{number}/claim");
    while load.goes_on() {
        let caller = load.caller();
        let claim = json!({"topics": ["work"], "max_jobs": 4, "wait_ms": 100, "lease_ms": 1000});
        let Some(answer) = caller.try_send(Method::POST, &path, None, &claim).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        for job in answer.body["jobs"].as_array().unwrap_or(&Vec::new()) {
            let id = job["job_id"].as_str().unwrap();
            let result = json!({"fence": job["fence"], "output": {}});
            // A lost answer is the next worker's problem: the lease runs out, or the result was taken.
            caller.try_send(Method::POST, &format!("/jobs/{id}/complete"), None, &result).await;
        }
    }
}

/// Looks at the live runs all the time, also in the first moments after a restart.
async fn keep_counting(load: Arc<Load>) {
    while load.goes_on() {
        let answer =
            load.caller().try_send(Method::GET, "/workflow-runs?limit=100", None, &Value::Null).await;
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            let is_live =
                |run: &&Value| matches!(run["status"].as_str(), Some("pending" | "running" | "waiting"));
            let live = answer.body["items"].as_array().unwrap().iter().filter(is_live).count();
            load.live_max.fetch_max(live as u64, Ordering::SeqCst);
            load.samples.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
