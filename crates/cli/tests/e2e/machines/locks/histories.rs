//! Clients of three replicas record what they see of a lock while replicas are paused and Redis is killed, and the
//! history is checked for linearizability.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;
use interlock_histories::{HistoryEvent, HistoryVerdict, LockAction, check};
use interlock_model::Timestamp;
use interlock_poll::until;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::Machines;
use super::history;
use crate::server::{Answer, Caller, signal};

const TTL_MS: u64 = 300;
const TTL: Duration = Duration::from_millis(TTL_MS);
const CLIENTS: u32 = 6;
/// The largest difference between the store's clock and ours: both are the machine's, and the store writes whole
/// milliseconds.
const SLACK: i64 = 2_000;
const SEARCH_LIMIT: Duration = Duration::from_mins(1);

fn now() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "client times are compared with the times of the store")]
    let now = std::time::SystemTime::now();
    i64::try_from(now.duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A history is worth checking after this number of grants, with late writes among them.
const GRANTS_MIN: u32 = 30;
/// How many faults are injected: at least, and at most.
const FAULTS: std::ops::Range<u32> = 9..90;

/// A resource that compares fences, as every resource behind a lock must.
#[derive(Default)]
struct GuardedResource {
    largest: Mutex<u64>,
    grants: AtomicU32,
    refused: AtomicU32,
}

impl GuardedResource {
    fn write(&self, fence: u64) -> LockAction {
        let mut largest = self.largest.lock().unwrap();
        if fence < *largest {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return LockAction::WriteRefused { fence };
        }
        *largest = fence;
        LockAction::Written { fence }
    }

    fn has_seen_enough(&self) -> bool {
        self.grants.load(Ordering::Relaxed) >= GRANTS_MIN && self.refused.load(Ordering::Relaxed) > 0
    }
}

struct Client {
    number: u32,
    caller: Caller,
    random: ChaCha8Rng,
    resource: String,
    guarded: Arc<GuardedResource>,
    history: Vec<HistoryEvent>,
}

impl Client {
    /// Repeats the request until it is answered, so that its outcome is known.
    async fn ask(&self, path: &str, body: &Value) -> Answer {
        until(&format!("{path} {body} is answered"), async || {
            let answer = self.caller.try_send(Method::POST, path, None, body).await;
            answer.filter(|answer| answer.status.as_u16() < 500)
        })
        .await
    }

    fn note(&mut self, called: i64, action: LockAction) {
        self.history.push(HistoryEvent { client: self.number, action, called, answered: now() });
    }

    async fn turn(&mut self, round: u32) {
        let request = json!({
            "resource": self.resource, "owner": format!("client-{}", self.number), "mode": "exclusive",
            "ttl_ms": TTL_MS, "request_id": format!("{}-{round}", self.number),
        });
        let called = now();
        let answer = self.ask("/locks/acquire", &request).await;
        if answer.status == 409 {
            self.note(called, LockAction::Held);
            let pause = self.random.random_range(5..60);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            return;
        }
        let grant = answer.expect(200);
        let (token, fence) = (grant.text("token"), grant.number("fence"));
        self.guarded.grants.fetch_add(1, Ordering::Relaxed);
        self.note(called, LockAction::Granted { token: token.clone(), fence });
        for _ in 0..self.random.random_range(1..4) {
            self.work(&token, fence).await;
        }
        if self.random.random_bool(0.8) {
            self.say("/locks/release", &token, LockAction::Ended { token: token.clone() }).await;
        }
        let called = now();
        let late = self.guarded.write(fence);
        self.note(called, late);
    }

    async fn work(&mut self, token: &str, fence: u64) {
        // Sometimes a pause that outlasts the lease, so that the write may be late.
        let most = if self.random.random_bool(0.15) { 500 } else { 40 };
        let pause = self.random.random_range(1..most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let called = now();
        let action = self.guarded.write(fence);
        self.note(called, action);
        if self.random.random_bool(0.5) {
            self.say("/locks/renew", token, LockAction::Renewed { token: token.to_owned() }).await;
        }
    }

    async fn say(&mut self, path: &str, token: &str, done: LockAction) {
        let mut body = json!({"resource": self.resource, "token": token});
        if path.ends_with("renew") {
            body["ttl_ms"] = json!(TTL_MS);
        }
        let called = now();
        let answer = self.ask(path, &body).await;
        if answer.status == 409 {
            assert_eq!(answer.text("code"), "stale_fence", "{answer:?}");
            self.note(called, LockAction::Stale { token: token.to_owned() });
        } else {
            assert!(answer.status.is_success(), "{answer:?}");
            self.note(called, done);
        }
    }
}

/// Adds what only the store knows: leases that expired, and grants whose answer was lost.
fn complete(history: &mut Vec<HistoryEvent>, events: &[Value]) {
    let known: Vec<String> = history.iter().filter_map(granted).map(|(token, _)| token.clone()).collect();
    for event in events {
        let token = event["token"].as_str().unwrap().to_owned();
        let at: Timestamp = event["time"].as_str().unwrap().parse().unwrap();
        let is_unknown = !known.contains(&token);
        let action = match (event["event"].as_str().unwrap(), event["cause"].as_str().unwrap()) {
            ("granted", _) if is_unknown => {
                LockAction::Granted { token, fence: event["fence"].as_u64().unwrap() }
            }
            ("granted", _) | ("ended", "released") => continue,
            _ => LockAction::Ended { token },
        };
        let at = i64::try_from(at.as_micros()).unwrap();
        history.push(HistoryEvent { client: CLIENTS, action, called: at - SLACK, answered: at + SLACK });
    }
}

/// The token and the fence of a grant.
fn granted(event: &HistoryEvent) -> Option<(&String, u64)> {
    if let LockAction::Granted { token, fence } = &event.action { Some((token, *fence)) } else { None }
}

/// The history with a second grant between a grant and its renewal.
fn plant_a_double_grant(history: &[HistoryEvent]) -> Vec<HistoryEvent> {
    let is_renewed = |later: &&HistoryEvent| matches!(later.action, LockAction::Renewed { .. });
    let renewed = history.iter().find(is_renewed).expect("a lease was renewed");
    let is_its = |earlier: &&HistoryEvent| {
        granted(earlier)
            .is_some_and(|(token, _)| renewed.action == LockAction::Renewed { token: token.clone() })
    };
    let first = history.iter().find(is_its).expect("the lease was granted");
    let fence = granted(first).map_or(0, |(_, fence)| fence + 1);
    let between = i64::midpoint(first.answered, renewed.called);
    let action = LockAction::Granted { token: "planted".to_owned(), fence };
    let planted = HistoryEvent { client: CLIENTS + 1, action, called: between, answered: between + 1 };
    history.iter().cloned().chain([planted]).collect()
}

/// Injects faults until every history is worth checking.
async fn inject_faults(machines: &mut Machines, resources: &[Arc<GuardedResource>]) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for round in 0..FAULTS.end {
        if round >= FAULTS.start && resources.iter().all(|resource| resource.has_seen_enough()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(300..700))).await;
        if round % 3 == 2 {
            machines.redis.kill().await.unwrap();
            machines.redis.start_again().await.unwrap();
        } else {
            let replica = machines.replicas[random.random_range(0..3)].pid();
            signal(replica, "STOP");
            tokio::time::sleep(TTL + Duration::from_millis(random.random_range(50..300))).await;
            signal(replica, "CONT");
        }
    }
}

#[tokio::test]
async fn l2_what_clients_see_under_pauses_and_restarts_can_be_explained() {
    let mut machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    let is_over = Arc::new(AtomicBool::new(false));
    let resources = ["north", "south"];
    let guarded: Vec<Arc<GuardedResource>> = resources.iter().map(|_| Arc::default()).collect();
    let clients = resources.iter().zip(&guarded).flat_map(|(resource, guarded)| {
        (0..CLIENTS)
            .map(|number| Client {
                number,
                caller: callers[number as usize % 3].clone(),
                random: ChaCha8Rng::seed_from_u64(u64::from(number)),
                resource: (*resource).to_owned(),
                guarded: guarded.clone(),
                history: Vec::new(),
            })
            .collect::<Vec<_>>()
    });
    let clients: Vec<_> = clients
        .map(|mut client| {
            let is_over = is_over.clone();
            tokio::spawn(async move {
                let mut round = 0;
                while !is_over.load(Ordering::Relaxed) {
                    client.turn(round).await;
                    round += 1;
                }
                client
            })
        })
        .collect();
    inject_faults(&mut machines, &guarded).await;
    is_over.store(true, Ordering::Relaxed);
    let clients: Vec<Client> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    for (resource, guarded) in resources.iter().zip(&guarded) {
        assert!(guarded.has_seen_enough(), "{resource}: the history is too short");
        let of_it = clients.iter().filter(|client| client.resource == *resource);
        let mut seen: Vec<HistoryEvent> = of_it.flat_map(|client| client.history.iter().cloned()).collect();
        complete(&mut seen, &history(&callers[0], resource).await);
        assert_eq!(
            check(&seen, SEARCH_LIMIT),
            HistoryVerdict::Linearizable,
            "{resource}: {} events",
            seen.len()
        );
        assert_eq!(check(&plant_a_double_grant(&seen), SEARCH_LIMIT), HistoryVerdict::Impossible);
    }
}
