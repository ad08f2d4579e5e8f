//! Held jobs: what a lost reply does to them.

use interlock_backend::verbs::{AcquireRun, ReadJob, ReadTimeline, SettleHeldJob};
use std::num::NonZeroU32;
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::policy_holds::{AcquireHeldJobs, Settled, Settlement};
use interlock_backend::runs::Commit;
use interlock_model::dispatch_policy::{HeldJob, HoldReason, Throttle};
use interlock_model::history::EventKind;
use interlock_model::job::NewJob;
use interlock_model::meta::JobMeta;
use interlock_model::{JobId, RunId, StepKey};
use serde_json::json;

use super::lost_replies::Scene;
use super::{LEASE, acme, claim, deploy, idle, name, open, server, started};

/// A run with two held jobs.
async fn holding(store: &Store) -> (RunId, [JobId; 2]) {
    let run = started(store, 1, false).await;
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    let jobs = [1, 2].map(|attempt| JobId { run, step: StepKey::whole(&name("build")), attempt });
    let held = |id: &JobId| HeldJob {
        job: NewJob {
            id: id.clone(),
            workflow: deploy(),
            topic: name("build"),
            input: json!({}),
            deadline_at: None,
            timeout: None,
            queue_until: None,
            meta: JobMeta::default(),
            budget: None,
            trace: None,
        },
        reason: HoldReason::PolicyPending,
        detail: "to be asked".to_owned(),
    };
    let turn = Commit { held: jobs.iter().map(held).collect(), ..idle(&taken) };
    let _ = store.call(turn).await.unwrap();
    (run, jobs)
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_happens_once_and_answers_so() {
    let scene = Scene::new().await;
    let (run, jobs) = holding(&scene.store).await;
    scene.lose_reply_to("the service was unreachable");
    let release = Settlement::Release { message: Some("the service was unreachable".to_owned()) };
    assert_eq!(
        scene
            .store
            .call(SettleHeldJob { tenant: acme(), job: jobs[0].clone(), settlement: release.clone() })
            .await,
        Ok(Settled::Released)
    );
    let events = scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap();
    let released = events.iter().filter(|recorded| recorded.event.kind == EventKind::StepReleased);
    assert_eq!(released.count(), 1);
    assert_eq!(claim(&scene.store, "worker-1").await.len(), 1);
    let again = scene
        .store
        .call(SettleHeldJob { tenant: acme(), job: jobs[0].clone(), settlement: release.clone() })
        .await;
    assert_eq!(again, Ok(Settled::NotHeld), "another request is not the same again");
}

#[tokio::test]
async fn a_throttled_release_whose_reply_was_lost_is_counted_once() {
    let scene = Scene::new().await;
    let (_, jobs) = holding(&scene.store).await;
    let throttle = Throttle { dispatches: NonZeroU32::new(1).unwrap(), period: Duration::from_hours(1) };
    let within = |detail: &str| Settlement::ReleaseWithin {
        rule: name("slowly"),
        throttle,
        detail: detail.to_owned(),
        message: None,
    };
    scene.lose_reply_to("the first of them");
    let first = scene
        .store
        .call(SettleHeldJob { tenant: acme(), job: jobs[0].clone(), settlement: within("the first of them") })
        .await;
    assert_eq!(first, Ok(Settled::Released), "its own release is not held against it");
    let second = scene
        .store
        .call(SettleHeldJob { tenant: acme(), job: jobs[1].clone(), settlement: within("enough") })
        .await;
    assert!(matches!(second, Ok(Settled::Waiting(_))), "{second:?}");
}

#[tokio::test]
async fn a_wait_whose_reply_was_lost_is_one_look() {
    let scene = Scene::new().await;
    let (_, jobs) = holding(&scene.store).await;
    scene.lose_reply_to("it is down");
    let (reason, wait) = (HoldReason::PolicyUnavailable, Duration::from_hours(1));
    let away = Settlement::Wait { reason, detail: "it is down".to_owned(), wait, acquired_until: None };
    let Ok(Settled::Waiting(look_at)) = scene
        .store
        .call(SettleHeldJob { tenant: acme(), job: jobs[0].clone(), settlement: away.clone() })
        .await
    else {
        panic!("it waits")
    };
    let hold = scene
        .store
        .call(ReadJob { tenant: acme(), job: jobs[0].clone() })
        .await
        .unwrap()
        .unwrap()
        .hold
        .unwrap();
    assert_eq!((hold.looks, hold.look_at), (1, Some(look_at)));
}

#[tokio::test]
async fn due_held_jobs_are_returned_again_when_the_reply_was_lost() {
    let scene = Scene::new().await;
    let (_, jobs) = holding(&scene.store).await;
    // The first argument after the header that no other call has: how long they are in hand.
    scene.lose_reply_to("in_progress");
    let in_progress = Duration::from_millis(54_321);
    let take = AcquireHeldJobs { tenant: acme(), ahead: Duration::ZERO, in_progress, limit: 10 };
    let due = scene.store.call(take.clone()).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id.clone()).collect::<Vec<_>>(), jobs);
    assert_eq!(scene.store.call(take.clone()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn an_entry_of_a_queue_for_a_held_job_is_not_given_out() {
    let server = server().await;
    let store = open(&server.url()).await;
    holding(&store).await;
    let place = server.command(&["ZRANGE", "wf:jobs:{acme}", "0", "0"]).await.unwrap();
    server.command(&["ZADD", "wf:queue:{acme}:build", "0", &place]).await.unwrap();
    assert!(claim(&store, "worker-1").await.is_empty());
}
