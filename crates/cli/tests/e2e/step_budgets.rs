//! Workers that spend while servers are killed: each result is settled once, and nothing stays reserved.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use interlock_model::budget::Amount;
use interlock_poll::until;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};

use super::doctor::doctor;
use super::server::{Caller, Server};

const RUNS: usize = 40;
const WORKERS: usize = 4;
const KILLS: usize = 8;

/// In millionths.
const RESERVED: u64 = 10_000;
const SPENT: u64 = 3_000;

/// Where the servers are now.
pub(crate) struct Spending {
    caller: Mutex<Caller>,
    is_over: AtomicBool,
}

impl Spending {
    /// Runs that spend, and workers that report it.
    pub(crate) async fn begin(caller: Caller) -> Self {
        caller.limit(1_000).await;
        let budget = json!({"unit": "usd", "amount": "100", "per": "total", "on_exhausted": "queue"});
        caller.try_send(Method::PUT, "/budgets/llm", None, &budget).await.unwrap().expect(200);
        let budget = json!({"name": "llm", "reserve": "0.01"});
        caller.workflow("spend", json!({"think": {"type": "llm", "topic": "think", "budget": budget}})).await;
        Self { caller: Mutex::new(caller), is_over: AtomicBool::new(false) }
    }

    pub(crate) fn direct_to(&self, caller: Caller) {
        *self.caller.lock().unwrap() = caller;
    }

    fn caller(&self) -> Caller {
        self.caller.lock().unwrap().clone()
    }

    /// Sends until there is an answer. None: it is over.
    async fn send(&self, path: &str, key: Option<&str>, body: &Value) -> Option<Value> {
        until(&format!("there is an answer to {path}"), async || {
            if self.is_over.load(Ordering::Relaxed) {
                return Some(None);
            }
            let answer = self.caller().try_send(Method::POST, path, key, body).await;
            answer.filter(|answer| answer.status.as_u16() < 500).map(|answer| Some(answer.body))
        })
        .await
    }

    async fn work(&self, worker: usize) {
        let claim = json!({"topics": ["think"], "max_jobs": 2, "wait_ms": 300, "lease_ms": 1_500});
        while let Some(claimed) = self.send(&format!("/workers/w{worker}/claim"), None, &claim).await {
            for job in claimed["jobs"].as_array().into_iter().flatten() {
                let path = format!("/jobs/{}/complete", job["job_id"].as_str().unwrap());
                let result = json!({"fence": job["fence"], "output": {}, "usage": {"llm": "0.003"}});
                // The answer of the first may be lost with the server: the second repeats it.
                for _ in 0..2 {
                    self.send(&path, None, &result).await;
                }
            }
        }
    }

    async fn start_and_wait(&self) {
        for number in 0..RUNS {
            self.send("/workflows/spend/runs", Some(&format!("k{number}")), &json!({})).await;
        }
        until("every run has ended", async || {
            let caller = self.caller();
            let list = caller.try_send(Method::GET, "/workflow-runs?status=running", None, &Value::Null);
            let live = list.await?.body["items"].as_array()?.len();
            (live == 0).then_some(())
        })
        .await;
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Starts, works, and disturbs until everything has ended.
    pub(crate) async fn under(&self, disturbance: impl Future<Output = ()>) {
        let workers = futures_util::future::join_all((0..WORKERS).map(|worker| self.work(worker)));
        tokio::join!(self.start_and_wait(), workers, disturbance);
    }

    /// The ledger is what the jobs say: each result once, and each lost worker's reservation apart.
    pub(crate) async fn adds_up(&self) {
        let caller = self.caller();
        let (mut recorded, mut lost, mut after) = (0, 0, String::new());
        loop {
            let page = caller.get(&format!("/jobs?limit=100{after}")).await.expect(200).body;
            for job in page["items"].as_array().unwrap() {
                match job["state"].as_str().unwrap() {
                    "succeeded" => recorded += 1,
                    "lost" => lost += 1,
                    other => panic!("{other}: {job}"),
                }
            }
            match page["next_cursor"].as_str() {
                Some(cursor) => after = format!("&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(recorded, RUNS, "each run has one result");
        let usage = caller.get("/budgets/llm").await.expect(200).body["usage"].clone();
        let micros = |field: &str| usage[field].as_str().unwrap().parse::<Amount>().unwrap().micros();
        assert_eq!(micros("spent"), recorded as u64 * SPENT, "{usage}");
        assert_eq!(micros("unsettled"), lost * RESERVED, "{usage}");
        assert_eq!((micros("reserved"), &usage["open_permits"]), (0, &json!(0)), "{usage}");
        let (code, report) = doctor(&caller.base, &["--tenant", "acme"]);
        assert_eq!(code, Some(0), "{report}");
    }
}

#[tokio::test]
async fn results_settle_once_while_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--poll-ms", "200", "--run-lease-ms", "1000"];
    let start = || Server::start_with(folder.path(), &arguments);
    let server = Mutex::new(Some(start()));
    let caller = server.lock().unwrap().as_ref().unwrap().caller("acme");
    let spending = Spending::begin(caller).await;
    let mut random = ChaCha8Rng::seed_from_u64(31);
    spending
        .under(async {
            for _ in 0..KILLS {
                // The moment of the kill is the injected fault, not a wait.
                tokio::time::sleep(Duration::from_millis(random.random_range(30..500))).await;
                server.lock().unwrap().take().unwrap().kill();
                let next = start();
                spending.direct_to(next.caller("acme"));
                *server.lock().unwrap() = Some(next);
            }
        })
        .await;
    spending.adds_up().await;
}
