use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use interlock_backend::clock::SystemClock;
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{Admit, SaveWorkflow, SetLimits};
use interlock_backend::{Store, StoreError};
use interlock_model::admission::{IdempotentIntent, RunRequest, StartOutcome, StartPlan};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::limit::Limits;
use interlock_model::limit::place::StartPriority;
use interlock_model::run::StartedFrom;
use interlock_model::{RunId, Timestamp};
use serde_json::json;

fn open(folder: &Path) -> Store {
    let opened = interlock_backend_embedded::open(folder, Arc::new(SystemClock));
    Store::new(Arc::new(opened.unwrap()))
}

async fn set_cap(store: &Store, cap: u32) -> Result<u64, StoreError> {
    let limits = Limits { runs_max: Some(cap), ..Limits::default() };
    store
        .call(SetLimits { scope: LimitScope::Tenant("acme".parse().unwrap()), limits, keeps_quotas: false })
        .await
}

async fn save_workflow(store: &Store) {
    let document = json!({"name": "deploy", "steps": {"build": {"type": "worker", "topic": "build"}}});
    let (tenant, id) = ("acme".parse().unwrap(), "deploy".parse().unwrap());
    let document = serde_json::from_value(document).unwrap();
    store.call(SaveWorkflow { tenant, id, document }).await.unwrap();
}

fn start(key: Option<&str>) -> Admit {
    let fingerprint = Fingerprint::of_start(&"deploy".parse().unwrap(), &json!({}));
    let request = RunRequest {
        run: RunId::new(Timestamp::from_millis(1), [1; 10]),
        tenant: "acme".parse().unwrap(),
        workflow: "deploy".parse().unwrap(),
        input: json!({}),
        intent: key.map(|key| IdempotentIntent { key: key.parse().unwrap(), fingerprint }),
        origin: StartedFrom::Request,
        labels: BTreeMap::new(),
        priority: StartPriority::default(),
        trace: None,
    };
    let plan = StartPlan::unlimited(1);
    let (request, plan) = (Arc::new(request), Some(Arc::new(plan)));
    Admit { request, plan, admission_fence: None, is_repeat: false }
}

#[tokio::test]
async fn a_start_is_refused_at_once_by_the_last_answers_and_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let refusal = store.refusal(&start(None));
    assert!(matches!(refusal, Some(StartOutcome::DefinitionChanged { current: None, .. })), "{refusal:?}");
    save_workflow(&store).await;
    set_cap(&store, 0).await.unwrap();
    let refusal = store.refusal(&start(None));
    assert!(matches!(refusal, Some(StartOutcome::AtCapacity { .. })), "{refusal:?}");
    drop(store);
    assert_eq!(open(folder.path()).refusal(&start(None)), refusal);
}

#[tokio::test]
async fn a_start_that_changes_something_or_needs_other_rows_is_not_answered_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    save_workflow(&store).await;
    set_cap(&store, 0).await.unwrap();
    assert_eq!(store.refusal(&start(Some("key"))), None, "idempotency keys are not in memory");
    set_cap(&store, 1).await.unwrap();
    assert_eq!(store.refusal(&start(None)), None, "the start would be admitted");
}
