//! Starts under a tenant's admission lock.

use crate::verbs::{
    Admit, CountRuns, DeleteRun, ListLocks, ReadLock, ReadRun, ReleaseIdempotencyKey, ReleaseLock, SetLimits,
};
use std::time::Duration;

use interlock_model::Fence;
use interlock_model::admission::{StartOutcome, Usage};
use interlock_model::limit::Limits;
use interlock_model::lock::{Grant, LockLimits, LockName};
use interlock_model::run::{Ending, RunStatus};
use serde_json::json;

use super::Subject;
use super::lock_requests::{TTL, ask, granted, refused};
use super::scene::{LEASE, Scene, acme, deploy, ending, globex, name, with_request, with_version};
use crate::reservations::{Count, ReserveIdempotencyKey, Reserved};
use crate::tenants::LimitScope;
use crate::{PageRequest, StoreError};

fn gate() -> LockName {
    LockName::Admission(acme())
}

impl Scene {
    async fn lock(&self, who: &str) -> Grant {
        granted(&self.store, &ask(&gate(), who)).await
    }

    async fn unlock(&self, grant: &Grant) {
        let _ = self
            .store
            .call(ReleaseLock { lock: gate(), token: grant.token.clone() })
            .await
            .expect("the lease is live");
    }

    async fn reserve(&self, start: &Admit, fence: Fence) -> Result<Reserved, StoreError> {
        self.store.call(reserve(start, fence)).await
    }

    /// A start under the lock with its key reserved.
    async fn reserved(&self, fence: Fence) -> Admit {
        let start =
            Admit { admission_fence: Some(fence), ..self.request(&acme(), Some("k"), json!({"n": 1})) };
        assert_eq!(self.reserve(&start, fence).await, Ok(Reserved::Granted));
        start
    }

    async fn release(&self, start: &Admit) -> bool {
        let key = &start.request.intent.as_ref().unwrap().key;
        self.store
            .call(ReleaseIdempotencyKey {
                tenant: start.request.tenant.clone(),
                workflow: start.request.workflow.clone(),
                key: key.clone(),
                run: start.request.run,
            })
            .await
            .unwrap()
    }
}

fn reserve(start: &Admit, fence: Fence) -> ReserveIdempotencyKey {
    ReserveIdempotencyKey {
        tenant: start.request.tenant.clone(),
        workflow: start.request.workflow.clone(),
        intent: start.request.intent.clone().unwrap(),
        run: start.request.run,
        fence,
        lease: TTL,
    }
}

pub async fn the_admission_lock_is_its_tenants_own_and_in_no_list_and_no_quota(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let held = scene.lock("a").await;
    assert_eq!(refused(&scene.store, &ask(&gate(), "b")).await.holder, Some(name("a")));
    let other = granted(&scene.store, &ask(&LockName::Admission(globex()), "b")).await;
    assert!(held.fence > Fence::NONE && other.fence > Fence::NONE);
    let page = PageRequest { limit: 10, after: None };
    assert_eq!(scene.store.call(ListLocks { tenant: acme(), page: page.clone() }).await.unwrap().items, []);
    // One lock may be held, and the admission lock is not it.
    let mut door = ask(&LockName::Of(acme(), name("admission")), "user");
    door.limits = LockLimits { held_max: 1, ..LockLimits::default() };
    granted(&scene.store, &door).await;
    assert_eq!(
        scene.store.call(ListLocks { tenant: acme(), page: page.clone() }).await.unwrap().items.len(),
        1
    );
    let shown = scene.store.call(ReadLock { lock: gate() }).await.unwrap().expect("it is held");
    assert_eq!(
        (shown.view.resource, shown.view.holders),
        (name("wf:run:admission:acme"), vec![held.clone()])
    );
    scene.unlock(&held).await;
    assert!(scene.lock("b").await.fence > held.fence);
}

pub async fn a_key_is_reserved_only_under_the_live_lock(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let start = scene.request(&acme(), Some("k"), json!({}));
    let never = scene.reserve(&start, Fence::new(1)).await;
    assert_eq!(never, Err(StoreError::Fenced { held: Fence::new(1), current: Fence::NONE }));
    let first = scene.lock("a").await;
    let guessed = Fence::new(first.fence.number() + 1);
    let answer = scene.reserve(&start, guessed).await;
    assert_eq!(answer, Err(StoreError::Fenced { held: guessed, current: first.fence }));
    assert_eq!(scene.reserve(&start, first.fence).await, Ok(Reserved::Granted));
    assert_eq!(
        scene.reserve(&start, first.fence).await,
        Ok(Reserved::Granted),
        "asked again, it is the same"
    );
    scene.unlock(&first).await;
    let late = scene.reserve(&start, first.fence).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: first.fence }));
    let second = scene.lock("b").await;
    subject.elapse(TTL).await;
    let late = scene.reserve(&start, second.fence).await;
    assert_eq!(
        late,
        Err(StoreError::Fenced { held: second.fence, current: second.fence }),
        "its lease expired"
    );
}

pub async fn a_reservation_starts_nothing_and_the_create_commits_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let start = scene.reserved(grant.fence).await;
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run: start.request.run }).await.unwrap(), None);
    assert_eq!(scene.active(&acme()).await, 0);
    let usage = Usage { runs_active: 1, runs_max: 5 };
    assert_eq!(
        scene.admit(start.clone()).await,
        StartOutcome::Admitted { run: start.request.run, status: RunStatus::Pending, usage }
    );
    scene.unlock(&grant).await;
    // It was committed: it neither ends with the reservation's lease nor is released.
    assert!(!scene.release(&start).await);
    subject.elapse(TTL * 2).await;
    let again = scene.start(&acme(), Some("k")).await;
    let status = Some(RunStatus::Pending);
    assert_eq!(again, StartOutcome::Replayed { run: start.request.run, status, usage });
}

pub async fn a_start_under_the_lock_needs_its_fence_to_be_live(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let start = Admit { admission_fence: Some(grant.fence), ..scene.request(&acme(), None, json!({})) };
    subject.elapse(TTL).await;
    let fenced = |current| Err(StoreError::Fenced { held: grant.fence, current });
    assert_eq!(scene.store.call(start.clone()).await, fenced(grant.fence), "its lease expired");
    let next = scene.lock("b").await;
    assert_eq!(scene.store.call(start.clone()).await, fenced(next.fence), "it is another's");
    assert_eq!(scene.active(&acme()).await, 0);
    let start = Admit { admission_fence: Some(next.fence), ..start };
    assert!(matches!(scene.admit(start).await, StartOutcome::Admitted { .. }));
}

pub async fn a_start_under_the_lock_needs_its_own_reservation(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let start =
        Admit { admission_fence: Some(grant.fence), ..scene.request(&acme(), Some("k"), json!({"n": 1})) };
    let fenced = Err(StoreError::Fenced { held: grant.fence, current: grant.fence });
    assert_eq!(scene.store.call(start.clone()).await, fenced, "it reserved nothing");
    let other = scene.reserved(grant.fence).await;
    assert_eq!(scene.store.call(start.clone()).await, fenced, "it is reserved for another run");
    assert!(scene.release(&other).await);
    assert_eq!(scene.store.call(other.clone()).await, fenced, "its reservation was taken over");
    assert_eq!(scene.active(&acme()).await, 0);
}

pub async fn a_start_under_the_lock_is_held_to_the_cap_and_the_definition(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let blocking = scene.started(&acme()).await;
    let grant = scene.lock("a").await;
    let start = scene.reserved(grant.fence).await;
    assert!(matches!(scene.admit(start.clone()).await, StartOutcome::AtCapacity { .. }));
    let old = with_version(start.clone(), 7);
    assert!(matches!(scene.admit(old).await, StartOutcome::DefinitionChanged { current: Some(1), .. }));
    let _ = scene.commit(ending(&scene.taken(&acme(), blocking).await, Ending::Succeeded)).await.unwrap();
    let answer = scene.admit(start.clone()).await;
    assert!(matches!(answer, StartOutcome::Admitted { run, .. } if run == start.request.run), "{answer:?}");
}

pub async fn a_later_holder_takes_over_a_reservation(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let first = scene.lock("a").await;
    let dead = scene.reserved(first.fence).await;
    scene.unlock(&first).await;
    let second = scene.lock("b").await;
    // Another payload: what never started has none that counts.
    let start =
        Admit { admission_fence: Some(second.fence), ..scene.request(&acme(), Some("k"), json!({"n": 2})) };
    assert_eq!(scene.reserve(&start, second.fence).await, Ok(Reserved::Granted));
    assert!(!scene.release(&dead).await, "it is not the dead one's any more");
    let late = scene.store.call(dead.clone()).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: second.fence }));
    let answer = scene.admit(start.clone()).await;
    assert!(matches!(answer, StartOutcome::Admitted { run, .. } if run == start.request.run), "{answer:?}");
}

pub async fn a_start_without_the_lock_ignores_a_reservation(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let locked = scene.reserved(grant.fence).await;
    let StartOutcome::Admitted { run, usage, .. } = scene.start(&acme(), Some("k")).await else {
        panic!("a reservation stops no start without the lock")
    };
    let status = Some(RunStatus::Pending);
    assert_eq!(scene.admit(locked.clone()).await, StartOutcome::Replayed { run, status, usage });
    assert!(!scene.release(&locked).await);
    assert_eq!(scene.active(&acme()).await, 1);
}

pub async fn a_repeat_is_answered_though_the_lock_is_lost(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let grant = scene.lock("a").await;
    let with_key = scene.reserved(grant.fence).await;
    let _ = scene.admit(with_key.clone()).await;
    scene.limit(&acme(), 2).await;
    let without = Admit { admission_fence: Some(grant.fence), ..scene.request(&acme(), None, json!({})) };
    let _ = scene.admit(without.clone()).await;
    scene.unlock(&grant).await;
    for start in [with_key, without] {
        let (run, usage) = (start.request.run, Usage { runs_active: 2, runs_max: 2 });
        let repeat = Admit { is_repeat: true, ..start };
        assert_eq!(
            scene.admit(repeat).await,
            StartOutcome::Admitted { run, status: RunStatus::Pending, usage }
        );
    }
}

pub async fn reserving_a_key_that_started_a_run_returns_the_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let StartOutcome::Admitted { run, usage, .. } = scene.start(&acme(), Some("k")).await else {
        panic!("the first start is admitted")
    };
    let grant = scene.lock("a").await;
    let again = scene.request(&acme(), Some("k"), json!({"n": 1}));
    let status = Some(RunStatus::Pending);
    let replayed = Ok(Reserved::Replayed { run, status, usage });
    assert_eq!(scene.reserve(&again, grant.fence).await, replayed);
    let reused = scene.request(&acme(), Some("k"), json!({"n": 2}));
    assert_eq!(scene.reserve(&reused, grant.fence).await, Ok(Reserved::KeyReused { run, usage }));
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    let usage = Usage { runs_active: 0, runs_max: 1 };
    let deleted = Ok(Reserved::Replayed { run, status: None, usage });
    assert_eq!(scene.reserve(&again, grant.fence).await, deleted);
    // With its retention the key is free again.
    let limits = Limits { runs_max: Some(1), key_retention: Some(LEASE / 2), ..Limits::default() };
    scene
        .store
        .call(SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false })
        .await
        .unwrap();
    let _ = scene.start(&acme(), Some("other")).await;
    subject.elapse(LEASE / 2).await;
    let other = scene.request(&acme(), Some("other"), json!({"n": 1}));
    assert_eq!(scene.reserve(&other, grant.fence).await, Ok(Reserved::Granted));
    let other = with_request(other, |request| request.tenant = globex());
    assert!(scene.reserve(&other, grant.fence).await.is_err(), "the lock is acme's");
}

pub async fn only_a_reservation_of_the_same_run_is_released(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let start = scene.reserved(grant.fence).await;
    let other = scene.request(&acme(), Some("k"), json!({"n": 1}));
    assert!(!scene.release(&other).await, "it is reserved for another run");
    assert!(
        !scene.release(&with_request(start.clone(), |request| request.tenant = globex())).await,
        "it is another tenant's"
    );
    assert!(
        !scene.release(&with_request(start.clone(), |request| request.workflow = name("other"))).await,
        "of another workflow"
    );
    assert!(scene.release(&start).await);
    assert!(!scene.release(&start).await, "it was released");
    let committed = scene.request(&acme(), Some("k"), json!({"n": 1}));
    let _ = scene.admit(committed.clone()).await;
    assert!(!scene.release(&committed).await, "it started a run");
    assert!(matches!(scene.start(&acme(), Some("k")).await, StartOutcome::Replayed { .. }));
}

pub async fn a_reservation_expires(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let mut asked = ask(&gate(), "a");
    asked.ttl = TTL * 5;
    let grant = granted(&scene.store, &asked).await;
    let start = scene.reserved(grant.fence).await;
    subject.elapse(TTL).await;
    let fenced = Err(StoreError::Fenced { held: grant.fence, current: grant.fence });
    assert_eq!(scene.store.call(start.clone()).await, fenced, "the key is not reserved any more");
    assert!(!scene.release(&start).await, "there is nothing to release");
    let other = Admit { admission_fence: Some(grant.fence), ..scene.request(&acme(), Some("k"), json!({})) };
    assert_eq!(scene.reserve(&other, grant.fence).await, Ok(Reserved::Granted));
    assert!(matches!(scene.admit(other).await, StartOutcome::Admitted { .. }));
}

pub async fn a_count_has_usage_and_how_fast_slots_come_free(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let count = async || scene.store.call(CountRuns { tenant: acme() }).await.unwrap();
    let Count { usage, slot_flow, .. } = count().await;
    assert_eq!((usage, slot_flow.expected_wait()), (Usage { runs_active: 0, runs_max: 3 }, None));
    for _ in 0..2 {
        let run = scene.started(&acme()).await;
        subject.elapse(Duration::from_millis(300)).await;
        let _ = scene.commit(ending(&scene.taken(&acme(), run).await, Ending::Succeeded)).await.unwrap();
    }
    scene.started(&acme()).await;
    let Count { usage, slot_flow, .. } = count().await;
    assert_eq!(usage, Usage { runs_active: 1, runs_max: 3 });
    assert_eq!(slot_flow.expected_wait(), Some(Duration::from_millis(300)));
}

pub async fn what_is_reserved_survives_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let grant = scene.lock("a").await;
    let start = scene.reserved(grant.fence).await;
    drop(scene);
    subject.reopen().await;
    let store = subject.store();
    let admitted = store.call(start.clone()).await.unwrap();
    assert!(
        matches!(admitted, StartOutcome::Admitted { run, .. } if run == start.request.run),
        "{admitted:?}"
    );
    assert_eq!(start.request.workflow, deploy());
}
