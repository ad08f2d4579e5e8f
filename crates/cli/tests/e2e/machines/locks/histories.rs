//! What clients of three replicas saw of a lock, with replicas paused and Redis killed in between, and whether it can
//! be explained.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::join_all;
use interlock_histories::{Act, Seen, Verdict, check};
use interlock_model::Timestamp;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::Machines;
use super::history;
use crate::server::{Answer, Caller, LIMIT, signal};

const TTL_MS: u64 = 300;
const TTL: Duration = Duration::from_millis(TTL_MS);
const CLIENTS: u32 = 6;
/// How far the store's clock and ours may be apart when the store tells when something happened: both are the
/// machine's, and the store tells whole milliseconds.
const SLACK: i64 = 2_000;
const PATIENCE: Duration = Duration::from_mins(1);

fn now() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "what was seen is compared with what the store wrote down")]
    let now = std::time::SystemTime::now();
    i64::try_from(now.duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A history is worth checking after so many holds, some of them late.
const GRANTS_MIN: u32 = 30;
/// Something happens to a replica or to Redis so often at least, and at most.
const DISTURBANCES: std::ops::Range<u32> = 9..90;

/// A place that compares fences, as whoever is guarded by a lock must.
#[derive(Default)]
struct Guarded {
    largest: Mutex<u64>,
    grants: AtomicU32,
    refused: AtomicU32,
}

impl Guarded {
    fn write(&self, fence: u64) -> Act {
        let mut largest = self.largest.lock().unwrap();
        if fence < *largest {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Act::WriteRefused { fence };
        }
        *largest = fence;
        Act::Written { fence }
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
    guarded: Arc<Guarded>,
    seen: Vec<Seen>,
}

impl Client {
    /// Says the same until it is answered: what became of it before is then known.
    async fn ask(&self, path: &str, body: &Value) -> Answer {
        let until = Instant::now() + LIMIT;
        loop {
            let answer = self.caller.try_send(Method::POST, path, None, body).await;
            match answer {
                Some(answer) if answer.status.as_u16() < 500 => return answer,
                _ => assert!(Instant::now() < until, "no answer to {path} {body}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn note(&mut self, called: i64, act: Act) {
        self.seen.push(Seen { client: self.number, act, called, answered: now() });
    }

    async fn turn(&mut self, round: u32) {
        let asked = json!({
            "resource": self.resource, "owner": format!("client-{}", self.number), "mode": "exclusive",
            "ttl_ms": TTL_MS, "request_id": format!("{}-{round}", self.number),
        });
        let called = now();
        let answer = self.ask("/locks/acquire", &asked).await;
        if answer.status == 409 {
            self.note(called, Act::Held);
            let pause = self.random.random_range(5..60);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            return;
        }
        let grant = answer.expect(200);
        let (token, fence) = (grant.text("token"), grant.number("fence"));
        self.guarded.grants.fetch_add(1, Ordering::Relaxed);
        self.note(called, Act::Granted { token: token.clone(), fence });
        for _ in 0..self.random.random_range(1..4) {
            self.work(&token, fence).await;
        }
        if self.random.random_bool(0.8) {
            self.say("/locks/release", &token, Act::Ended { token: token.clone() }).await;
        }
        let called = now();
        let late = self.guarded.write(fence);
        self.note(called, late);
    }

    async fn work(&mut self, token: &str, fence: u64) {
        // Sometimes a pause that outlasts the lease: whoever writes then may be late.
        let most = if self.random.random_bool(0.15) { 500 } else { 40 };
        let pause = self.random.random_range(1..most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let called = now();
        let act = self.guarded.write(fence);
        self.note(called, act);
        if self.random.random_bool(0.5) {
            self.say("/locks/renew", token, Act::Renewed { token: token.to_owned() }).await;
        }
    }

    async fn say(&mut self, path: &str, token: &str, done: Act) {
        let mut body = json!({"resource": self.resource, "token": token});
        if path.ends_with("renew") {
            body["ttl_ms"] = json!(TTL_MS);
        }
        let called = now();
        let answer = self.ask(path, &body).await;
        if answer.status == 409 {
            assert_eq!(answer.text("code"), "stale_fence", "{answer:?}");
            self.note(called, Act::Stale { token: token.to_owned() });
        } else {
            assert!(answer.status.is_success(), "{answer:?}");
            self.note(called, done);
        }
    }
}

/// Adds what only the store knows: holds that ran out, and grants whose answer nobody got.
fn complete(seen: &mut Vec<Seen>, events: &[Value]) {
    let heard_of: Vec<String> = seen.iter().filter_map(granted).map(|(token, _)| token.clone()).collect();
    for event in events {
        let token = event["token"].as_str().unwrap().to_owned();
        let at: Timestamp = event["time"].as_str().unwrap().parse().unwrap();
        let is_unheard = !heard_of.contains(&token);
        let act = match (event["event"].as_str().unwrap(), event["cause"].as_str().unwrap()) {
            ("granted", _) if is_unheard => Act::Granted { token, fence: event["fence"].as_u64().unwrap() },
            ("granted", _) | ("ended", "released") => continue,
            _ => Act::Ended { token },
        };
        let at = i64::try_from(at.as_micros()).unwrap();
        seen.push(Seen { client: CLIENTS, act, called: at - SLACK, answered: at + SLACK });
    }
}

/// The token and the fence of a hold that began there.
fn granted(seen: &Seen) -> Option<(&String, u64)> {
    if let Act::Granted { token, fence } = &seen.act { Some((token, *fence)) } else { None }
}

/// A second grant while the first holder is known to hold.
fn plant_a_double_grant(seen: &[Seen]) -> Vec<Seen> {
    let is_renewed = |later: &&Seen| matches!(later.act, Act::Renewed { .. });
    let renewed = seen.iter().find(is_renewed).expect("somebody renewed");
    let is_its = |earlier: &&Seen| {
        granted(earlier).is_some_and(|(token, _)| renewed.act == Act::Renewed { token: token.clone() })
    };
    let first = seen.iter().find(is_its).expect("it had been granted");
    let fence = granted(first).map_or(0, |(_, fence)| fence + 1);
    let between = i64::midpoint(first.answered, renewed.called);
    let act = Act::Granted { token: "planted".to_owned(), fence };
    let planted = Seen { client: CLIENTS + 1, act, called: between, answered: between + 1 };
    seen.iter().cloned().chain([planted]).collect()
}

/// Disturbs until every history is worth checking.
async fn disturb(machines: &mut Machines, places: &[Arc<Guarded>]) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for round in 0..DISTURBANCES.end {
        if round >= DISTURBANCES.start && places.iter().all(|place| place.has_seen_enough()) {
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
    let places: Vec<Arc<Guarded>> = resources.iter().map(|_| Arc::default()).collect();
    let clients = resources.iter().zip(&places).flat_map(|(resource, guarded)| {
        (0..CLIENTS)
            .map(|number| Client {
                number,
                caller: callers[number as usize % 3].clone(),
                random: ChaCha8Rng::seed_from_u64(u64::from(number)),
                resource: (*resource).to_owned(),
                guarded: guarded.clone(),
                seen: Vec::new(),
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
    disturb(&mut machines, &places).await;
    is_over.store(true, Ordering::Relaxed);
    let clients: Vec<Client> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    for (resource, place) in resources.iter().zip(&places) {
        assert!(place.has_seen_enough(), "{resource}: too little happened to tell");
        let of_it = clients.iter().filter(|client| client.resource == *resource);
        let mut seen: Vec<Seen> = of_it.flat_map(|client| client.seen.iter().cloned()).collect();
        complete(&mut seen, &history(&callers[0], resource).await);
        assert_eq!(check(&seen, PATIENCE), Verdict::Explained, "{resource}: {} acts", seen.len());
        assert_eq!(check(&plant_a_double_grant(&seen), PATIENCE), Verdict::Refuted);
    }
}
