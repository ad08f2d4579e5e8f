//! Faults are planted into the store; the loops find and repair them.

use interlock_backend::verbs::{ExtendJobLease, ListActiveRuns, ReadRun, ReadUsage, ReadWorker, SetLimits};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::local::{Changes, Decision, Executor as _, Pick, Table, View};
use interlock_backend::registry::Handshake;
use interlock_backend::tenants::LimitScope;
use interlock_control::reconcile::ticking::{Tick, TickReport};
use interlock_model::TenantId;
use interlock_model::limit::Limits;
use interlock_model::lock::StageLock;
use interlock_model::scheduling::Edge;
use tokio::time::sleep;

use crate::runs::{engine, start_a_run};
use crate::scene::{Process, Scene};

/// A scan of the only tenant that found nothing.
fn clean() -> TickReport {
    TickReport { tenants: 1, ..TickReport::default() }
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

async fn tick(process: &Process, stage: StageLock) -> TickReport {
    let mut lock = process.control.reconcilers.loop_lock(stage);
    match process.control.reconcilers.tick(&mut lock, stage).await.unwrap() {
        Tick::Done(report) => report,
        other @ (Tick::NotOurs | Tick::Dropped(_)) => panic!("no tick: {other:?}"),
    }
}

/// The next tick of the same stage is another process's: wait for the lock to end.
async fn tick_again(process: &Process, stage: StageLock) -> TickReport {
    sleep(process.control.process.settings().locks.stage(stage).ttl).await;
    tick(process, stage).await
}

async fn plant(scene: &Scene, change: impl FnOnce(&dyn View, &mut Changes) + Send + 'static) {
    let write = scene.tables.tables().write("plant a fault", move |view, _| {
        let mut changes = Changes::default();
        change(view, &mut changes);
        Ok::<_, StoreError>(Decision { answer: (), changes })
    });
    write.await.unwrap();
}

/// The key of the only row of a table.
fn only_key(view: &dyn View, table: Table) -> String {
    view.scan(table, "", "~", Pick::First(2)).unwrap().pop().expect("there is one").key
}

fn claim(term: Duration) -> Claim {
    Claim {
        tenant: acme(),
        worker: "w".parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 10,
        term: LeaseTerm::For(term),
        edge: Edge::Http,
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_without_a_run_is_released_and_a_run_without_a_slot_gets_one() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    let stage = StageLock::SlotReconciler;
    assert_eq!(tick(&process, stage).await, clean());

    plant(&scene, |view, changes| {
        changes.delete(Table::Active, only_key(view, Table::Active));
        changes.mark(Table::Active, "acme/01900000-0000-7000-8000-000000000001");
        changes.mark(Table::Active, "acme/01900000-0000-7000-8000-000000000002");
    })
    .await;
    let found = TickReport { slots_drifted: 3, slots_repaired: 3, ..clean() };
    assert_eq!(tick_again(&process, stage).await, found);
    assert_eq!(process.control.process.counted().slot_drift, 3);
    assert_eq!(scene.store.call(ReadUsage { tenant: acme() }).await.unwrap().runs_active, 1);
    assert_eq!(scene.store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap().len(), 1);
    assert_eq!(tick_again(&process, stage).await, clean());
    assert_eq!(process.control.process.counted().slot_drift, 0);
}

#[tokio::test(start_paused = true)]
async fn one_row_that_cannot_be_read_does_not_stop_the_others() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |view, changes| {
        let key = only_key(view, Table::Active);
        changes.delete(Table::Active, key);
        changes.put(Table::Heads, "acme/01900000-0000-7000-8000-000000000001", &"damaged");
    })
    .await;
    let found = TickReport { slots_drifted: 2, slots_repaired: 1, ..clean() };
    assert_eq!(tick(&process, StageLock::SlotReconciler).await, found);
    assert_eq!(scene.store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_count_of_live_runs_that_is_wrong_is_put_right() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |view, changes| {
        let tenant = view.get(Table::Tenants, "acme").unwrap().unwrap();
        let mut tenant: interlock_model::tenant::Tenant = serde_json::from_str(&tenant).unwrap();
        tenant.runs_active = 9;
        changes.put(Table::Tenants, "acme", &tenant);
    })
    .await;
    let found = TickReport { slots_drifted: 1, slots_repaired: 1, ..clean() };
    assert_eq!(tick(&process, StageLock::SlotReconciler).await, found);
    assert_eq!(scene.store.call(ReadUsage { tenant: acme() }).await.unwrap().runs_active, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_in_no_queue_is_requeued_and_counted_once() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |view, changes| changes.delete(Table::Queue, only_key(view, Table::Queue))).await;
    let found = TickReport { jobs_announced: 1, jobs_requeued: 1, ..clean() };
    assert_eq!(tick(&process, StageLock::PendingReplayer).await, found);
    let found = TickReport { jobs_requeued: 0, ..found };
    assert_eq!(tick_again(&process, StageLock::PendingReplayer).await, found);
    assert_eq!(process.control.process.counted().orphans_replayed, 1);
    assert_eq!(scene.store.call(claim(Duration::from_secs(2))).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn stale_jobs_are_counted_by_whether_their_worker_sent_a_heartbeat_and_then_ended() {
    let scene = Scene::new();
    let process = scene.process(1);
    for _ in 0..3 {
        start_a_run(&process.control).await;
    }
    let claimed = scene.store.call(claim(Duration::from_secs(2))).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let beat = scene
        .store
        .call(ExtendJobLease {
            tenant: acme(),
            job: claimed[0].job.id.clone(),
            fence: claimed[0].lease.fence,
            term: None,
        })
        .await;
    assert!(beat.is_ok(), "{beat:?}");
    sleep(Duration::from_secs(5)).await;
    let found = TickReport { stale: [2, 1], jobs_lost: 3, ..clean() };
    assert_eq!(tick(&process, StageLock::Reconciler).await, found);
    assert_eq!(process.control.process.counted().stale_jobs, [2, 1]);
    let other = scene.process(2);
    let mut lock = other.control.reconcilers.loop_lock(StageLock::Reconciler);
    let tick = other.control.reconcilers.tick(&mut lock, StageLock::Reconciler).await;
    assert_eq!(tick, Ok(Tick::NotOurs));
    assert_eq!(other.control.process.counted().stale_jobs, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_missed_is_found_by_the_slow_scan() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |view, changes| {
        let run = only_key(view, Table::Heads);
        changes.mark(Table::Timers, run.replace('/', "/000000000000001/"));
    })
    .await;
    let found = TickReport { runs_fired: 1, ..clean() };
    assert_eq!(tick(&process, StageLock::TimerReconciler).await, found);
}

#[tokio::test(start_paused = true)]
async fn what_is_certain_to_be_unused_is_removed_and_nothing_else() {
    let mut scene = Scene::new();
    scene.settings.run_retention = Some(Duration::from_hours(48));
    let process = scene.process(1);
    let turns = engine(&process);
    let (deleted, ended, live) = (
        start_a_run(&process.control).await,
        start_a_run(&process.control).await,
        start_a_run(&process.control).await,
    );
    process.control.runs.delete(&acme(), deleted).await.unwrap();
    process.control.runs.cancel(&acme(), ended, "a test").await.unwrap();
    assert_eq!(scene.store.call(claim(Duration::from_hours(99))).await.unwrap().len(), 1);
    // The engine must not poll through two days.
    drop(turns);
    let stage = StageLock::Retention;
    sleep(Duration::from_hours(23)).await;
    assert_eq!(tick(&process, stage).await, clean());
    sleep(Duration::from_hours(2)).await;
    let day = TickReport { workers_forgotten: 1, marks_removed: 1, ..clean() };
    assert_eq!(tick(&process, stage).await, day);
    assert_eq!(scene.store.call(ReadWorker { tenant: acme(), worker: "w".parse().unwrap() }).await, Ok(None));
    sleep(Duration::from_hours(24)).await;
    assert_eq!(tick(&process, stage).await, TickReport { runs_deleted: 1, ..clean() });
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run: ended }).await, Ok(None));
    assert!(
        scene.store.call(ReadRun { tenant: acme(), run: live }).await.unwrap().is_some(),
        "a live run is kept however old it is"
    );
}

#[tokio::test(start_paused = true)]
async fn a_nats_worker_that_was_silent_for_a_day_is_forgotten() {
    let scene = Scene::new();
    let process = scene.process(1);
    let (worker, handshake) = ("w".parse().unwrap(), Handshake { topics: vec!["work".parse().unwrap()] });
    process.control.workers.register(&worker, &handshake).await.unwrap();
    sleep(Duration::from_hours(24)).await;
    assert_eq!(tick(&process, StageLock::Retention).await, TickReport::default());
    sleep(Duration::from_hours(1)).await;
    let found = TickReport { workers_forgotten: 1, ..TickReport::default() };
    assert_eq!(tick(&process, StageLock::Retention).await, found);
    assert_eq!(process.control.workers.registry().await.unwrap().workers, []);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_cannot_be_read_is_counted_and_the_others_are_scanned() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |_, changes| changes.put(Table::Tenants, "aaa", &"damaged")).await;
    let found = TickReport { tenants: 2, tenants_failed: 1, ..TickReport::default() };
    assert_eq!(tick(&process, StageLock::SlotReconciler).await, found);
}

#[tokio::test(start_paused = true)]
async fn runs_beyond_one_page_get_their_slots_in_the_same_tick() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    plant(&scene, |view, changes| {
        let row = view.scan(Table::Heads, "", "~", Pick::First(1)).unwrap().pop().unwrap();
        let head: serde_json::Value = serde_json::from_str(&row.value).unwrap();
        for number in 0..1_200 {
            changes.put(Table::Heads, format!("acme/01900000-0000-7000-8000-{number:012}"), &head);
        }
    })
    .await;
    let found = TickReport { slots_drifted: 1_200, slots_repaired: 1_200, ..clean() };
    assert_eq!(tick(&process, StageLock::SlotReconciler).await, found);
}

#[tokio::test(start_paused = true)]
async fn expired_leases_of_locks_beyond_one_page_are_ended_in_the_same_tick() {
    let scene = Scene::new();
    let process = scene.process(1);
    start_a_run(&process.control).await;
    for number in 0..501 {
        let mut asked = crate::scene::ask(&format!("door-{number}"), "ann", Duration::from_mins(1));
        asked.wait = Duration::ZERO;
        process.acquire(asked).await;
    }
    sleep(Duration::from_hours(1)).await;
    assert_eq!(tick(&process, StageLock::Retention).await, TickReport { leases_ended: 501, ..clean() });
}

#[tokio::test(start_paused = true)]
async fn an_old_run_is_deleted_though_a_page_of_live_ones_is_before_it() {
    let mut scene = Scene::new();
    scene.settings.run_retention = Some(Duration::from_hours(1));
    let process = scene.process(1);
    let limits = Limits { runs_max: Some(200), ..Limits::default() };
    scene
        .store
        .call(SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false })
        .await
        .unwrap();
    let ended = start_a_run(&process.control).await;
    process.control.runs.cancel(&acme(), ended, "a test").await.unwrap();
    for _ in 0..100 {
        sleep(Duration::from_millis(1)).await;
        start_a_run(&process.control).await;
    }
    sleep(Duration::from_hours(2)).await;
    assert_eq!(tick(&process, StageLock::Retention).await, TickReport { runs_deleted: 1, ..clean() });
}
