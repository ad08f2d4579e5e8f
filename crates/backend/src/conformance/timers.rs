//! What wakes a run when its time has come.

use std::time::Duration;

use super::Subject;
use super::scene::{Scene, acme, idle};
use crate::verbs::{FindDue, FireTimers};

pub async fn a_timer_fires_when_it_is_due_and_not_before(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.timed(&acme(), Duration::from_millis(600)).await;
    let fire = async || {
        scene.store.call(FireTimers { tenant: acme(), ahead: Duration::ZERO, limit: 10 }).await.unwrap()
    };
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.ready.is_empty() && due.timers.is_empty() && due.next_in.is_some(), "{due:?}");
    assert_eq!(fire().await, 0);
    assert_eq!(scene.take(&acme(), run).await, None);
    subject.elapse(Duration::from_millis(700)).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().timers, [acme()]);
    assert_eq!((fire().await, fire().await), (1, 0));
    let ripe = scene.taken(&acme(), run).await;
    // A turn that leaves the same time in place keeps its timer.
    let _ = scene.commit(idle(&ripe)).await.unwrap();
    assert_eq!(fire().await, 1);
}

pub async fn timers_that_are_due_soon_can_be_fired_now(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.timed(&acme(), Duration::from_hours(1)).await;
    let fire = async |ahead| scene.store.call(FireTimers { tenant: acme(), ahead, limit: 10 }).await;
    assert_eq!(fire(Duration::from_mins(59)).await, Ok(0));
    assert_eq!(fire(Duration::from_mins(61)).await, Ok(1));
    assert_eq!(scene.commit(idle(&scene.taken(&acme(), run).await)).await.map(drop), Ok(()));
    assert_eq!(fire(Duration::from_mins(61)).await, Ok(1), "the turn has set it again");
}
