//! What the doctor repairs can continue: the engine or a worker is woken.

use std::time::Duration;

use interlock_backend::Wake;
use interlock_backend::conformance::inspection::LocalRows as _;
use interlock_backend::local::{Executor as _, Pick, Table};
use interlock_control::doctor::{DoctorScope, DoctorTenants, FindingOutcome};
use interlock_model::doctor::Invariant;
use interlock_model::scheduling::Edge;
use serde_json::json;
use tokio::time::sleep;

use crate::scene::{AN_HOUR, Scene, acme, completed, jobs_ready, run_ready};

async fn repair(scene: &Scene, invariant: Invariant) {
    let scope = DoctorScope { tenants: DoctorTenants::One(acme()), only: vec![invariant] };
    let repairs = scene.control.doctor.repair(&scope, None).await;
    let outcomes: Vec<_> = repairs.repaired.into_iter().map(|repaired| repaired.outcome).collect();
    assert_eq!(outcomes, [FindingOutcome::Repaired]);
}

async fn delete_rows(scene: &Scene, table: Table) {
    let rows =
        scene.tables.tables().read("list rows", move |view, _| view.scan(table, "", "~", Pick::First(100)));
    let gone = rows.await.unwrap().into_iter().map(|row| (row.key, None)).collect();
    scene.tables.overwrite(table, gone).await;
}

#[tokio::test(start_paused = true)]
async fn a_repaired_run_that_is_ready_again_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await;
    scene.submit(&job, completed()).await;
    delete_rows(&scene, Table::Ready).await;
    sleep(AN_HOUR).await;
    scene.woken();
    repair(&scene, Invariant::InboxNotDrained).await;
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_repaired_job_that_is_in_its_queue_again_is_announced() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    delete_rows(&scene, Table::Queue).await;
    sleep(AN_HOUR).await;
    repair(&scene, Invariant::JobInNoIndex).await;
    assert_eq!(scene.woken(), [jobs_ready("work", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_an_ended_run_that_is_ended_stops_its_worker() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim(AN_HOUR * 100, Edge::Http).await.pop().unwrap().job.id;
    let mut head = scene.found(run).await.head;
    head.status = interlock_model::run::RunStatus::Failed;
    let rows = vec![(format!("acme/{run}"), Some(serde_json::to_string(&head).unwrap()))];
    scene.tables.overwrite(Table::Heads, rows).await;
    sleep(Duration::from_hours(2)).await;
    repair(&scene, Invariant::JobOfEndedRun).await;
    assert_eq!(scene.woken(), [Wake::JobsRevoked { jobs: vec![job] }]);
}
