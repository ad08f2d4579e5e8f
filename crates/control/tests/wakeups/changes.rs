//! What operators write, and processes keep copies of.

use std::sync::Arc;

use interlock_backend::Wake;
use interlock_backend::keys::{KeyScope, Role};
use interlock_backend::tenants::{LimitScope, SetLimits};
use interlock_control::api_keys::{ApiKeys, KeyTerms};
use interlock_control::rollouts::TuningChange;
use interlock_model::contention::Scope;
use interlock_model::limit::Limits;
use serde_json::json;

use crate::scene::{Scene, acme, run_ready};

#[tokio::test(start_paused = true)]
async fn a_workflow_that_is_saved_or_deleted_is_announced() {
    let scene = Scene::new();
    let steps = json!({"a": {"type": "worker", "topic": "work"}});
    let document = serde_json::from_value(json!({"id": "job", "name": "job", "steps": steps})).unwrap();
    let (workflow, _) = scene.control.documents.save_workflow(&acme(), document).await.unwrap();
    let changed = [Wake::WorkflowChanged { tenant: acme(), workflow: workflow.clone() }];
    assert_eq!(scene.woken(), changed);
    scene.control.documents.delete_workflow(&acme(), &workflow).await.unwrap();
    assert_eq!(scene.woken(), changed);
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_system_are_announced_and_those_of_a_tenant_wake_the_engine() {
    let scene = Scene::new();
    let limits = Limits { runs_max: Some(7), ..Limits::default() };
    let set = |scope| scene.control.documents.set_limits(SetLimits { scope, limits, keeps_quotas: false });
    set(LimitScope::System).await.unwrap();
    assert_eq!(scene.woken(), [Wake::LimitsChanged]);
    set(LimitScope::Tenant(acme())).await.unwrap();
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_made_or_revoked_is_announced() {
    let scene = Scene::new();
    let keys: Arc<ApiKeys> = ApiKeys::load(scene.control.process.clone(), None, None).await.unwrap();
    let (role, scope) = (Role::Admin, KeyScope::All);
    let terms = KeyTerms { name: "ada".to_owned(), role, scope, workflows: None, lifetime: None };
    let (first, _) = keys.create(terms.clone(), None).await.unwrap();
    assert_eq!(scene.woken(), [Wake::KeysChanged]);
    keys.create(terms, None).await.unwrap();
    scene.woken();
    keys.revoke(&first.id).await.unwrap();
    assert_eq!(scene.woken(), [Wake::KeysChanged]);
}

#[tokio::test(start_paused = true)]
async fn a_tuning_that_is_changed_is_announced() {
    let scene = Scene::new();
    let (scope, policy) = (Scope::LockBusy, Scope::LockBusy.tuning().policy);
    let change = TuningChange { scope, policy, max_wait_ms: None, lock_ttl_ms: None, expected: None };
    scene.control.rollouts.set_tuning(change, "me", None).await.unwrap();
    assert_eq!(scene.woken(), [Wake::TuningChanged]);
}
