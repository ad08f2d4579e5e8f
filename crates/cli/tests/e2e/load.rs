//! Clients and workers that continue while servers fail, and checks of what they saw afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interlock_poll::until_matches;
use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::Caller;

pub(crate) const CAP: usize = 3;
const STARTERS: usize = 8;
const WORKERS: usize = 4;

/// What the clients know: the keys that were sent, and the run that each was acknowledged with.
#[derive(Default)]
struct StartLedger {
    sent: BTreeSet<String>,
    acknowledged: BTreeMap<String, String>,
    refused: BTreeMap<u16, u64>,
}

/// Starts and workers, directed to the replicas that run.
pub(crate) struct Load {
    callers: Mutex<Vec<Caller>>,
    ledger: Mutex<StartLedger>,
    stopped: AtomicBool,
    keys: AtomicU64,
    live_max: AtomicU64,
    samples: AtomicU64,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Load {
    /// Begins to start runs of one step, to complete their jobs, and to count the live ones.
    pub(crate) async fn begin(callers: Vec<Caller>) -> Arc<Self> {
        callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
        callers[0].limit(u32::try_from(CAP).unwrap()).await;
        let load = Arc::new(Self {
            callers: Mutex::new(callers),
            ledger: Mutex::default(),
            stopped: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            live_max: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            tasks: tokio::sync::Mutex::default(),
        });
        let mut tasks = load.tasks.lock().await;
        for _ in 0..STARTERS {
            tasks.spawn(keep_starting(load.clone()));
        }
        for number in 0..WORKERS {
            tasks.spawn(keep_working(load.clone(), number));
        }
        tasks.spawn(keep_counting(load.clone()));
        drop(tasks);
        load
    }

    /// Directs further requests to these replicas.
    pub(crate) fn direct_to(&self, callers: Vec<Caller>) {
        *self.callers.lock().unwrap() = callers;
    }

    fn caller(&self) -> Caller {
        self.callers.lock().unwrap().choose(&mut rand::rng()).expect("a replica runs").clone()
    }

    fn is_running(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.ledger.lock().unwrap().acknowledged.len()
    }

    /// How many starts were answered with this status.
    pub(crate) fn refused(&self, status: u16) -> u64 {
        self.ledger.lock().unwrap().refused.get(&status).copied().unwrap_or(0)
    }

    /// Waits until this number of further starts is acknowledged.
    pub(crate) async fn continues_by(&self, starts: usize) {
        let wanted = self.acknowledged() + starts;
        let condition = format!("{wanted} starts are acknowledged");
        until_matches(&condition, async || self.acknowledged(), |acknowledged| *acknowledged >= wanted).await;
    }

    /// Stops the load and asserts that no acknowledged start was lost, no result applied twice, and no cap exceeded.
    pub(crate) async fn check(self: &Arc<Self>) {
        self.stopped.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.lock().await.join_next().await {
            ended.unwrap();
        }
        let live_max = self.live_max.load(Ordering::SeqCst);
        assert!(live_max <= CAP as u64, "{live_max} live runs were seen under a cap of {CAP}");
        assert!(self.samples.load(Ordering::SeqCst) > 10, "the live runs were counted too rarely");
        self.stopped.store(false, Ordering::SeqCst);
        let worker = tokio::spawn(keep_working(self.clone(), WORKERS));
        let ledger = std::mem::take(&mut *self.ledger.lock().unwrap());
        assert!(ledger.acknowledged.len() > 20, "the load was too small: {}", ledger.acknowledged.len());
        for (key, run) in &ledger.acknowledged {
            self.check_run(key, run).await;
        }
        for key in ledger.sent.iter().filter(|key| !ledger.acknowledged.contains_key(*key)) {
            self.check_lost(key).await;
        }
        self.stopped.store(true, Ordering::SeqCst);
        worker.await.unwrap();
    }

    async fn check_run(&self, key: &str, run: &str) {
        let caller = self.caller();
        let ended = caller.ended(run).await;
        assert_eq!((&ended["status"], &ended["idempotency_key"]), (&json!("succeeded"), &json!(key)));
        let story = caller.get(&format!("/workflow-runs/{run}/timeline?limit=500")).await.expect(200);
        let events = story.body["items"].as_array().unwrap();
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(count("step_completed"), 1, "a result is applied once: {events:?}");
        let replay = caller.start("job", Some(key), &json!({"key": key})).await.expect(200);
        assert_eq!((replay.text("run_id"), &replay.body["replayed"]), (run.to_owned(), &json!(true)));
    }

    /// Asserts that a key whose answer was lost stands for one run or for none.
    async fn check_lost(&self, key: &str) {
        let answer = self.caller().start("job", Some(key), &json!({"key": key})).await;
        if answer.status == 200 {
            self.caller().ended(&answer.text("run_id")).await;
        } else {
            answer.expect(429);
        }
    }
}

async fn keep_starting(load: Arc<Load>) {
    while load.is_running() {
        let key = format!("key-{}", load.keys.fetch_add(1, Ordering::SeqCst));
        load.ledger.lock().unwrap().sent.insert(key.clone());
        // Retries the same key at any replica until one answers.
        while load.is_running() {
            let input = json!({"key": key});
            let sent = load.caller();
            let answer = sent.try_send(Method::POST, "/workflows/job/runs", Some(&key), &input).await;
            if let Some(answer) = answer {
                let status = answer.status.as_u16();
                if status == 200 {
                    let run = answer.text("run_id");
                    let before = load.ledger.lock().unwrap().acknowledged.insert(key.clone(), run.clone());
                    assert!(before.is_none_or(|before| before == run), "one key, two runs");
                    break;
                }
                assert!(matches!(status, 429 | 503), "{answer:?}");
                assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
                *load.ledger.lock().unwrap().refused.entry(status).or_default() += 1;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn keep_working(load: Arc<Load>, number: usize) {
    while load.is_running() {
        work(|| load.caller(), number, 4).await;
    }
}

/// Claims jobs of any caller and completes each by any other. A caller may be unreachable, and answers may be lost.
pub(crate) async fn work(any: impl Fn() -> Caller, worker: usize, jobs_max: u32) {
    let path = format!("/workers/w-{worker}/claim");
    let claim = json!({"topics": ["work"], "max_jobs": jobs_max, "wait_ms": 100, "lease_ms": 1000});
    let claimed = any().try_send(Method::POST, &path, None, &claim).await;
    let Some(answer) = claimed.filter(|answer| answer.status == 200) else {
        return tokio::time::sleep(Duration::from_millis(5)).await;
    };
    for job in answer.body["jobs"].as_array().unwrap_or(&Vec::new()) {
        let id = job["job_id"].as_str().unwrap();
        let result = json!({"fence": job["fence"], "output": {}});
        // If the answer is lost, either the result is recorded or the lease expires.
        any().try_send(Method::POST, &format!("/jobs/{id}/complete"), None, &result).await;
    }
}

/// Counts the live runs again and again.
async fn keep_counting(load: Arc<Load>) {
    while load.is_running() {
        let path = "/workflow-runs?limit=100";
        let answer = load.caller().try_send(Method::GET, path, None, &Value::Null).await;
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
