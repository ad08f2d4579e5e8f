//! Queues over three replicas that die, on a Redis that restarts: every run starts once, in order, and never too many.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interlock_poll::{until, until_matches};
use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Machines;
use crate::load;
use crate::server::Caller;

/// At once, and one after another.
const STARTS_AT_ONCE: usize = 940;
const STARTS_IN_TURN: usize = 60;
const STARTS: usize = STARTS_AT_ONCE + STARTS_IN_TURN;
const CAP: usize = 5;
const WORKERS: usize = 6;

/// What clients and workers share while replicas come and go.
struct Crowd {
    callers: Mutex<Vec<Caller>>,
    runs: Mutex<Vec<Started>>,
    live_max: AtomicUsize,
    samples: AtomicUsize,
    is_over: AtomicBool,
}

struct Started {
    run: String,
    sent: Instant,
    acknowledged: Instant,
}

impl Crowd {
    fn caller(&self) -> Caller {
        self.callers.lock().unwrap().choose(&mut rand::rng()).expect("a replica runs").clone()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Sends a request to any replica, again until one answers that it is done.
    async fn until_done(&self, method: Method, path: &str, key: Option<&str>, body: &Value) -> Value {
        loop {
            if let Some(answer) = self.caller().try_send(method.clone(), path, key, body).await {
                match answer.status.as_u16() {
                    200 | 202 => return answer.body,
                    503 => {}
                    _ => panic!("{answer:?}"),
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn start(self: Arc<Self>, number: usize) {
        let sent = Instant::now();
        let (key, input) = (format!("key-{number}"), json!({"number": number}));
        let body = self.until_done(Method::POST, "/workflows/job/runs", Some(&key), &input).await;
        let run = body["run_id"].as_str().unwrap().to_owned();
        self.runs.lock().unwrap().push(Started { run, sent, acknowledged: Instant::now() });
    }

    async fn start_in_turn(self: Arc<Self>) {
        for number in STARTS_AT_ONCE..STARTS {
            self.clone().start(number).await;
        }
    }

    async fn work(self: Arc<Self>, number: usize) {
        while !self.is_over() {
            load::work(|| self.caller(), number, 2).await;
        }
    }

    /// Looks at the limit again and again.
    async fn count(self: Arc<Self>) {
        while !self.is_over() {
            let answer = self.caller().try_send(Method::GET, "/limits/five", None, &Value::Null).await;
            if let Some(answer) = answer.filter(|answer| answer.status == 200) {
                let live = answer.body["usage"]["live"].as_u64().unwrap();
                self.live_max.fetch_max(usize::try_from(live).unwrap(), Ordering::SeqCst);
                self.samples.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every run, as it is listed.
    async fn all_runs(&self) -> Vec<Value> {
        let (mut runs, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/workflow-runs?limit=500{cursor}");
            let page = self.until_done(Method::GET, &path, None, &Value::Null).await;
            runs.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return runs,
            }
        }
    }

    /// Waits until this number of runs has ended.
    async fn until_ended(&self, count: usize) {
        let look =
            async || self.all_runs().await.iter().filter(|run| run["completed_at"].is_string()).count();
        until_matches(&format!("{count} runs have ended"), look, |ended| *ended >= count).await;
    }
}

#[tokio::test]
async fn a_thousand_queued_starts_all_run_once_though_replicas_and_redis_die() {
    let mut machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    callers[0].limit(10_000).await;
    let five = json!({"max_runs": CAP, "on_full": "queue", "queue": {"max": 2 * STARTS}});
    callers[0].try_send(Method::PUT, "/limits/five", None, &five).await.unwrap().expect(200);
    let crowd = Arc::new(Crowd {
        callers: Mutex::new(callers),
        runs: Mutex::default(),
        live_max: AtomicUsize::new(0),
        samples: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut starts = JoinSet::new();
    for number in 0..STARTS_AT_ONCE {
        starts.spawn(crowd.clone().start(number));
    }
    starts.spawn(crowd.clone().start_in_turn());
    let mut others = JoinSet::new();
    for number in 0..WORKERS {
        others.spawn(crowd.clone().work(number));
    }
    others.spawn(crowd.clone().count());

    for wanted in [100, 300, 500] {
        crowd.until_ended(wanted).await;
        machines.replicas.remove(0).kill();
        *crowd.callers.lock().unwrap() = machines.callers("acme");
        if wanted == 300 {
            machines.redis.kill().await.unwrap();
            machines.redis.start_again().await.unwrap();
        }
        machines.replicas.push(machines.replica());
        *crowd.callers.lock().unwrap() = machines.callers("acme");
    }
    while let Some(started) = starts.join_next().await {
        started.unwrap();
    }
    crowd.until_ended(STARTS).await;
    check_runs(&crowd).await;
    check_order(&crowd).await;
    let clean = async || {
        let report = crowd.caller().try_send(Method::GET, "/doctor", None, &Value::Null).await?;
        Some(report.body["findings"].as_array()?.clone()).filter(Vec::is_empty)
    };
    until("the doctor finds nothing", clean).await;
    crowd.is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = others.join_next().await {
        ended.unwrap();
    }
    assert!(crowd.samples.load(Ordering::SeqCst) > 20, "the limit was looked at too rarely");
    let live_max = crowd.live_max.load(Ordering::SeqCst);
    assert!(live_max <= CAP, "{live_max} live runs were counted under a limit of {CAP}");
}

/// Each start has one run, each run has succeeded, and no more than the limit lets live were live at any moment.
async fn check_runs(crowd: &Crowd) {
    let runs = crowd.all_runs().await;
    let mut known: Vec<String> = crowd.runs.lock().unwrap().iter().map(|it| it.run.clone()).collect();
    let mut listed: Vec<String> = runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    known.sort();
    listed.sort();
    assert_eq!(known.len(), STARTS);
    assert_eq!(known, listed, "a start has one run, and a run one start");
    let mut moments = Vec::new();
    for run in &runs {
        assert_eq!(run["status"], "succeeded", "{run}");
        moments.push((run["started_at"].as_str().unwrap().to_owned(), 1));
        moments.push((run["completed_at"].as_str().unwrap().to_owned(), -1));
    }
    // At the same moment, those that end go before those that begin.
    moments.sort();
    let live = moments.iter().scan(0, |live, (_, change)| {
        *live += change;
        Some(*live)
    });
    let live_max = live.max().unwrap();
    assert!(live_max <= i32::try_from(CAP).unwrap(), "{live_max} runs were live at once by their history");
}

/// A run that was acknowledged before another one was sent had its slot no later than that one.
async fn check_order(crowd: &Crowd) {
    let mut started = std::mem::take(&mut *crowd.runs.lock().unwrap());
    started.sort_by_key(|it| it.acknowledged);
    let mut granted = Vec::new();
    for Started { run, .. } in &started {
        let path = format!("/workflow-runs/{run}/timeline?limit=500");
        let story = crowd.until_done(Method::GET, &path, None, &Value::Null).await;
        let mut events = story["items"].as_array().unwrap().iter();
        let grant = events.find(|event| event["status"] == "pending").expect("it had a slot");
        granted.push(grant["time"].as_str().unwrap().to_owned());
    }
    // The latest grant of those that were acknowledged before each start was sent.
    let (mut before, mut latest, mut pairs) = (0, "", 0);
    let mut by_sent: Vec<usize> = (0..started.len()).collect();
    by_sent.sort_by_key(|&at| started[at].sent);
    for at in by_sent {
        while started[before].acknowledged < started[at].sent {
            latest = latest.max(&granted[before]);
            before += 1;
        }
        assert!(*latest <= *granted[at], "run {} overtook one that waited before it", started[at].run);
        pairs += usize::from(before > 0);
    }
    assert!(pairs >= STARTS_IN_TURN - 1, "{pairs} starts came after others");
}
