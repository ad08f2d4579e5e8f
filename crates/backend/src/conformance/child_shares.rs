//! Children in fair queues.

use std::time::Duration;

use serde_json::json;

use crate::children::ChildSettled;

use super::Subject;
use super::scene::Scene;
use super::slots::group;

pub async fn children_wait_in_the_fair_group_of_their_root(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let queue = json!({"max_wait_sec": 60, "order": "fair", "fair_by": "input.user"});
    let document =
        json!({"key": "input.repo", "max_runs": 1, "on_full": "queue", "count": "all", "queue": queue});
    scene.save_limit("shared", document).await;
    let parents = [
        scene.live(json!({"repo": "api", "user": "ann"})).await,
        scene.live(json!({"repo": "web", "user": "bob"})).await,
    ];
    let first = scene.live_child(parents[0], &["shared"]).await;
    let mut waiting = Vec::new();
    // A child that counts in no limit passes the group on.
    let above = scene.live_child(parents[0], &[]).await;
    for parent in [above.run, parents[0], parents[1]] {
        let child = scene.ask_for_child(parent).await;
        assert!(matches!(scene.start_child(&child, &["shared"]).await, ChildSettled::Queued(_)));
        waiting.push(child);
    }
    for (child, of) in waiting.iter().zip(["ann", "ann", "bob"]) {
        let place = scene.place(child.run).await.expect("it waits");
        assert_eq!(place.waiting.fair, Some(group(of)));
    }
    // The group that has had no slot goes next, though its child came last.
    subject.elapse(Duration::from_secs(10)).await;
    assert_eq!(scene.end_run(first.run).await, 1);
    assert_eq!(scene.waits(waiting[2].run).await, None);
}
