//! Large documents: sent ahead of their call in pieces, touched by no script, and gone with what they belong to.

use std::time::Duration;

use interlock_backend::jobs::Report;
use interlock_backend::verbs::{AcquireRun, DeleteRun, ReadRun, RecordResult};
use interlock_backend::{Effect, Store, StoreError};
use interlock_backend_redis::connect::Connection;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::step::StepRun;
use interlock_model::{Fence, StepKey};
use interlock_servers::Redis;
use serde_json::{Value, json};

use super::cutting::CuttingProxy;
use super::{LEASE, acme, claim, connect, idle, name, open, server, started};

/// Of several pieces, with characters that do not end where a piece does.
fn large() -> Value {
    json!({"text": "🦀é".repeat(100_000), "last": [1, 2]})
}

async fn keys(server: &Redis, pattern: &str) -> Vec<String> {
    let mut found: Vec<String> =
        server.command(&["KEYS", pattern]).await.unwrap().lines().map(str::to_owned).collect();
    found.sort();
    found
}

/// The result of the job that is held under this fence.
fn result(held: &interlock_backend::jobs::Claimed, fence: Fence, output: Value) -> RecordResult {
    let outcome = JobOutcome::completed(output);
    RecordResult { tenant: acme(), job: held.job.id.clone(), fence, outcome, edge: None }
}

async fn acquired_output(store: &Store, run: interlock_model::RunId) -> Option<Value> {
    let acquire = AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE };
    let taken = store.call(acquire).await.unwrap()?;
    let turn = idle(&taken);
    let output = match taken.inbox.first() {
        Some(InboxEvent::Job { outcome: JobOutcome::Completed { output, .. }, .. }) => Some(output.clone()),
        _ => None,
    };
    let _ = store.call(turn).await.unwrap();
    output
}

#[tokio::test]
async fn a_large_document_is_in_no_call_of_a_script_and_goes_with_its_run() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await.unwrap();
    assert_eq!(store.call(result(&held, held.lease.fence, large())).await.unwrap(), Report::Recorded);
    assert_eq!(keys(&server, "wf:text:*").await, [format!("wf:text:{{acme}}:outcome:{}", held.job.id)]);
    let acquire = AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE };
    let taken = store.call(acquire.clone()).await.unwrap().unwrap();
    let [InboxEvent::Job { outcome: JobOutcome::Completed { output, .. }, .. }] = &taken.inbox[..] else {
        panic!("the result is in the inbox, not {:?}", taken.inbox.len())
    };
    assert!(*output == large());
    let key = StepKey::whole(&name("build"));
    let mut turn = idle(&taken);
    turn.head.output = Some(large());
    turn.steps = vec![(key.clone(), StepRun { output: Some(large()), ..StepRun::default() })];
    let _ = store.call(turn).await.unwrap();
    let texts = [format!("wf:text:{{acme}}:head:{run}"), format!("wf:text:{{acme}}:step:{run}:build")];
    assert_eq!(keys(&server, "wf:text:*").await, texts, "the inbox has none left");
    let found = store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap();
    assert!(found.head.output == Some(large()) && found.steps[&key].output == Some(large()));

    // What is large no more stands in its field again.
    let _ = store.call(result(&held, held.lease.fence, large())).await.unwrap();
    let cancel = interlock_backend::verbs::RequestCancel { tenant: acme(), run, by: "ops".to_owned() };
    let _ = store.call(cancel).await.unwrap();
    let mut turn = idle(&store.call(acquire).await.unwrap().unwrap());
    turn.head.output = None;
    turn.steps = vec![(key.clone(), StepRun::default())];
    let _ = store.call(turn).await.unwrap();
    assert_eq!(keys(&server, "wf:text:*").await, <[String; 0]>::default());
    let found = store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap();
    assert_eq!((found.head.output, &found.steps[&key]), (None, &StepRun::default()));

    let log = server.command(&["SLOWLOG", "GET", "-1"]).await.unwrap();
    let longest = log.lines().filter_map(|line| line.split("... (").nth(1)?.split(' ').next()?.parse().ok());
    let longest: usize = longest.max().unwrap();
    // The longest is a script itself, on its first call.
    assert!(longest < 128 << 10, "an argument of {longest} bytes");
    store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    for pattern in ["wf:text:*", "wf:sent:*", "wf:run:texts:*"] {
        assert_eq!(keys(&server, pattern).await, <[String; 0]>::default());
    }
}

#[tokio::test]
async fn large_documents_of_a_deleted_run_are_gone_too() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let _ = store.call(result(&held, held.lease.fence, large())).await.unwrap();
    store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert_eq!(keys(&server, "wf:text:*").await, <[String; 0]>::default());
    assert_eq!(keys(&server, "wf:run:texts:*").await, <[String; 0]>::default());
}

#[tokio::test]
async fn a_rejected_call_leaves_nothing_of_its_large_document() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let stale = Fence::new(held.lease.fence.number() + 1);
    let refused = store.call(result(&held, stale, large())).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    assert_eq!(keys(&server, "wf:sent:*").await, <[String; 0]>::default());
    assert_eq!(keys(&server, "wf:text:*").await, <[String; 0]>::default());
}

#[tokio::test]
async fn a_large_document_whose_pieces_were_interrupted_is_sent_again() {
    let server = server().await;
    let proxy = CuttingProxy::before(server.port()).await;
    let store = open(&proxy.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    proxy.lose_reply_to("SETRANGE");
    assert_eq!(store.call(result(&held, held.lease.fence, large())).await.unwrap(), Report::Recorded);
    assert_eq!(proxy.cuts(), 1);
    assert!(acquired_output(&store, run).await == Some(large()));
}

/// Deletes what is sent ahead as soon as it sees it, until it is dropped.
async fn lose_what_is_sent(connection: Connection) {
    loop {
        let found = connection.send(redis::cmd("KEYS").arg("wf:sent:*"), false).await.unwrap();
        for key in redis::from_redis_value::<Vec<String>>(found).unwrap() {
            connection.send(redis::cmd("DEL").arg(key), true).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_large_document_that_is_not_there_as_a_whole_is_not_taken() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    // A hundred pieces: one of them at least is lost.
    let output = json!("x".repeat(100 * (64 << 10)));
    let losing = tokio::spawn(lose_what_is_sent(connect(&server.url()).await));
    let refused = store.call(result(&held, held.lease.fence, output.clone())).await;
    losing.abort();
    let is_known = matches!(refused, Err(StoreError::Unavailable { effect: Effect::NotDone, .. }));
    assert!(is_known, "{refused:?}");
    assert_eq!(acquired_output(&store, run).await, None);
    assert_eq!(keys(&server, "wf:sent:*").await, <[String; 0]>::default());
    let _ = store.call(result(&held, held.lease.fence, output.clone())).await.unwrap();
    assert!(acquired_output(&store, run).await == Some(output));
}

#[tokio::test]
async fn what_no_script_takes_goes_by_itself() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    // The script never comes.
    let sending = store.call(result(&held, held.lease.fence, json!("x".repeat(64 << 20))));
    let seen = async {
        loop {
            if let [key] = &keys(&server, "wf:sent:*").await[..] {
                break key.clone();
            }
        }
    };
    let key = tokio::select! {
        key = seen => key,
        answer = sending => panic!("it was recorded before it was seen: {answer:?}"),
    };
    let left: u64 = server.command(&["PTTL", &key]).await.unwrap().parse().unwrap();
    assert!(left <= Duration::from_mins(1).as_millis().try_into().unwrap());
}
