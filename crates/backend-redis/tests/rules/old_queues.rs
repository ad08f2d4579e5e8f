//! Queues as an earlier version left them: with times in milliseconds as the scores of runs that wait by priority.

use std::sync::Arc;

use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{ListQueuedRuns, SetLimits};
use interlock_backend::{PageRequest, Store};
use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::limit::document::{OnFull, QueueOrder};
use interlock_model::limit::place::{PRIORITY_SCORES, StartPriority};
use interlock_model::limit::{GroupKey, Limits};
use interlock_servers::Redis;

use super::{acme, name, open, request, server, started};

const QUEUE: &str = "wf:limit:queue:{acme}:tenant-runs:";

async fn cap(store: &Store, runs_max: u32, order: QueueOrder) {
    let on_full = Some(OnFull::Queue);
    let limits = Limits { runs_max: Some(runs_max), on_full, queue_order: Some(order), ..Limits::default() };
    let set = SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false };
    store.call(set).await.unwrap();
}

async fn waiting(store: &Store, number: u64, priority: u8) -> RunId {
    let mut start = request(number, false);
    Arc::make_mut(&mut start.request).priority = StartPriority::try_from(priority).unwrap();
    let answer = store.call(start).await.unwrap();
    let StartOutcome::Queued { run, .. } = answer else { panic!("it does not wait: {answer:?}") };
    run
}

/// Gives a run the score that an earlier version gave it.
async fn age(server: &Redis, run: RunId) {
    let row = format!("wf:run:{{acme}}:{run}");
    let place = server.command(&["HGET", &row, "waiting"]).await.unwrap();
    let mut parts: Vec<String> = place.split(' ').map(str::to_owned).collect();
    let score = parts[1].parse::<u64>().unwrap() - PRIORITY_SCORES;
    parts[1] = score.to_string();
    server.command(&["HSET", &row, "waiting", &parts.join(" ")]).await.unwrap();
    let member = format!("{:015}/{run}", parts[2].parse::<u64>().unwrap());
    assert_eq!(server.command(&["ZADD", QUEUE, "XX", "CH", &parts[1], &member]).await.unwrap(), "1");
}

async fn queue(store: &Store) -> Vec<RunId> {
    let page = PageRequest { limit: 100, after: None };
    let list = ListQueuedRuns { tenant: acme(), name: name("tenant-runs"), group: GroupKey::default(), page };
    store.call(list).await.unwrap().items.into_iter().map(|queued| queued.run).collect()
}

#[tokio::test]
async fn a_queue_by_priority_of_an_earlier_version_drains_in_its_order() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 100, false).await;
    cap(&store, 1, QueueOrder::Priority).await;
    let old = [waiting(&store, 1, 4).await, waiting(&store, 2, 9).await, waiting(&store, 3, 0).await];
    for run in old {
        age(&server, run).await;
    }
    let urgent = waiting(&store, 4, 9).await;
    cap(&store, 2, QueueOrder::Priority).await;
    assert_eq!(queue(&store).await, [urgent, old[0], old[2]], "the old one with the highest priority went");
    cap(&store, 3, QueueOrder::Priority).await;
    assert_eq!(queue(&store).await, [old[0], old[2]]);
    cap(&store, 10, QueueOrder::Priority).await;
    assert_eq!(queue(&store).await, []);
}

#[tokio::test]
async fn runs_of_an_earlier_version_are_not_overtaken_in_a_queue_that_is_by_arrival_now() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 100, false).await;
    cap(&store, 1, QueueOrder::Priority).await;
    let old = [waiting(&store, 1, 0).await, waiting(&store, 2, 4).await];
    for run in old {
        age(&server, run).await;
    }
    // Nothing was granted between the upgrade and the change.
    cap(&store, 0, QueueOrder::Fifo).await;
    let newer = waiting(&store, 3, 9).await;
    cap(&store, 2, QueueOrder::Fifo).await;
    assert_eq!(queue(&store).await, [old[1], newer]);
    cap(&store, 3, QueueOrder::Fifo).await;
    assert_eq!(queue(&store).await, [newer]);
}
