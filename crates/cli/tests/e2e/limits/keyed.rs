//! One run per key and ten of the tenant, for a thousand starts at once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{Caller, LIMIT, Server, put, tenant};

const KEYS: usize = 50;
const STARTS_PER_KEY: usize = 20;
const TENANT_RUNS: usize = 10;
const WORKERS: usize = 4;

/// The keys whose jobs are with a worker now.
#[derive(Default)]
struct Busy {
    keys: BTreeSet<String>,
    most: usize,
    done: usize,
}

pub(crate) async fn never_two_of_a_key_and_all_end(server: &Server) {
    let caller = tenant(server, "keyed").await;
    put(&caller, "per-key", json!({"key": "input.key", "max_runs": 1, "on_full": "queue"})).await;
    let own = json!({"max_runs": TENANT_RUNS, "on_full": "queue", "queue": {"max": 2_000}});
    put(&caller, "tenant-runs", own).await;
    let busy = Mutex::new(Busy::default());
    let starts = (0..KEYS * STARTS_PER_KEY).map(|number| {
        let caller = &caller;
        async move {
            let (input, key) = (json!({"key": format!("k{}", number % KEYS)}), format!("start-{number}"));
            let answer = caller.start("job", Some(&key), &input).await;
            assert!(matches!(answer.status.as_u16(), 200 | 202), "{answer:?}");
            answer.text("run_id")
        }
    });
    let work = join_all((0..WORKERS).map(|number| work(&caller, &busy, number)));
    let (runs, _) = tokio::join!(join_all(starts), work);
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), KEYS * STARTS_PER_KEY, "each start has its run");
    for run in &runs {
        assert_eq!(caller.ended(run).await["status"], "succeeded");
    }
    let Busy { most, .. } = busy.into_inner().unwrap();
    assert!(most > 1, "runs of several keys were in progress at once: {most}");
    let usage = caller.get("/limits/per-key").await.expect(200).body["usage"].clone();
    assert_eq!((&usage["live"], &usage["queued"]), (&json!(0), &json!(0)), "nothing is left behind");
}

/// Works until all is done.
async fn work(caller: &Caller, busy: &Mutex<Busy>, number: usize) {
    let worker = format!("/workers/w{number}/claim");
    let until = Instant::now() + 4 * LIMIT;
    while with(busy, |busy| busy.done) < KEYS * STARTS_PER_KEY {
        let claim = json!({"topics": ["work"], "max_jobs": 5, "wait_ms": 200});
        let claimed = timeout_at(until, caller.post(&worker, claim)).await.expect("all runs end in time");
        let jobs = claimed.expect(200).body["jobs"].as_array().unwrap().clone();
        for job in &jobs {
            with(busy, |busy| {
                let key = key_of(job);
                assert!(busy.keys.insert(key.clone()), "two runs of {key} at once");
                assert!(busy.keys.len() <= TENANT_RUNS, "more than {TENANT_RUNS} at once: {:?}", busy.keys);
                busy.most = busy.most.max(busy.keys.len());
            });
        }
        for job in &jobs {
            // Before the answer: the next run of the key may have started by then.
            with(busy, |busy| busy.keys.remove(&key_of(job)));
            caller.complete(job, &json!({})).await.expect(200);
            with(busy, |busy| busy.done += 1);
        }
    }
}

fn with<T>(busy: &Mutex<Busy>, change: impl FnOnce(&mut Busy) -> T) -> T {
    change(&mut busy.lock().unwrap_or_else(PoisonError::into_inner))
}

fn key_of(job: &Value) -> String {
    job["input"]["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn fifty_keys_of_twenty_starts_run_one_at_a_time_each_and_ten_together() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    never_two_of_a_key_and_all_end(&server).await;
}
