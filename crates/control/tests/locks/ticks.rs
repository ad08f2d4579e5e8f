//! Every loop that one replica at a time runs: how often it ticks, and who follows a holder that has died.

use std::time::Duration;

use interlock_control::reconcile::ticking;
use interlock_model::lock::StageLock;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::scene::{Process, Scene};

const TICKS: u32 = 50;

struct Replica {
    process: Process,
    task: AbortHandle,
}

impl Replica {
    fn start(scene: &Scene, seed: u64, stage: StageLock) -> Self {
        let process = scene.process(seed);
        let looped = ticking::run(process.control.reconcilers.clone(), stage, CancellationToken::new());
        Self { task: tokio::spawn(looped).abort_handle(), process }
    }

    fn ticks(&self, stage: StageLock) -> u64 {
        self.process.control.process.counted().ticks[stage as usize]
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn with_two_replicas_every_loop_ticks_once_in_each_period_and_outlives_its_holder() {
    for stage in StageLock::ALL {
        let scene = Scene::new();
        let row = scene.settings.locks.stage(stage);
        let period = row.renewed_every.unwrap();
        let mut replicas = vec![Replica::start(&scene, 1, stage)];
        sleep(period / 3).await;
        replicas.push(Replica::start(&scene, 2, stage));
        sleep(period).await;
        let ticks = |replicas: &[Replica]| replicas.iter().map(|one| one.ticks(stage)).sum::<u64>();

        let before = ticks(&replicas);
        sleep(period * TICKS).await;
        assert_eq!(ticks(&replicas) - before, u64::from(TICKS), "{stage:?} in {TICKS} periods");

        let holder = usize::from(replicas[1].ticks(stage) > 0);
        let other = 1 - holder;
        assert_eq!(replicas[other].ticks(stage), 0, "{stage:?}: the same one ticks");
        drop(replicas.remove(holder));
        let (died_at, follower) = (Instant::now(), &replicas[0]);
        while follower.ticks(stage) == 0 {
            assert!(
                died_at.elapsed() <= row.ttl + Duration::from_millis(20),
                "{stage:?}: no replica took over"
            );
            sleep(Duration::from_millis(10)).await;
        }
        let before = follower.ticks(stage);
        sleep(period * TICKS).await;
        assert_eq!(follower.ticks(stage) - before, u64::from(TICKS), "{stage:?}, by the one that is left");
    }
}
