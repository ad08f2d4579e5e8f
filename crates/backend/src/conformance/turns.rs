//! Turns that are cut.

use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, holder, idle, running};
use crate::runs::{Commit, READY_BYTES_MAX};
use crate::verbs::{AcquireReadyRuns, FindDue};

pub async fn a_turn_that_continues_leaves_the_run_ready_without_anything_in_its_inbox(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let cut = Commit { continues: true, ..running(&scene.taken(&acme(), run).await) };
    assert!(scene.commit(cut).await.unwrap().has_more);
    let is_due = async || scene.store.call(FindDue { limit: 10 }).await.unwrap().ready == [acme()];
    assert!(is_due().await, "should the process die, another one finds it");
    let next = scene.taken(&acme(), run).await;
    assert!(next.inbox.is_empty());
    assert!(!scene.commit(idle(&next)).await.unwrap().has_more);
    assert!(!is_due().await);
    assert_eq!(scene.take(&acme(), run).await, None);
}

pub async fn an_answer_with_ready_runs_stops_growing_at_a_bound(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let input = json!({"text": "x".repeat(READY_BYTES_MAX * 2 / 3)});
    for _ in 0..3 {
        let _ = scene.admit(scene.request(&acme(), None, input.clone())).await;
    }
    let acquire = AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 10 };
    for expected in [2, 1, 0] {
        let acquired = scene.store.call(acquire.clone()).await.unwrap();
        assert_eq!(acquired.runs.len(), expected);
    }
}
