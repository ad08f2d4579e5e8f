//! Turns that are cut.

use super::Subject;
use super::scene::{Scene, acme, idle, running};
use crate::runs::Commit;
use crate::verbs::FindDue;

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
