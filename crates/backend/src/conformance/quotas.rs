//! What a tenant may have in tables that all tenants share, and how many tenants there may be.

use std::time::Duration;

use interlock_model::history::{Event, EventKind};
use interlock_model::limit::Limits;
use interlock_model::{TenantId, Timestamp};
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, claim, deploy, document, globex, idle, name};
use crate::history::ReadTimeline;
use crate::jobs::{Claim, PROGRESS_ROWS_MAX, Progress};
use crate::runs::CancelOutcome;
use crate::tenants::LimitScope;
use crate::verbs::{
    DeleteWorkflow, ExtendJobLease, ForgetWorker, ListTenants, ReadLimits, RecordProgress, RequestCancel,
    SaveWorkflow, SetLimits,
};
use crate::{PageRequest, Quota, StoreError};

async fn set(scene: &Scene, scope: LimitScope, limits: Limits) {
    scene.store.call(SetLimits { scope, limits, keeps_quotas: false }).await.unwrap();
}

async fn save(scene: &Scene, tenant: TenantId, id: &str) -> Result<u32, StoreError> {
    scene.store.call(SaveWorkflow { tenant, id: name(id), document: document() }).await
}

fn reached<T>(quota: Quota, most: u32) -> Result<T, StoreError> {
    Err(StoreError::QuotaReached { quota, most })
}

pub async fn a_tenant_uses_a_bounded_number_of_workflow_ids(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    set(&scene, LimitScope::Tenant(acme()), Limits { workflows_max: Some(2), ..Limits::default() }).await;
    assert_eq!(save(&scene, acme(), "second").await, Ok(1));
    assert_eq!(save(&scene, acme(), "third").await, reached(Quota::Workflows, 2));
    assert_eq!(save(&scene, acme(), "second").await, Ok(2), "new versions are no new ids");
    assert_eq!(save(&scene, globex(), "third").await, Ok(1), "another tenant is not concerned");
    // The versions of a deleted workflow stay for its runs, and its id can be used again.
    scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await.unwrap();
    assert_eq!(save(&scene, acme(), "third").await, reached(Quota::Workflows, 2));
    assert_eq!(save(&scene, acme(), "deploy").await, Ok(2));
}

pub async fn a_workflow_has_a_bounded_number_of_versions(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let limits = Limits { workflow_versions_max: Some(2), ..Limits::default() };
    set(&scene, LimitScope::System, limits).await;
    assert_eq!(save(&scene, acme(), "deploy").await, Ok(2));
    assert_eq!(save(&scene, acme(), "deploy").await, reached(Quota::WorkflowVersions, 2));
    assert_eq!(save(&scene, acme(), "other").await, Ok(1));
    let limits = Limits { workflow_versions_max: Some(3), ..Limits::default() };
    set(&scene, LimitScope::Tenant(acme()), limits).await;
    assert_eq!(save(&scene, acme(), "deploy").await, Ok(3), "the limit was raised");
}

pub async fn a_tenant_has_a_bounded_number_of_workers(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    set(&scene, LimitScope::Tenant(acme()), Limits { workers_max: Some(2), ..Limits::default() }).await;
    let ask = async |tenant: TenantId, worker: &str| {
        let asked = Claim { worker: name(worker), ..claim(&tenant, 1) };
        scene.store.call(asked).await.map(|jobs| jobs.len())
    };
    assert_eq!(ask(acme(), "one").await, Ok(0));
    assert_eq!(ask(acme(), "two").await, Ok(0));
    assert_eq!(ask(acme(), "three").await, reached(Quota::Workers, 2));
    assert_eq!(ask(acme(), "two").await, Ok(0), "a known worker is not new");
    assert_eq!(ask(globex(), "three").await, Ok(0), "another tenant is not concerned");
    let unless_after = Timestamp::from_millis(9_000_000_000_000);
    scene.store.call(ForgetWorker { tenant: acme(), worker: name("one"), unless_after }).await.unwrap();
    assert_eq!(ask(acme(), "three").await, Ok(0), "a place is free");
}

pub async fn there_is_a_bounded_number_of_tenants(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    set(&scene, LimitScope::System, Limits { tenants_max: Some(3), ..Limits::default() }).await;
    assert_eq!(save(&scene, name("third"), "deploy").await, Ok(1));
    let refused = name::<TenantId>("fourth");
    assert_eq!(save(&scene, refused.clone(), "deploy").await, reached(Quota::Tenants, 3));
    let own = SetLimits {
        scope: LimitScope::Tenant(refused.clone()),
        limits: Limits::default(),
        keeps_quotas: false,
    };
    assert_eq!(scene.store.call(own).await, reached(Quota::Tenants, 3));
    assert_eq!(scene.store.call(claim(&refused, 1)).await, reached(Quota::Tenants, 3));
    assert_eq!(save(&scene, name("third"), "deploy").await, Ok(2), "those that exist continue");
    let page = PageRequest { limit: 10, after: None };
    let listed = scene.store.call(ListTenants { page }).await.unwrap();
    assert_eq!(listed.items, [acme(), globex(), name("third")]);
    set(&scene, LimitScope::System, Limits { tenants_max: Some(4), ..Limits::default() }).await;
    assert_eq!(save(&scene, refused, "deploy").await, Ok(1), "the limit was raised");
}

pub async fn limits_can_be_set_without_changing_the_quotas(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let scope = LimitScope::Tenant(acme());
    let quotas = Limits { run_bytes_max: Some(70_000), workers_max: Some(5), ..Limits::default() };
    set(&scene, scope.clone(), quotas).await;
    let limits = Limits { runs_max: Some(7), run_bytes_max: Some(1 << 30), ..Limits::default() };
    scene.store.call(SetLimits { scope: scope.clone(), limits, keeps_quotas: true }).await.unwrap();
    let written = scene.store.call(ReadLimits { scope }).await.unwrap().limits;
    assert_eq!(written, Limits { runs_max: Some(7), ..quotas });
}

pub async fn a_timeline_has_a_bounded_number_of_rows_of_progress(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
    let report = async |percent| {
        let progress = Progress { percent, message: None };
        let report = RecordProgress { tenant: acme(), job: job.clone(), fence, progress };
        scene.store.call(report).await.unwrap();
        for _ in 0..5 {
            subject.elapse(Duration::from_millis(250)).await;
            let extend = ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None };
            let _ = scene.store.call(extend).await.unwrap();
        }
    };
    let last_rows = async |count: u64| {
        let (run, after) = (job.run, PROGRESS_ROWS_MAX - count);
        scene.store.call(ReadTimeline { tenant: acme(), run, after, limit: 100 }).await.unwrap()
    };
    let _ = scene.store.call(RequestCancel { tenant: acme(), run: job.run, by: "a test".to_owned() }).await;
    let mut turn = idle(&scene.taken(&acme(), job.run).await);
    let known = scene
        .store
        .call(ReadTimeline { tenant: acme(), run: job.run, after: 0, limit: 100 })
        .await
        .unwrap()
        .len();
    let filler = Event::new(Timestamp::from_millis(1_794_700_800_000), EventKind::StepLost);
    turn.events = vec![filler; usize::try_from(PROGRESS_ROWS_MAX).unwrap() - known - 1];
    let _ = scene.commit(turn).await.unwrap();
    for percent in [10, 20, 30] {
        report(percent).await;
    }
    let rows = last_rows(1).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].event.data, Some(json!({"percent": 30})), "the last one replaces those before it");
}

pub async fn only_one_request_to_cancel_waits(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    for by in ["ann", "ben", "cid"] {
        let asked = RequestCancel { tenant: acme(), run, by: by.to_owned() };
        assert_eq!(scene.store.call(asked).await, Ok(CancelOutcome::Posted));
    }
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(taken.inbox.len(), 1, "{:?}", taken.inbox);
}
