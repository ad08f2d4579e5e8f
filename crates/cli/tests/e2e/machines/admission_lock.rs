//! Starts that wait for their tenant's lock in Redis.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::caps::{count, prepare, storm};
use super::monitor::Monitor;
use super::{Machines, replica};
use crate::load::Load;
use crate::server::{LIMIT, signal};

const LOCK: [&str; 2] = ["--admission-strategy", "lock"];
/// Short, so that a test sees a hold run out.
const SHORT_LOCK: [&str; 4] = ["--admission-strategy", "lock", "--admission-lock-ttl-ms", "500"];
const KEY: &str = "cordum:wf:run:admission:acme";

/// Until `GET` shows this.
async fn shows(machines: &Machines, key: &str, expected: &str) {
    let until = Instant::now() + LIMIT;
    loop {
        let value = machines.redis.command(&["GET", key]).await.unwrap();
        if value == expected {
            return;
        }
        assert!(Instant::now() < until, "{key} is {value:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn ten_starts_under_a_cap_of_two_are_two_and_eight_and_the_lock_tells_who_holds_it() {
    let machines = Machines::start_with(3, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    let monitor = Monitor::begin(machines.redis.port()).await;
    let answers = storm(&callers, 10, None).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 8), "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.text("code"), refused.number("limit")), ("max_concurrent_runs".to_owned(), 2));
    assert!(refused.number("retry_after_ms") >= 1_000);
    shows(&machines, KEY, "").await;
    machines.redis.command(&["ECHO", "all-was-seen"]).await.unwrap();
    let writes = monitor.writes_until("all-was-seen").await;
    let held: Vec<Value> = writes
        .iter()
        .filter(|(key, _)| key == KEY)
        .map(|(_, value)| serde_json::from_str(value).unwrap())
        .collect();
    assert_eq!(held.len(), 10, "each start had the lock once");
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
async fn the_key_stands_in_redis_with_its_owner_while_others_wait() {
    let machines = Machines::start_with(1, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 100).await;
    let storm = storm(&callers, 12, None);
    let look = async {
        let until = Instant::now() + LIMIT;
        loop {
            let value = machines.redis.command(&["GET", KEY]).await.unwrap();
            if let Ok(held) = serde_json::from_str::<Value>(&value) {
                return held;
            }
            assert!(Instant::now() < until, "nobody was seen in the lock");
        }
    };
    let (answers, held) = tokio::join!(storm, look);
    assert_eq!(count(&answers, 200), 12, "{answers:?}");
    let (instance, run) = held["owner"].as_str().unwrap().split_once('/').unwrap();
    assert!(
        instance.starts_with("i-") && answers.iter().any(|answer| answer.text("run_id") == run),
        "{held}"
    );
    assert!(held["token"].is_string() && held["fence"].is_u64() && held["expires_at"].is_u64(), "{held}");
    shows(&machines, KEY, "").await;
}

#[tokio::test]
async fn a_lock_that_an_outsider_holds_is_waited_for_two_seconds_and_left_alone() {
    let machines = Machines::start_with(2, &LOCK).await;
    let callers = machines.callers("acme");
    prepare(&callers, 2).await;
    machines.redis.command(&["SET", KEY, "an operator's hand", "PX", "5000"]).await.unwrap();
    let began = Instant::now();
    let answers = storm(&callers, 4, Some("k")).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(5), "{took:?}");
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), answer.text("code")), (503, "gate_unavailable".to_owned()));
        assert!(answer.text("error").starts_with("workflow concurrency gate unavailable"), "{answer:?}");
        assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
        assert!(answer.number("retry_after_ms") >= 1_000);
    }
    assert_eq!(machines.redis.command(&["GET", KEY]).await.unwrap(), "an operator's hand");
    // Another tenant has a lock of its own.
    let globex = machines.callers("globex");
    prepare(&globex, 2).await;
    globex[0].start("job", None, &json!({})).await.expect(200);
    shows(&machines, KEY, "").await;
    callers[0].start("job", Some("k"), &json!({"n": 1})).await.expect(200);
}

#[tokio::test]
async fn one_key_is_one_run_and_a_refused_key_is_free() {
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
    // Refused, the key is nobody's, and Redis shows it.
    callers[2].start("job", Some("later"), &json!({"n": 1})).await.expect(429);
    shows(&machines, "wf:run:idempotency:{acme}:job:later", "").await;
    let job = callers[0].claim("w", "work", 1).await.remove(0);
    callers[0].complete(&job, &json!({})).await.expect(200);
    callers[0].ended(runs.first().unwrap()).await;
    let answer = callers[1].start("job", Some("later"), &json!({"n": 7})).await.expect(200);
    assert_eq!(answer.body["replayed"], json!(false));
}

#[tokio::test]
async fn a_reservation_tells_its_run_fence_and_end_and_a_later_start_takes_it_over() {
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
    assert_eq!(values[1]["reservation"], Value::Null, "committed, it is reserved no more");
    // What a process that died has left behind.
    let dead = values[0].to_string().replace(&run, "01a1dc80-0000-7000-8000-000000000000");
    let other = "wf:run:idempotency:{acme}:job:dead";
    machines.redis.command(&["SET", other, &dead, "PX", "60000"]).await.unwrap();
    callers[0].limit(2).await;
    let answer = callers[0].start("job", Some("dead"), &json!({"n": 2})).await.expect(200);
    assert_eq!(answer.body["replayed"], json!(false));
}

#[tokio::test]
async fn a_replica_that_stands_still_past_its_lease_does_not_over_admit() {
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
async fn replicas_that_die_under_the_lock_cost_a_lease_and_nothing_else() {
    let mut machines = Machines::start_with(3, &SHORT_LOCK).await;
    let load = Load::begin(machines.callers("acme")).await;
    let mut random = ChaCha8Rng::seed_from_u64(816);
    for _ in 0..3 {
        load.goes_on_by(random.random_range(20..60)).await;
        let victim = random.random_range(0..machines.replicas.len());
        machines.replicas.remove(victim).kill();
        machines.replicas.push(replica(&machines.redis.url(), &machines.nats.url(), &SHORT_LOCK));
        load.direct_to(machines.callers("acme"));
    }
    load.goes_on_by(30).await;
    load.check().await;
}
