//! Starts that reach Redis in one call.

use interlock_backend::verbs::{Admit, SaveWorkflow, SetLimits};

use futures_util::future::join_all;
use interlock_backend::tenants::LimitScope;
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::TenantId;
use interlock_model::admission::StartOutcome;
use interlock_model::limit::Limits;

use interlock_servers::Redis;

use super::{acme, deploy, document, in_tenant, name, open, request, server};

/// More than there are lanes, so that most of them meet in one call.
const STARTS: u64 = 24;

async fn prepared() -> (Redis, Store, TenantId) {
    let (server, globex) = (server().await, name("globex"));
    let store = open(&server.url()).await;
    prepare(&store, &globex).await;
    (server, store, globex)
}

async fn prepare(store: &Store, globex: &TenantId) {
    for tenant in [&acme(), globex] {
        store
            .call(SaveWorkflow { tenant: tenant.clone(), id: deploy(), document: document("deploy") })
            .await
            .unwrap();
        let limits = Limits { runs_max: Some(1_000), ..Limits::default() };
        store
            .call(SetLimits { scope: LimitScope::Tenant(tenant.clone()), limits, keeps_quotas: false })
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn starts_that_wait_go_out_in_few_calls_and_each_has_its_own_answer() {
    let (_server, store, _) = prepared().await;
    let before = store.commands_sent();
    let starts: Vec<Admit> = (0..STARTS).map(|number| request(number, true)).collect();
    let answers = join_all(starts.iter().map(|start| store.call(start.clone()))).await;
    for (start, answer) in starts.iter().zip(answers) {
        assert!(
            matches!(answer, Ok(StartOutcome::Admitted { run, .. }) if run == start.request.run),
            "{answer:?}"
        );
    }
    let calls = store.commands_sent() - before;
    assert!(calls < STARTS / 2, "{calls} calls for {STARTS} starts at once");
}

#[tokio::test]
async fn a_tenant_whose_data_is_damaged_does_not_cost_the_others_their_start() {
    let (server, store, globex) = prepared().await;
    for damaged in ["no record of ours", "{}", "[]", r#"{"run":"nope","fingerprint":"f"}"#] {
        server.command(&["FLUSHALL"]).await.unwrap();
        prepare(&store, &globex).await;
        server.command(&["SET", "wf:run:idempotency:{acme}:deploy:key-7", damaged]).await.unwrap();
        check_others(&store, &globex).await;
    }
}

async fn check_others(store: &Store, globex: &TenantId) {
    let starts: Vec<Admit> = (0..STARTS)
        .map(|number| match number {
            7 => request(number, true),
            _ => in_tenant(globex, request(number, true)),
        })
        .collect();
    let answers = join_all(starts.iter().map(|start| store.call(start.clone()))).await;
    for (start, answer) in starts.iter().zip(answers) {
        if start.request.tenant == *globex {
            assert!(matches!(answer, Ok(StartOutcome::Admitted { .. })), "{answer:?}");
        } else {
            assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_start_that_redis_has_no_room_for_is_certainly_not_done() {
    let (server, store, _) = prepared().await;
    let _ = store.call(request(1, true)).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1000000"]).await.unwrap();
    let answer = store.call(request(2, true)).await;
    assert!(matches!(answer, Err(StoreError::Unavailable { effect: Effect::StorageFull, .. })), "{answer:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert!(matches!(store.call(request(2, true)).await, Ok(StartOutcome::Admitted { .. })));
}
