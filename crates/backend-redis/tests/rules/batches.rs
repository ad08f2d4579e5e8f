//! Starts that reach Redis in one call.

use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_model::TenantId;
use interlock_model::admission::{Admission, StartRun};
use interlock_model::limit::Limits;

use super::{acme, deploy, document, name, open, request, server};

/// More than there are lanes, so that most of them meet in one call.
const STARTS: u64 = 24;

async fn prepared() -> (interlock_servers::Redis, std::sync::Arc<dyn interlock_backend::Store>, TenantId) {
    let (server, globex) = (server().await, name("globex"));
    let store = open(&server.url()).await;
    for tenant in [&acme(), &globex] {
        store.save_workflow(tenant, &deploy(), &document("deploy")).await.unwrap();
        let limits = Limits { runs_max: Some(1_000), key_retention: None };
        let scope = interlock_backend::tenants::LimitScope::Tenant(tenant.clone());
        store.set_limits(&scope, limits).await.unwrap();
    }
    (server, store, globex)
}

#[tokio::test]
async fn starts_that_wait_go_out_in_few_calls_and_each_has_its_own_answer() {
    let (_server, store, _) = prepared().await;
    let before = store.commands_sent();
    let starts: Vec<StartRun> = (0..STARTS).map(|number| request(number, true)).collect();
    let answers = join_all(starts.iter().map(|start| store.admit(start))).await;
    for (start, answer) in starts.iter().zip(answers) {
        assert!(matches!(answer, Ok(Admission::Admitted { run, .. }) if run == start.run), "{answer:?}");
    }
    let calls = store.commands_sent() - before;
    assert!(calls < STARTS / 2, "{calls} calls for {STARTS} starts at once");
}

#[tokio::test]
async fn a_tenant_whose_data_is_damaged_does_not_cost_the_others_their_start() {
    let (server, store, globex) = prepared().await;
    server.command(&["SET", "wf:run:idempotency:{acme}:deploy:key-7", "no record of ours"]).await.unwrap();
    let starts: Vec<StartRun> = (0..STARTS)
        .map(|number| match number {
            7 => request(number, true),
            _ => StartRun { tenant: globex.clone(), ..request(number, true) },
        })
        .collect();
    let answers = join_all(starts.iter().map(|start| store.admit(start))).await;
    for (start, answer) in starts.iter().zip(answers) {
        if start.tenant == globex {
            assert!(matches!(answer, Ok(Admission::Admitted { .. })), "{answer:?}");
        } else {
            assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{answer:?}");
        }
    }
}
