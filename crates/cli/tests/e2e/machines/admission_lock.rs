//! Starts that wait for their tenant's lock in Redis.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use interlock_poll::{until, until_matches};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::caps::{count, prepare, storm};
use super::monitor::Monitor;
use super::{Machines, replica};
use crate::load::Load;
use crate::server::signal;

const LOCK: [&str; 2] = ["--admission-strategy", "lock"];
/// Short, so that a test sees a lease expire.
const SHORT_LOCK: [&str; 4] = ["--admission-strategy", "lock", "--admission-lock-ttl-ms", "500"];
const KEY: &str = "cordum:wf:run:admission:acme";

/// Waits until `GET` shows no value.
async fn is_free(machines: &Machines, key: &str) {
    let value = async || machines.redis.command(&["GET", key]).await.unwrap();
    until_matches(&format!("{key} is free"), value, String::is_empty).await;
}

#[tokio::test]
async fn ten_starts_under_a_cap_of_two_admit_two_and_the_lock_names_its_holder() {
    let machines = Machines::start_with(3, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    let monitor = Monitor::begin(machines.redis.port()).await;
    let answers = storm(&callers, 10, None).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 8), "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.text("code"), refused.number("limit")), ("max_concurrent_runs".to_owned(), 2));
    assert!(refused.number("retry_after_ms") >= 1_000);
    is_free(&machines, KEY).await;
    machines.redis.command(&["ECHO", "all-was-seen"]).await.unwrap();
    let writes = monitor.writes_until("all-was-seen").await;
    let held: Vec<Value> = writes
        .iter()
        .filter(|(key, _)| key == KEY)
        .map(|(_, value)| serde_json::from_str(value).unwrap())
        .collect();
    assert_eq!(held.len(), 10, "each start held the lock once");
    let fences: Vec<u64> = held.iter().map(|held| held["fence"].as_u64().unwrap()).collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let owners: BTreeSet<&str> = held.iter().map(|held| held["owner"].as_str().unwrap()).collect();
    assert_eq!(owners.len(), 10, "an owner is an instance and a run");
    for answer in answers.iter().filter(|answer| answer.status == 200) {
        let run = answer.text("run_id");
        assert!(owners.iter().any(|owner| owner.ends_with(&format!("/{run}"))), "{run} in {owners:?}");
    }
}

#[tokio::test]
async fn the_key_in_redis_names_the_owner_while_others_wait() {
    let machines = Machines::start_with(1, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 100_000).await;
    let is_seen = AtomicBool::new(false);
    let starts = async {
        let mut answers = Vec::new();
        while !is_seen.load(Ordering::Relaxed) {
            answers.extend(storm(&callers, 12, None).await);
        }
        answers
    };
    let look = async {
        let held = until("the lock is held", async || {
            let value = machines.redis.command(&["GET", KEY]).await.unwrap();
            serde_json::from_str::<Value>(&value).ok()
        });
        let held = held.await;
        is_seen.store(true, Ordering::Relaxed);
        held
    };
    let (answers, held) = tokio::join!(starts, look);
    assert_eq!(count(&answers, 200), answers.len(), "{answers:?}");
    let (instance, run) = held["owner"].as_str().unwrap().split_once('/').unwrap();
    assert!(
        instance.starts_with("i-") && answers.iter().any(|answer| answer.text("run_id") == run),
        "{held}"
    );
    assert!(held["token"].is_string() && held["fence"].is_u64() && held["expires_at"].is_u64(), "{held}");
    is_free(&machines, KEY).await;
}

#[tokio::test]
async fn starts_wait_two_seconds_for_a_foreign_lock_and_leave_it_alone() {
    let machines = Machines::start_with(2, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    machines.redis.command(&["SET", KEY, "an operator's hand"]).await.unwrap();
    let began = Instant::now();
    let answers = storm(&callers, 4, Some("k")).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), answer.text("code")), (503, "gate_unavailable".to_owned()));
        assert!(answer.text("error").starts_with("workflow concurrency gate unavailable"), "{answer:?}");
        assert!(answer.text("error").contains(&format!("({KEY} has")), "{answer:?}");
        assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
        assert!(answer.number("retry_after_ms") >= 1_000);
    }
    assert_eq!(machines.redis.command(&["GET", KEY]).await.unwrap(), "an operator's hand");
    // Another tenant has its own lock.
    let globex = machines.callers("globex");
    prepare(&globex, 2).await;
    globex[0].start("job", None, &json!({})).await.expect(200);
    machines.redis.command(&["DEL", KEY]).await.unwrap();
    callers[0].start("job", Some("k"), &json!({"n": 1})).await.expect(200);
}

#[tokio::test]
async fn one_key_starts_one_run_and_a_refused_start_frees_its_key() {
    let machines = Machines::start_with(3, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 1).await;
    let answers = storm(&callers, 30, Some("one")).await;
    assert_eq!(count(&answers, 200), 30, "{answers:?}");
    let runs: BTreeSet<String> = answers.iter().map(|answer| answer.text("run_id")).collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.body["replayed"] == json!(false)).count(), 1);
    let reused = callers[1].start("job", Some("one"), &json!({"n": 2})).await.expect(422);
    assert_eq!(
        (reused.text("code"), Some(&reused.text("run_id"))),
        ("idempotency_key_reused".into(), runs.first())
    );
    // A refused start leaves no key in Redis.
    callers[2].start("job", Some("later"), &json!({"n": 1})).await.expect(429);
    is_free(&machines, "wf:run:idempotency:{acme}:job:later").await;
    let job = callers[0].claim("w", "work", 1).await.remove(0);
    callers[0].complete(&job, &json!({})).await.expect(200);
    callers[0].ended(runs.first().unwrap()).await;
    let answer = callers[1].start("job", Some("later"), &json!({"n": 7})).await.expect(200);
    assert_eq!(answer.body["replayed"], json!(false));
}

#[tokio::test]
async fn a_reservation_names_its_run_fence_and_expiry_and_a_later_start_takes_it_over() {
    let machines = Machines::start_with(1, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 1).await;
    let key = "wf:run:idempotency:{acme}:job:k";
    let monitor = Monitor::begin(machines.redis.port()).await;
    let run = callers[0].start("job", Some("k"), &json!({"n": 1})).await.expect(200).text("run_id");
    machines.redis.command(&["ECHO", "all-was-seen"]).await.unwrap();
    let writes = monitor.writes_until("all-was-seen").await;
    let values: Vec<Value> = writes
        .iter()
        .filter(|(name, _)| name == key)
        .map(|(_, value)| serde_json::from_str(value).unwrap())
        .collect();
    assert_eq!(values.len(), 2, "{values:?}");
    assert!(values.iter().all(|value| value["run"] == json!(run)), "{values:?}");
    let reservation = &values[0]["reservation"];
    assert!(reservation["fence"].is_u64() && reservation["until"].is_u64(), "{values:?}");
    assert_eq!(values[1]["reservation"], Value::Null, "a committed key has no reservation");
    // What a process leaves behind when it dies.
    let dead = values[0].to_string().replace(&run, "01a1dc80-0000-7000-8000-000000000000");
    let other = "wf:run:idempotency:{acme}:job:dead";
    machines.redis.command(&["SET", other, &dead, "PX", "60000"]).await.unwrap();
    callers[0].limit(2).await;
    let answer = callers[0].start("job", Some("dead"), &json!({"n": 2})).await.expect(200);
    assert_eq!(answer.body["replayed"], json!(false));
}

#[tokio::test]
async fn a_replica_that_is_paused_past_its_lease_exceeds_no_cap() {
    let machines = Machines::start_with(2, &SHORT_LOCK).await;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for round in 0..4 {
        let callers = machines.callers(&format!("tenant-{round}"));
        prepare(&callers, 3).await;
        let pid = machines.replicas[0].pid();
        let pause = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(random.random_range(1..12))).await;
                signal(pid, "STOP");
                tokio::time::sleep(Duration::from_millis(700)).await;
                signal(pid, "CONT");
            }
        };
        let (answers, ()) = tokio::join!(storm(&callers, 40, None), pause);
        assert!(count(&answers, 200) <= 3, "{answers:?}");
        assert_eq!(count(&answers, 200) + count(&answers, 429) + count(&answers, 503), 40, "{answers:?}");
        let key = format!("wf:runs:active:{{tenant-{round}}}");
        let active: usize = machines.redis.command(&["SCARD", &key]).await.unwrap().parse().unwrap();
        assert_eq!(active, count(&answers, 200));
    }
}

#[tokio::test]
async fn replicas_that_die_with_the_lock_delay_starts_by_one_lease() {
    let mut machines = Machines::start_with(3, &SHORT_LOCK).await;
    let load = Load::begin(machines.callers("acme")).await;
    let mut random = ChaCha8Rng::seed_from_u64(816);
    for _ in 0..3 {
        load.continues_by(random.random_range(20..60)).await;
        let victim = random.random_range(0..machines.replicas.len());
        machines.replicas.remove(victim).kill();
        machines.replicas.push(replica(&machines.redis.url(), &machines.nats.url(), &SHORT_LOCK));
        load.direct_to(machines.callers("acme"));
    }
    load.continues_by(30).await;
    load.check().await;
}
