//! Clients and workers that go on whatever happens to the servers, and what must be true of them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{Caller, LIMIT};

pub(crate) const CAP: usize = 3;
const STARTERS: usize = 8;
const WORKERS: usize = 4;

/// What the clients know: keys that were sent, and which run each was acknowledged with.
#[derive(Default)]
struct Ledger {
    sent: BTreeSet<String>,
    acknowledged: BTreeMap<String, String>,
    refused: BTreeMap<u16, u64>,
}

/// The load. It goes to whichever replicas are up.
pub(crate) struct Load {
    callers: Mutex<Vec<Caller>>,
    ledger: Mutex<Ledger>,
    stopped: AtomicBool,
    keys: AtomicU64,
    live_max: AtomicU64,
    samples: AtomicU64,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Load {
    /// Begins to start runs of one step, to work on them, and to count the live ones.
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

    /// From now on the load goes to these.
    pub(crate) fn direct_to(&self, callers: Vec<Caller>) {
        *self.callers.lock().unwrap() = callers;
    }

    fn caller(&self) -> Caller {
        self.callers.lock().unwrap().choose(&mut rand::rng()).expect("somebody is up").clone()
    }

    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.ledger.lock().unwrap().acknowledged.len()
    }

    /// How often a start was answered with this status.
    pub(crate) fn refused(&self, status: u16) -> u64 {
        self.ledger.lock().unwrap().refused.get(&status).copied().unwrap_or(0)
    }

    /// Waits until `more` further starts were acknowledged. Returns how long that took.
    pub(crate) async fn goes_on_by(&self, more: usize) -> Duration {
        let (since, from) = (Instant::now(), self.acknowledged());
        while self.acknowledged() < from + more {
            assert!(since.elapsed() < LIMIT, "the load does not go on: {} acknowledged", self.acknowledged());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        since.elapsed()
    }

    /// Stops the load and checks that nothing acknowledged was lost, nothing was done twice, and no cap was exceeded.
    pub(crate) async fn check(self: &Arc<Self>) {
        self.stopped.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.lock().await.join_next().await {
            ended.unwrap();
        }
        let live_max = self.live_max.load(Ordering::SeqCst);
        assert!(live_max <= CAP as u64, "{live_max} live runs were seen under a cap of {CAP}");
        assert!(self.samples.load(Ordering::SeqCst) > 10, "the cap was looked at");
        self.stopped.store(false, Ordering::SeqCst);
        let worker = tokio::spawn(keep_working(self.clone(), WORKERS));
        let ledger = std::mem::take(&mut *self.ledger.lock().unwrap());
        assert!(ledger.acknowledged.len() > 20, "the load was real: {}", ledger.acknowledged.len());
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

    /// A key whose answer was lost stands for a run that is there, or for none at all.
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
    while load.goes_on() {
        let key = format!("key-{}", load.keys.fetch_add(1, Ordering::SeqCst));
        load.ledger.lock().unwrap().sent.insert(key.clone());
        // A blind retry, at any replica: the same key until somebody answers.
        while load.goes_on() {
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
    let path = format!("/workers/w-{number}/claim");
    while load.goes_on() {
        let caller = load.caller();
        let claim = json!({"topics": ["work"], "max_jobs": 4, "wait_ms": 100, "lease_ms": 1000});
        let claimed = caller.try_send(Method::POST, &path, None, &claim).await;
        let Some(answer) = claimed.filter(|answer| answer.status == 200) else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        for job in answer.body["jobs"].as_array().unwrap_or(&Vec::new()) {
            let id = job["job_id"].as_str().unwrap();
            let result = json!({"fence": job["fence"], "output": {}});
            // A lost answer is the next worker's problem: the lease runs out, or the result was taken.
            load.caller().try_send(Method::POST, &format!("/jobs/{id}/complete"), None, &result).await;
        }
    }
}

/// Looks at the live runs all the time.
async fn keep_counting(load: Arc<Load>) {
    while load.goes_on() {
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
