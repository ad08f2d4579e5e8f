//! Suspects, when replies are lost.

use interlock_backend::dead_letters::DeadLetterRetry;
use interlock_backend::suspects::SuspectOutcome;
use interlock_backend::verbs::{AcquireSuspect, RetryDeadLetter};
use interlock_model::RunId;
use interlock_model::run::Quarantine;

use super::lost_replies::Scene;
use super::{LEASE, acme, name, started};

fn acquire(tries_max: u32) -> AcquireSuspect {
    let (tenant, holder) = (acme(), name("engine-7"));
    AcquireSuspect { tenant, holder, lease: LEASE, tries_max, dead_letters_max: 10 }
}

/// A run that was tried twice.
async fn suspect(scene: &Scene) -> (RunId, String) {
    let run = started(&scene.store, 1, false).await;
    let row = format!("wf:run:{{acme}}:{run}");
    scene.server.command(&["HSET", &row, "lease", "7", "tries", "2"]).await.unwrap();
    (run, row)
}

#[tokio::test]
async fn a_suspect_whose_reply_was_lost_is_acquired_once_under_one_fence() {
    let scene = Scene::new().await;
    let (_, row) = suspect(&scene).await;
    scene.lose_reply_to("engine-7");
    let answer = scene.store.call(acquire(5)).await.unwrap();
    let SuspectOutcome::Acquired(taken) = answer else { panic!("expected the run, got {answer:?}") };
    assert_eq!(scene.server.command(&["HGET", &row, "tries"]).await.unwrap(), "2");
    let fence = taken.run.fence;
    assert_eq!(scene.server.command(&["HGET", &row, "lease"]).await.unwrap(), fence.to_string());
}

#[tokio::test]
async fn a_retry_of_a_quarantined_run_whose_reply_was_lost_is_known_to_be_done() {
    let scene = Scene::new().await;
    let (run, row) = suspect(&scene).await;
    assert_eq!(scene.store.call(acquire(2)).await, Ok(SuspectOutcome::Quarantined(run)));
    let retry = RetryDeadLetter { tenant: acme(), job: Quarantine::letter_id(run), by: "ann".to_owned() };
    scene.lose_reply_to("run@0");
    assert_eq!(scene.store.call(retry).await, Ok(DeadLetterRetry::Posted));
    assert_eq!(scene.server.command(&["HGET", &row, "tries"]).await.unwrap(), "2");
    assert_eq!(
        scene.server.command(&["EXISTS", &format!("wf:job:{{acme}}:{run}:run@0")]).await.unwrap(),
        "0"
    );
}
