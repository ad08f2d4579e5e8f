//! Limits, and when they are in force.

use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, ReleaseRun, SetLimits};
use interlock_model::TenantId;
use interlock_model::admission::{StartOutcome, Usage};
use interlock_model::limit::{Limits, RUNS_MAX_DEFAULT, RunBounds};

use super::Subject;
use super::scene::{Scene, acme, globex, name};
use crate::PageRequest;
use crate::tenants::{LimitScope, WrittenLimits};

pub async fn a_limit_is_in_force_with_its_answer(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 0).await;
    assert!(matches!(scene.start(&acme(), None).await, StartOutcome::AtCapacity { .. }));
    scene.limit(&acme(), 1).await;
    assert!(matches!(scene.start(&acme(), None).await, StartOutcome::Admitted { .. }));
    assert!(matches!(scene.start(&acme(), None).await, StartOutcome::AtCapacity { .. }));
}

pub async fn a_limit_below_the_usage_admits_no_run_and_ends_none(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    for _ in 0..3 {
        scene.started(&acme()).await;
    }
    scene.limit(&acme(), 1).await;
    let StartOutcome::AtCapacity { usage, .. } = scene.start(&acme(), None).await else {
        panic!("the tenant is over its limit")
    };
    assert_eq!((usage, usage.free()), (Usage { runs_active: 3, runs_max: 1 }, 0));
}

pub async fn the_systems_limit_applies_to_tenants_without_their_own(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let limit = |runs_max| Limits { runs_max, ..Limits::default() };
    let initech: TenantId = name("initech");
    assert_eq!(
        scene.store.call(ReadEffectiveLimits { tenant: initech.clone() }).await.unwrap().runs_max,
        RUNS_MAX_DEFAULT
    );
    let before = scene.store.call(ReadLimits { scope: LimitScope::System.clone() }).await.unwrap();
    let revision = scene
        .store
        .call(SetLimits { scope: LimitScope::System.clone(), limits: limit(Some(7)), keeps_quotas: false })
        .await
        .unwrap();
    assert_eq!(revision, before.revision + 1);
    assert_eq!(scene.store.call(ReadEffectiveLimits { tenant: initech.clone() }).await.unwrap().runs_max, 7);
    assert_eq!(scene.store.call(ReadEffectiveLimits { tenant: acme() }).await.unwrap().runs_max, 3);
    let scope = LimitScope::Tenant(acme());
    let revision = scene
        .store
        .call(SetLimits { scope: scope.clone(), limits: limit(None), keeps_quotas: false })
        .await
        .unwrap();
    assert_eq!(scene.store.call(ReadEffectiveLimits { tenant: acme() }).await.unwrap().runs_max, 7);
    let written = scene.store.call(ReadLimits { scope: scope.clone() }).await.unwrap();
    assert_eq!(written, WrittenLimits { limits: limit(None), revision });
}

pub async fn a_turn_knows_the_bounds_of_its_tenant_as_they_are_now(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(taken.bounds, RunBounds::default());
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: taken.fence }).await.unwrap();
    let limits = Limits { run_bytes_max: Some(9_000_000_000), ..Limits::default() };
    scene.store.call(SetLimits { scope: LimitScope::System, limits, keeps_quotas: false }).await.unwrap();
    let limits = Limits { turn_bytes_max: Some(70_000), ..Limits::default() };
    let scope = LimitScope::Tenant(acme());
    let revision =
        scene.store.call(SetLimits { scope: scope.clone(), limits, keeps_quotas: false }).await.unwrap();
    let written = scene.store.call(ReadLimits { scope }).await.unwrap();
    assert_eq!(written, WrittenLimits { limits, revision });
    let bounds = RunBounds { turn_bytes_max: 70_000, run_bytes_max: 9_000_000_000 };
    assert_eq!(scene.taken(&acme(), run).await.bounds, bounds);
    let effective = scene.store.call(ReadEffectiveLimits { tenant: acme() }).await.unwrap();
    assert_eq!(effective.bounds, bounds);
}

pub async fn every_tenant_that_was_used_is_listed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let first = scene.store.call(ListTenants { page: PageRequest { limit: 1, after: None } }).await.unwrap();
    assert_eq!(first.items, [acme()]);
    let second =
        scene.store.call(ListTenants { page: PageRequest { limit: 1, after: first.next } }).await.unwrap();
    assert_eq!((second.items, second.next), (vec![globex()], None));
}
