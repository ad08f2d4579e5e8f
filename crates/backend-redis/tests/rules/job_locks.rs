//! The lock on a job, which tells its lease to operators.

use interlock_backend::verbs::{
    AbandonWorker, AcquireRun, CancelJob, DeleteRun, ExpireLeases, ExtendJobLease, RecordResult,
    RequestCancel,
};
use std::sync::Arc;

use interlock_backend::Store;
use interlock_backend::clock::ManualClock;
use interlock_backend::jobs::{Claimed, LeaseTerm};
use interlock_backend::runs::Commit;
use interlock_model::job::JobOutcome;
use interlock_model::{JobId, RunId, Timestamp};
use interlock_servers::{Redis, RedisCluster};
use serde_json::{Value, json};

use super::asking::{ends_within, shown};
use super::{LEASE, acme, claim, connect, idle, name, open, open_on, server, started};

fn lock_of(job: &JobId) -> String {
    format!("cordum:scheduler:job:{job}")
}

/// A claimed job of a new run.
async fn claimed(store: &Store, number: u64) -> (RunId, Claimed) {
    let run = started(store, number, true).await;
    (run, claim(store, "worker-1").await.pop().unwrap())
}

fn completed() -> JobOutcome {
    JobOutcome::completed(json!(null))
}

#[tokio::test]
async fn a_claimed_job_shows_its_worker_token_and_fence_until_its_report() {
    let server = server().await;
    let store = open(&server.url()).await;
    let (_, held) = claimed(&store, 1).await;
    let (key, lease) = (lock_of(&held.job.id), held.lease);
    let value = shown(&server, &key).await;
    assert_eq!((&value["owner"], &value["fence"]), (&json!("worker-1"), &json!(lease.fence)));
    assert!(value["token"].as_str().is_some_and(|token| !token.is_empty()), "{value}");
    assert_eq!(value["expires_at"], json!(lease.expires_at));
    assert!(ends_within(&server, &key, LEASE).await);

    let term = LeaseTerm::For(LEASE * 3);
    let _ = store
        .call(ExtendJobLease {
            tenant: acme(),
            job: held.job.id.clone(),
            fence: lease.fence,
            term: Some(term),
        })
        .await
        .unwrap();
    assert!(!ends_within(&server, &key, LEASE * 2).await && ends_within(&server, &key, LEASE * 3).await);
    let _ = store
        .call(ExtendJobLease { tenant: acme(), job: held.job.id.clone(), fence: lease.fence, term: None })
        .await
        .unwrap();
    let extended = shown(&server, &key).await;
    assert_eq!((&extended["token"], &extended["fence"]), (&value["token"], &value["fence"]));
    assert!(extended["expires_at"].as_u64() > value["expires_at"].as_u64());

    let _ = store
        .call(RecordResult {
            edge: None,
            tenant: acme(),
            job: held.job.id.clone(),
            fence: lease.fence,
            outcome: completed(),
        })
        .await
        .unwrap();
    assert_eq!(shown(&server, &key).await, Value::Null);
}

/// Every way for a lease to end before its time.
async fn end(store: &Store, way: u64, (run, held): &(RunId, Claimed)) {
    let job = &held.job.id;
    match way {
        0 => drop(
            store
                .call(RecordResult {
                    edge: None,
                    tenant: acme(),
                    job: job.clone(),
                    fence: held.lease.fence,
                    outcome: completed(),
                })
                .await
                .unwrap(),
        ),
        1 => drop(
            store
                .call(CancelJob { tenant: acme(), job: job.clone(), by: "an operator".to_owned() })
                .await
                .unwrap(),
        ),
        2 => {
            let lost = store
                .call(AbandonWorker { tenant: acme(), worker: name("worker-1"), limit: 10 })
                .await
                .unwrap();
            assert_eq!(lost, std::slice::from_ref(job));
        }
        3 => drop(store.call(DeleteRun { tenant: acme(), run: *run }).await.unwrap()),
        _ => {
            let _ = store
                .call(RequestCancel { tenant: acme(), run: *run, by: "an operator".to_owned() })
                .await
                .unwrap();
            let taken = store
                .call(AcquireRun { tenant: acme(), run: *run, holder: name("engine-1"), lease: LEASE })
                .await
                .unwrap()
                .unwrap();
            let turn = Commit { revoked: vec![job.clone()], ..idle(&taken) };
            let _ = store.call(turn).await.unwrap();
        }
    }
}

const WAYS: u64 = 5;

#[tokio::test]
async fn however_a_lease_ends_its_lock_is_gone() {
    let server = server().await;
    let store = open(&server.url()).await;
    for way in 0..WAYS {
        let held = claimed(&store, way).await;
        let key = lock_of(&held.1.job.id);
        assert_eq!(shown(&server, &key).await["owner"], "worker-1");
        end(&store, way, &held).await;
        assert_eq!(shown(&server, &key).await, Value::Null, "way {way}");
    }
}

#[tokio::test]
async fn a_lease_that_ran_out_leaves_no_lock() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    let (_, held) = claimed(&store, 1).await;
    clock.advance(LEASE);
    assert_eq!(
        store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap(),
        std::slice::from_ref(&held.job.id)
    );
    assert_eq!(shown(&server, &lock_of(&held.job.id)).await, Value::Null);
}

#[tokio::test]
async fn l23_no_end_of_a_lease_deletes_a_lock_that_is_not_ours() {
    let server = server().await;
    let store = open(&server.url()).await;
    for way in 0..WAYS {
        let held = claimed(&store, way).await;
        let key = lock_of(&held.1.job.id);
        let foreign = r#"{"owner":"worker-1","token":"t","fence":1,"expires_at":1}"#;
        server.command(&["SET", &key, foreign]).await.unwrap();
        let _ = store
            .call(ExtendJobLease {
                tenant: acme(),
                job: held.1.job.id.clone(),
                fence: held.1.lease.fence,
                term: None,
            })
            .await
            .unwrap();
        end(&store, way, &held).await;
        assert_eq!(server.command(&["GET", &key]).await.unwrap(), foreign, "way {way}");
    }
}

/// A job that a foreign lock is on, and one behind it that is available.
async fn locked_and_free(server: &Redis, store: &Store, foreign: &[&str]) -> (JobId, JobId) {
    let first_job = async |number| {
        let run = started(store, number, true).await;
        name::<JobId>(&format!("{run}:build@1"))
    };
    let (locked, free) = (first_job(1).await, first_job(2).await);
    server.command(&[&[foreign[0], &lock_of(&locked)], &foreign[1..]].concat()).await.unwrap();
    (locked, free)
}

#[tokio::test]
async fn a_job_with_a_foreign_lock_stays_in_the_queue_and_is_passed_over() {
    let timeless: [&[&str]; 3] = [&["SET", "foreign"], &["SET", "{}"], &["HSET", "not", "even text"]];
    for foreign in timeless {
        let server = server().await;
        let store = open(&server.url()).await;
        let (locked, free) = locked_and_free(&server, &store, foreign).await;
        let claimed = claim(&store, "worker-1").await;
        assert_eq!(claimed.iter().map(|it| &it.job.id).collect::<Vec<_>>(), [&free], "{foreign:?}");
        assert!(claim(&store, "worker-1").await.is_empty());
        server.command(&["DEL", &lock_of(&locked)]).await.unwrap();
        let claimed = claim(&store, "worker-1").await;
        assert_eq!(claimed.iter().map(|it| &it.job.id).collect::<Vec<_>>(), [&locked]);
    }
}

#[tokio::test]
async fn a_lock_that_an_operator_deleted_is_written_again_by_the_heartbeat() {
    let server = server().await;
    let store = open(&server.url()).await;
    let (_, held) = claimed(&store, 1).await;
    let key = lock_of(&held.job.id);
    server.command(&["DEL", &key]).await.unwrap();
    assert!(claim(&store, "worker-2").await.is_empty(), "the lease says whose it is");
    let _ = store
        .call(ExtendJobLease {
            tenant: acme(),
            job: held.job.id.clone(),
            fence: held.lease.fence,
            term: None,
        })
        .await
        .unwrap();
    assert_eq!(shown(&server, &key).await["fence"], json!(held.lease.fence));
}

#[tokio::test]
async fn on_a_cluster_the_lock_carries_the_tenant() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let store = open(&cluster.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let _ = store.call(RequestCancel { tenant: acme(), run, by: "an operator".to_owned() }).await.unwrap();
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    let connection = connect(&cluster.url()).await;
    for (key, fence) in [
        (format!("cordum:scheduler:job:{{acme}}:{}", held.job.id), held.lease.fence),
        (format!("cordum:wf:run:lock:{{acme}}:{run}"), taken.fence),
    ] {
        let value = connection.send(redis::cmd("GET").arg(&key), false).await.unwrap();
        let value: Option<String> = redis::from_redis_value(value).unwrap();
        let value: Value = serde_json::from_str(&value.expect(&key)).unwrap();
        assert_eq!(value["fence"], json!(fence));
    }
}
