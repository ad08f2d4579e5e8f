//! Loops that one replica at a time runs.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{
    ListLockHistory, ReadRegistry, ReadSnapshot, RecordBeat, RegisterNatsWorker, SaveSnapshot,
};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::registry::{Beat, Handshake};
use interlock_backend::{Bus as _, PageRequest, Wake};
use interlock_control::doctor::{DoctorScope, DoctorTenants};
use interlock_control::lease::Loss;
use interlock_control::reconcile::ticking::{self, Tick, TickReport};
use interlock_model::doctor::Invariant;
use interlock_model::lock::{LockName, StageLock};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, Timestamp};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::line::Cut;
use crate::runs::start_a_run;
use crate::scene::{Process, Scene};

const PERIOD: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(10);

async fn snapshot(scene: &Scene) -> Option<Value> {
    scene.store.call(ReadSnapshot).await.unwrap().map(|text| serde_json::from_str(&text).unwrap())
}

fn captured_at(snapshot: &Value) -> Timestamp {
    snapshot["captured_at"].as_str().unwrap().parse().unwrap()
}

/// The snapshots that were written while `time` passed, each once: by whom, and when.
async fn snapshots_during(scene: &Scene, time: Duration) -> Vec<(String, Timestamp)> {
    let mut seen: Vec<(String, Timestamp)> = Vec::new();
    let began = Instant::now();
    while began.elapsed() < time {
        if let Some(found) = snapshot(scene).await {
            let written = (found["writer"].as_str().unwrap().to_owned(), captured_at(&found));
            if seen.last() != Some(&written) {
                seen.push(written);
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    seen
}

/// Three replicas whose loops began at different moments, as tasks that can be killed.
async fn three_replicas(scene: &Scene, stages: &mut JoinSet<()>) -> Vec<(Process, AbortHandle)> {
    let mut replicas = Vec::new();
    for seed in 1..=3 {
        let process = scene.process(seed);
        let looped = ticking::run(
            process.control.reconcilers.clone(),
            StageLock::SnapshotWriter,
            CancellationToken::new(),
        );
        replicas.push((process, stages.spawn(looped)));
        sleep(Duration::from_millis(1_300)).await;
    }
    replicas
}

#[tokio::test(start_paused = true)]
async fn of_three_replicas_the_same_one_ticks_once_in_every_period() {
    let scene = Scene::new();
    let mut stages = JoinSet::new();
    let _replicas = three_replicas(&scene, &mut stages).await;
    let ticks = snapshots_during(&scene, PERIOD * 20).await;
    // One was there already, and twenty periods may begin and end within a tick.
    assert!((20..=22).contains(&ticks.len()), "{} ticks in 20 periods", ticks.len());
    assert!(ticks.iter().all(|(writer, _)| *writer == ticks[0].0), "{ticks:?}");
    for pair in ticks.windows(2) {
        assert_eq!(pair[1].1.since(pair[0].1), PERIOD, "one tick in every window");
    }
}

#[tokio::test(start_paused = true)]
async fn another_replica_ticks_within_the_lease_of_the_holder_that_died() {
    for moment in 0..20 {
        let scene = Scene::new();
        let mut stages = JoinSet::new();
        let replicas = three_replicas(&scene, &mut stages).await;
        sleep(PERIOD * 2 + Duration::from_millis(moment * 250)).await;
        let writer = snapshot(&scene).await.unwrap()["writer"].as_str().unwrap().to_owned();
        let (_, task) = replicas
            .iter()
            .find(|(process, _)| process.control.process.instance().as_str() == writer)
            .unwrap();
        task.abort();
        let died_at = Instant::now();
        while snapshot(&scene).await.unwrap()["writer"] == writer.as_str() {
            assert!(died_at.elapsed() <= TTL + Duration::from_millis(20), "no replica took over");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_answer_was_lost_finds_its_lock_again() {
    let scene = Scene::new();
    let process = scene.process(1);
    let stage = StageLock::SnapshotWriter;
    let mut lock = process.control.reconcilers.loop_lock(stage);
    process.wire.cut(Cut::AnswersVanish);
    let unheard = tokio::time::timeout(Duration::from_secs(1), lock.tick(&process.control.process)).await;
    assert!(unheard.is_err());
    process.wire.cut(Cut::Open);
    sleep(Duration::from_secs(4)).await;
    let before = scene.holder(&LockName::Stage(stage)).await.unwrap();
    let hold = lock.tick(&process.control.process).await.unwrap().unwrap();
    assert_eq!(hold.fence(), before.fence, "it is the same lease");
    let after = scene.holder(&LockName::Stage(stage)).await.unwrap();
    assert_eq!(after.expires_at.since(before.expires_at), PERIOD, "for its whole time from now on");
}

#[tokio::test(start_paused = true)]
async fn a_paused_writers_late_snapshot_is_rejected_and_it_loses_the_lock() {
    let scene = Scene::new();
    let (paused, other) = (scene.process(1), scene.process(2));
    let stage = StageLock::SnapshotWriter;
    let (mut its, mut others) =
        (paused.control.reconcilers.loop_lock(stage), other.control.reconcilers.loop_lock(stage));
    let fence = its.tick(&paused.control.process).await.unwrap().unwrap().fence();
    // Its own snapshot is on its way for longer than the lease, and the process does not run meanwhile.
    paused.wire.slow_down(SaveSnapshot::ACTION, TTL * 2);
    let mut late = Box::pin(paused.control.reconcilers.tick(&mut its, stage));
    assert!(futures_util::poll!(late.as_mut()).is_pending());
    sleep(TTL + Duration::from_millis(1)).await;
    let ticked = other.control.reconcilers.tick(&mut others, stage).await.unwrap();
    assert!(matches!(ticked, Tick::Done(_)), "{ticked:?}");
    let written = snapshot(&scene).await;

    assert_eq!(late.await, Ok(Tick::Dropped(Loss::Deadline)));
    let refused = scene.store.call(SaveSnapshot { fence, snapshot: "{}".to_owned() }).await;
    assert!(matches!(refused, Err(StoreError::Fenced { held, .. }) if held == fence), "{refused:?}");
    assert_eq!(snapshot(&scene).await, written);
    assert_eq!(paused.control.reconcilers.tick(&mut its, stage).await, Ok(Tick::NotOurs));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_says_when_by_whom_and_under_which_fence_it_was_written() {
    let scene = Scene::new();
    let process = scene.process(1);
    let worker: interlock_model::WorkerId = "w-1".parse().unwrap();
    scene
        .store
        .call(RegisterNatsWorker {
            worker: worker.clone(),
            handshake: Handshake { topics: vec!["work".parse().unwrap()] },
        })
        .await
        .unwrap();
    let beat = Beat { jobs_active: 2, jobs_max: 8, ..Beat::default() };
    scene.store.call(RecordBeat { worker: worker.clone(), beat: beat.clone() }).await.unwrap();
    let now = scene.store.call(ReadRegistry).await.unwrap().now;
    let mut lock = process.control.reconcilers.loop_lock(StageLock::SnapshotWriter);
    let _ = process.control.reconcilers.tick(&mut lock, StageLock::SnapshotWriter).await.unwrap();
    let held = scene.holder(&LockName::Stage(StageLock::SnapshotWriter)).await.unwrap();
    let snapshot = snapshot(&scene).await.unwrap();
    assert_eq!(captured_at(&snapshot), now);
    assert_eq!(snapshot["writer"], "i-1");
    assert_eq!(snapshot["fence"].as_u64().map(Fence::new), Some(held.fence));
    let written = &snapshot["workers"][0];
    assert_eq!((&written["worker_id"], &written["topics"][0]), (&"w-1".into(), &"work".into()));
    assert_eq!(written["active_jobs"], 2);
    assert_eq!(written["last_seen_at"], now.to_string());
}

#[tokio::test(start_paused = true)]
async fn the_slow_loops_find_what_the_quick_ones_missed() {
    let scene = Scene::new();
    let process = scene.process(1);
    let control = &process.control;
    start_a_run(control).await;
    let mut heard = scene.bus.subscribe();

    let ticked = tick(&process, StageLock::PendingReplayer).await;
    let found = TickReport { tenants: 1, jobs_announced: 1, ..TickReport::default() };
    assert_eq!(ticked, Tick::Done(found));
    let (tenant, topic) = ("acme".parse().unwrap(), "work".parse().unwrap());
    assert_eq!(heard.try_recv(), Ok(Wake::JobsReady { tenant, topic, jobs: 1 }));

    let claim = Claim {
        tenant: "acme".parse().unwrap(),
        worker: "w".parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(Duration::from_secs(2)),
        edge: Edge::Http,
    };
    assert_eq!(scene.store.call(claim).await.unwrap().len(), 1);
    sleep(Duration::from_secs(3)).await;
    let ticked = tick(&process, StageLock::Reconciler).await;
    let found = TickReport { tenants: 1, stale: [1, 0], jobs_lost: 1, ..TickReport::default() };
    assert_eq!(ticked, Tick::Done(found));

    let ticked = tick(&process, StageLock::EngineReconciler).await;
    let found = TickReport { tenants_ready: 1, ..TickReport::default() };
    assert_eq!(ticked, Tick::Done(found));
    let woken: Vec<_> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
    assert_eq!(woken.last(), Some(&Wake::RunReady { tenant: "acme".parse().unwrap() }));
}

async fn tick(process: &Process, stage: StageLock) -> Tick {
    process.control.reconcilers.tick(&mut process.control.reconcilers.loop_lock(stage), stage).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stage_lock_is_held_for_its_time_and_never_given_back() {
    let scene = Scene::new();
    let process = scene.process(1);
    for stage in StageLock::ALL {
        let _ = tick(&process, stage).await;
        let row = process.control.process.settings().locks.stage(stage);
        let held = scene.holder(&LockName::Stage(stage)).await.unwrap();
        assert_eq!(held.expires_at.since(held.acquired_at), row.ttl);
        let page = PageRequest { limit: 10, after: None };
        let history = scene
            .store
            .call(ListLockHistory { lock: LockName::Stage(stage), page: page.clone() })
            .await
            .unwrap();
        assert!(history.items.iter().all(|event| event.end.is_none()), "{:?}", history.items);
    }
}

/// Its lease goes on until it expires. Nothing blocks it, as the doctor would say of a process that lives.
#[tokio::test(start_paused = true)]
async fn a_loop_of_a_process_that_has_stopped_does_not_lag() {
    let scene = Scene::new();
    let (stopped, other) = (scene.process(1), scene.process(2));
    let stage = StageLock::SnapshotWriter;
    let mut lock = stopped.control.reconcilers.loop_lock(stage);
    assert!(matches!(stopped.control.reconcilers.tick(&mut lock, stage).await, Ok(Tick::Done(_))));
    sleep(TTL * 4 / 5).await;
    let only = vec![Invariant::RenewalLag];
    let lag = DoctorScope { tenants: DoctorTenants::All, only };
    let seen_by_another = other.control.doctor.examine(&lag).await;
    assert_eq!((&*seen_by_another.findings, &*seen_by_another.unseen), (&[][..], &[][..]));
    // The process itself knows that it lives.
    let own = stopped.control.doctor.examine(&lag).await;
    assert_eq!(own.findings.len(), 1, "{own:?}");
}
