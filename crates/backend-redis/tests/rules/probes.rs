//! What can be seen of the servers, and of the processes on them.

use interlock_backend::inspection::{Probe, Probed};
use interlock_backend_redis::RedisStore;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};

use interlock_poll::until;

use super::{connect, name, server};

fn findings(probed: Vec<Probed>) -> Vec<Finding> {
    let found = probed.into_iter().filter_map(|probed| match probed {
        Probed::Found(finding) => Some(finding),
        Probed::Sound(_) => None,
        Probed::Unseen { invariant, reason } => panic!("{invariant} could not be seen: {reason}"),
    });
    found.collect()
}

#[tokio::test]
async fn a_server_that_may_evict_data_is_found_and_repaired() {
    let server = server().await;
    let store = RedisStore::open(connect(&server.url()).await, name("instance-1")).await.unwrap();
    assert_eq!(findings(store.probe().await), []);
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    let found = findings(store.probe().await);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].invariant == Invariant::MemoryPolicy && found[0].is_repairable, "{found:?}");
    assert_eq!(
        Probe::repair(&store, Invariant::MemoryPolicy, "elsewhere:1").await,
        Ok(RepairOutcome::NothingToDo)
    );
    assert_eq!(
        Probe::repair(&store, Invariant::MemoryPolicy, &found[0].subject).await,
        Ok(RepairOutcome::Repaired)
    );
    assert_eq!(
        Probe::repair(&store, Invariant::MemoryPolicy, &found[0].subject).await,
        Ok(RepairOutcome::NothingToDo)
    );
    assert_eq!(findings(store.probe().await), []);
    let others = Probe::repair(&store, Invariant::ConsumerGone, "x").await;
    assert_eq!(others, Ok(RepairOutcome::NothingToDo), "it belongs to another worker");
}

#[tokio::test]
async fn a_process_tells_with_its_pulse_how_it_keeps_time() {
    let server = server().await;
    let store = RedisStore::open(connect(&server.url()).await, name("instance-1")).await.unwrap();
    let rhythms = "sys:instances:rhythms:{:system}";
    let reported = async || server.command(&["HGET", rhythms, "instance-1"]).await.unwrap();
    let is_regular = |rhythm: &str| {
        let (ahead, silence) = rhythm.split_once(' ').unwrap();
        ahead == "0" && (500..5_000).contains(&silence.parse::<u64>().unwrap())
    };
    until("it has reported its rhythm", async || is_regular(&reported().await)).await;
    // Others that live, and are off; and one that is long gone.
    let now: u64 = server.command(&["TIME"]).await.unwrap().lines().next().unwrap().parse().unwrap();
    for (instance, seen_at, rhythm) in [
        ("fast", now, "5000 1000"),
        ("slow", now, "-1500 1000"),
        ("late", now, "0 7000"),
        ("gone", now - 60, "9999 9"),
    ] {
        let seen_at = format!("{seen_at}000");
        server.command(&["ZADD", "sys:instances:{:system}", &seen_at, instance]).await.unwrap();
        server.command(&["HSET", rhythms, instance, rhythm]).await.unwrap();
    }
    let live = store.live_instances().await.unwrap();
    let live: Vec<&str> = live.iter().map(interlock_model::InstanceId::as_str).collect();
    assert!(["fast", "slow", "late"].iter().all(|instance| live.contains(instance)), "{live:?}");
    assert!(!live.contains(&"gone"), "{live:?}");
    let found = findings(store.probe().await);
    let mut named: Vec<_> = found.iter().map(|found| (found.invariant, found.subject.as_str())).collect();
    named.sort_unstable();
    let (skew, lag) = (Invariant::ClockSkew, Invariant::RenewalLag);
    assert_eq!(named, [(skew, "fast"), (skew, "slow"), (lag, "late")]);
    assert!(found.iter().any(|found| found.detail.contains("5.0 s ahead")), "{found:?}");
}

#[tokio::test]
async fn what_cannot_be_seen_is_said() {
    let mut server = server().await;
    let store = RedisStore::open(connect(&server.url()).await, name("instance-1")).await.unwrap();
    server.kill().await.unwrap();
    let probed = store.probe().await;
    let unseen: Vec<_> = probed
        .iter()
        .map(|probed| match probed {
            Probed::Unseen { invariant, .. } => *invariant,
            Probed::Found(_) | Probed::Sound(_) => panic!("the server is down, but: {probed:?}"),
        })
        .collect();
    let all = [Invariant::MemoryPolicy, Invariant::MemoryShort, Invariant::ClockSkew, Invariant::RenewalLag];
    assert_eq!(unseen, all);
}
