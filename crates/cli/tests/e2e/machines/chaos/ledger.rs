//! What clients and workers know, and asserts what must never happen.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Answer, Caller};

pub(super) struct Ledger {
    callers: Mutex<Vec<Caller>>,
    keys: AtomicU64,
    starts: AtomicBool,
    works: AtomicBool,
    runs: Mutex<Vec<(String, String)>>,
    /// The largest fence of any dispatch, by `run:step`.
    fences: Mutex<BTreeMap<String, u64>>,
    /// The attempt whose result was accepted, by `run:step`.
    accepted: Mutex<BTreeMap<String, u64>>,
}

/// A job as its worker received it.
#[derive(Debug, Clone)]
pub(super) struct Dispatch {
    pub(super) job: String,
    pub(super) step: String,
    pub(super) attempt: u64,
    pub(super) fence: u64,
}

impl Dispatch {
    pub(super) fn of(job: &Value) -> Self {
        let text = |member: &str| job[member].as_str().unwrap().to_owned();
        Self {
            job: text("job_id"),
            step: format!("{}:{}", text("run_id"), text("step_id")),
            attempt: job["attempt"].as_u64().unwrap(),
            fence: job["fence"].as_u64().unwrap(),
        }
    }
}

impl Ledger {
    pub(super) fn new(callers: Vec<Caller>) -> Self {
        Self {
            callers: Mutex::new(callers),
            keys: AtomicU64::new(0),
            starts: AtomicBool::new(true),
            works: AtomicBool::new(true),
            runs: Mutex::default(),
            fences: Mutex::default(),
            accepted: Mutex::default(),
        }
    }

    /// Sends further requests to these replicas.
    pub(super) fn direct_to(&self, callers: Vec<Caller>) {
        *self.callers.lock().unwrap() = callers;
    }

    pub(super) fn may_start(&self) -> bool {
        self.starts.load(Ordering::SeqCst)
    }

    pub(super) fn stop_starting(&self) {
        self.starts.store(false, Ordering::SeqCst);
    }

    pub(super) fn may_work(&self) -> bool {
        self.works.load(Ordering::SeqCst)
    }

    pub(super) fn stop_working(&self) {
        self.works.store(false, Ordering::SeqCst);
    }

    pub(super) fn next_key(&self) -> String {
        format!("key-{}", self.keys.fetch_add(1, Ordering::SeqCst))
    }

    /// A tenant's client of a random replica.
    pub(super) fn caller(&self, tenant: &str) -> Caller {
        let callers = self.callers.lock().unwrap();
        callers.choose(&mut rand::rng()).expect("a replica runs").of(tenant)
    }

    pub(super) async fn start(&self, tenant: &str, key: &str) -> Option<Answer> {
        let path = "/workflows/chaos/runs";
        self.caller(tenant).try_send(Method::POST, path, Some(key), &json!({"key": key})).await
    }

    pub(super) fn acknowledged(&self, tenant: &str, run: String) {
        self.runs.lock().unwrap().push((tenant.to_owned(), run));
    }

    pub(super) fn runs(&self) -> Vec<(String, String)> {
        self.runs.lock().unwrap().clone()
    }

    /// One of the tenant's live runs.
    pub(super) async fn live_run(&self, tenant: &str) -> Option<Value> {
        for status in ["pending", "running", "waiting"] {
            let path = format!("/workflow-runs?limit=1&status={status}");
            let answer = self.caller(tenant).try_send(Method::GET, &path, None, &Value::Null).await;
            let Some(answer) = answer.filter(|answer| answer.status == 200) else {
                return Some(json!("the server does not answer"));
            };
            if let Some(run) = answer.body["items"].get(0) {
                return Some(run.clone());
            }
        }
        None
    }

    /// Notes that a worker received this.
    pub(super) fn dispatched(&self, dispatch: &Dispatch) {
        let mut fences = self.fences.lock().unwrap();
        let latest = fences.entry(dispatch.step.clone()).or_default();
        *latest = (*latest).max(dispatch.fence);
    }

    /// Whether another worker has received the step since.
    pub(super) fn is_stale(&self, dispatch: &Dispatch) -> bool {
        self.fences.lock().unwrap().get(&dispatch.step).is_some_and(|latest| *latest > dispatch.fence)
    }

    /// Notes an accepted result; `was_stale` is what [`is_stale`](Self::is_stale) returned before it was sent.
    pub(super) fn recorded(&self, dispatch: &Dispatch, was_stale: bool) {
        assert!(!was_stale, "a stale write was accepted: {dispatch:?}");
        let before = self.accepted.lock().unwrap().insert(dispatch.step.clone(), dispatch.attempt);
        assert!(
            before.is_none_or(|before| before == dispatch.attempt),
            "two attempts of one step were accepted: {before:?} and {dispatch:?}"
        );
    }

    pub(super) fn accepted(&self, step: &str) -> Option<u64> {
        self.accepted.lock().unwrap().get(step).copied()
    }
}
