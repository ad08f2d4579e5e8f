//! Large, lost and damaged data: what it costs, and whom.

use interlock_backend::verbs::{
    AcquireRun, Admit, ExpireLeases, FindDue, ReadEffectiveLimits, ReadRun, ReadRunOwnership, ReadUsage,
    RecordResult, SaveWorkflow, SetLimits,
};
use std::time::Duration;

use interlock_backend::tenants::LimitScope;
use interlock_backend::{Store, StoreError};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::limit::Limits;
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, RunId, TenantId};
use interlock_servers::{Redis, RedisCluster};
use serde_json::json;

use super::{
    LEASE, acme, claim, connect, deploy, document, idle, in_tenant, name, open, request, server, started,
};

#[tokio::test]
async fn a_tenant_whose_index_is_damaged_does_not_keep_the_others_from_their_work() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 1, false).await;
    let globex: TenantId = name("globex");
    store
        .call(SaveWorkflow { tenant: globex.clone(), id: deploy(), document: document("deploy") })
        .await
        .unwrap();
    let _ = store.call(in_tenant(&globex, request(2, false))).await.unwrap();
    server.command(&["SET", "wf:timers:{acme}", "damaged"]).await.unwrap();
    let tenants = "sys:tenants:{:system}";
    server.command(&["ZADD", tenants, "0", "not a tenant's name"]).await.unwrap();
    let due = store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.ready.contains(&globex), "{due:?}");
}

#[tokio::test]
async fn a_name_that_is_no_tenants_does_not_hide_the_tenants_behind_it() {
    let server = server().await;
    let store = open(&server.url()).await;
    // A whole page of names, one of them no tenant's, before the tenant that has something to do.
    let names: Vec<String> =
        (0..999).map(|number| format!("a{number:03}")).chain(["a!".to_owned()]).collect();
    let mut listing = vec!["ZADD", "sys:tenants:{:system}"];
    listing.extend(names.iter().flat_map(|name| ["0", name.as_str()]));
    server.command(&listing).await.unwrap();
    let zeta: TenantId = name("zeta");
    store
        .call(SaveWorkflow { tenant: zeta.clone(), id: deploy(), document: document("deploy") })
        .await
        .unwrap();
    let _ = store.call(in_tenant(&zeta, request(1, false))).await.unwrap();
    assert_eq!(store.call(FindDue { limit: 10 }).await.unwrap().ready, [zeta]);
}

#[tokio::test]
async fn a_repeat_that_cannot_be_decided_takes_nothing_back() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, true).await;
    server.command(&["SET", "wf:run:idempotency:{acme}:deploy:key-1", "damaged since"]).await.unwrap();
    let repeat = Admit { is_repeat: true, ..request(1, true) };
    assert!(matches!(store.call(repeat.clone()).await, Err(StoreError::Damaged { .. })));
    assert!(
        store.call(ReadRun { tenant: acme(), run }).await.unwrap().is_some(),
        "the run that was admitted is still there"
    );
    assert_eq!(store.call(ReadUsage { tenant: acme() }).await.unwrap().runs_active, 1);
}

/// A job that its worker has ended, at its place in the lists.
async fn ended(server: &Redis, store: &Store) -> (RunId, JobId, String) {
    let run = started(store, 1, true).await;
    let held = claim(store, "worker-1").await.pop().unwrap();
    let outcome = JobOutcome::completed(json!(null));
    let _ = store
        .call(RecordResult {
            tenant: acme(),
            job: held.job.id.clone(),
            fence: held.lease.fence,
            outcome,
            edge: None,
        })
        .await
        .unwrap();
    let place = server.command(&["ZRANGE", "wf:jobs:{acme}", "0", "0"]).await.unwrap();
    (run, held.job.id, place)
}

#[tokio::test]
async fn an_entry_of_a_queue_for_a_job_that_has_ended_is_neither_given_out_nor_left() {
    let server = server().await;
    let store = open(&server.url()).await;
    let (_, _, place) = ended(&server, &store).await;
    server.command(&["ZADD", "wf:queue:{acme}:build", "0", &place]).await.unwrap();
    assert!(claim(&store, "worker-2").await.is_empty());
    assert_eq!(server.command(&["EXISTS", "wf:queue:{acme}:build"]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_lease_of_a_job_that_has_ended_is_removed_once_and_loses_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    let (run, job, _) = ended(&server, &store).await;
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    let _ = store.call(idle(&taken)).await.unwrap();
    server.command(&["ZADD", "wf:leases:{acme}", "1", &job.to_string()]).await.unwrap();
    assert_eq!(store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap(), []);
    assert_eq!(server.command(&["EXISTS", "wf:leases:{acme}"]).await.unwrap(), "0");
    assert!(
        !store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap().is_ready,
        "its run gets no event"
    );
}

#[tokio::test]
async fn a_large_inbox_is_taken_in_parts() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, false).await;
    let connection = connect(&server.url()).await;
    let large = InboxEvent::Cancel { by: "x".repeat(1 << 20) };
    let large = serde_json::to_string(&large).unwrap();
    for _ in 0..12 {
        let mut push = redis::cmd("RPUSH");
        push.arg(format!("wf:inbox:{{acme}}:{run}")).arg(&large);
        connection.send(&push, true).await.unwrap();
    }
    let mut events = 0;
    for _ in 0..12 {
        let Some(taken) = store
            .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
            .await
            .unwrap()
        else {
            break;
        };
        assert!((1..12).contains(&taken.inbox.len()), "{} at once", taken.inbox.len());
        events += taken.inbox.len();
        let turn = idle(&taken);
        if !store.call(turn).await.unwrap().has_more {
            break;
        }
    }
    assert_eq!(events, 12);
}

#[tokio::test]
async fn limits_that_are_written_after_the_store_was_emptied_are_in_force() {
    let server = server().await;
    let store = open(&server.url()).await;
    let limit = |runs_max| Limits { runs_max: Some(runs_max), ..Limits::default() };
    for runs_max in [5, 6, 7] {
        store
            .call(SetLimits {
                scope: LimitScope::System.clone(),
                limits: limit(runs_max),
                keeps_quotas: false,
            })
            .await
            .unwrap();
    }
    server.command(&["FLUSHALL"]).await.unwrap();
    store
        .call(SetLimits { scope: LimitScope::System.clone(), limits: limit(1), keeps_quotas: false })
        .await
        .unwrap();
    assert_eq!(store.call(ReadEffectiveLimits { tenant: acme() }).await.unwrap().runs_max, 1);
}

#[tokio::test]
async fn no_start_is_admitted_too_much_while_a_cluster_moves_its_slot() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let store = open(&cluster.url()).await;
    for number in 0..3 {
        started(&store, number, false).await;
    }
    let limits = Limits { runs_max: Some(3), ..Limits::default() };
    store.call(SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false }).await.unwrap();
    let slot = cluster.command_on(0, &["CLUSTER", "KEYSLOT", "{acme}"]).await.unwrap();
    let nodes = cluster.urls().len();
    let mut from = 0;
    while cluster.command_on(from, &["EXISTS", "wf:tenant:{acme}"]).await.is_err() {
        from += 1;
    }
    let to = (from + 1) % nodes;
    let id = async |node| cluster.command_on(node, &["CLUSTER", "MYID"]).await.unwrap();
    cluster.command_on(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from).await]).await.unwrap();
    cluster.command_on(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to).await]).await.unwrap();
    let url = cluster.urls().swap_remove(to);
    let port = url.rsplit(':').next().unwrap();
    // The tenant and the definition have moved; the set of its live runs has not.
    for key in ["wf:tenant:{acme}", "wf:def:{acme}:deploy"] {
        cluster.command_on(from, &["MIGRATE", "127.0.0.1", port, key, "0", "5000"]).await.unwrap();
    }
    for number in 20..24 {
        match store.call(request(number, false)).await {
            Err(StoreError::Unavailable { .. }) | Ok(StartOutcome::AtCapacity { .. }) => {}
            other => panic!("three are live under a cap of three: {other:?}"),
        }
    }
    tokio::time::timeout(Duration::from_secs(10), cluster.command_on(from, &["PING"]))
        .await
        .unwrap()
        .unwrap();
}
