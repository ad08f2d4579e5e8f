//! Values that something else has changed to what is no text.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{Inspect, InspectUnlisted, ListTenants, ReadRun, SetLimits};
use interlock_backend::{PageRequest, Store, StoreError};
use interlock_backend_embedded::open;
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Realm};
use interlock_model::limit::Limits;
use rusqlite::Connection;

const RUN: &str = "01a1dc80-0000-7000-8000-000000000000";

fn first() -> PageRequest {
    PageRequest { limit: 1_000, after: None }
}

/// Everything that is found; no check may fail.
async fn found(store: &Store, tenant: &TenantId) -> Vec<Finding> {
    let (mut found, grace) = (Vec::new(), Duration::from_secs(30));
    for invariant in Invariant::ALL.iter().copied().filter(|one| one.realm() == Realm::Tenant) {
        let look = Inspect { tenant: tenant.clone(), invariant, grace, page: first() };
        found.extend(store.call(look).await.unwrap().items);
        let look = InspectUnlisted { tenant: Some(tenant.clone()), invariant, grace, page: first() };
        found.extend(store.call(look).await.unwrap().items);
    }
    found
}

#[tokio::test]
async fn a_value_that_is_no_text_is_one_finding_and_stops_no_check() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Arc::new(open(folder.path(), Arc::new(SystemClock)).unwrap()));
    let scope = LimitScope::Tenant("globex".parse().unwrap());
    store.call(SetLimits { scope, limits: Limits::default(), keeps_quotas: false }).await.unwrap();
    drop(store);
    let rows = [
        ("heads", format!("acme/{RUN}")),
        ("idempotency_keys", "acme/deploy/key".to_owned()),
        ("jobs", format!("acme/{RUN}:build@1")),
        ("locks", "acme/door".to_owned()),
        ("starts", format!("acme/{RUN}")),
        ("steps", format!("acme/{RUN}/build")),
        ("tenants", "acme".to_owned()),
        ("workflow_heads", "acme/deploy".to_owned()),
    ];
    let database = Connection::open(folder.path().join("interlock.db")).unwrap();
    for (table, key) in &rows {
        let damage = format!("INSERT INTO {table} (key, value) VALUES (?1, CAST(x'7b22ff223a317d' AS TEXT))");
        database.execute(&damage, [key]).unwrap();
    }
    database.execute("INSERT INTO ready (key, value) VALUES (?1, '')", [format!("globex/{RUN}")]).unwrap();
    drop(database);

    let store = Store::new(Arc::new(open(folder.path(), Arc::new(SystemClock)).unwrap()));
    let tenants = store.call(ListTenants { page: first() }).await.unwrap().items;
    let [acme, globex] = tenants.as_slice() else { panic!("{tenants:?}") };
    let of_acme = found(&store, acme).await;
    let damaged = of_acme.iter().filter(|finding| finding.invariant == Invariant::RowDamaged);
    let mut damaged: Vec<_> = damaged.map(|finding| finding.subject.clone()).collect();
    damaged.sort();
    assert_eq!(damaged, rows.clone().map(|(table, key)| format!("{table}/{key}")));
    let of_globex: Vec<_> = found(&store, globex).await.iter().map(|finding| finding.invariant).collect();
    assert_eq!(of_globex, [Invariant::ReadyWithoutRun]);
    let read = store.call(ReadRun { tenant: acme.clone(), run: RUN.parse().unwrap() }).await;
    let Err(StoreError::Damaged { table, key, .. }) = &read else { panic!("{read:?}") };
    assert!(rows.iter().any(|(known, row)| known == table && row == key), "{read:?}");
}
