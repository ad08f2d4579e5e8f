//! Documents that a store may keep apart from their rows: they go the same ways as small ones, and are replaced by them.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_model::StepKey;
use interlock_model::child::{ChildOutcome, ChildReport};
use interlock_model::job::JobOutcome;
use interlock_model::run::{Ending, InboxEvent, Run};
use interlock_model::step::StepRun;
use serde_json::{Value, json};

use super::Subject;
use super::deliveries::{DELAY, deferred, report};
use super::scene::{Scene, acme, ending, idle, name, outcomes, running};
use crate::deliveries::{DeferResult, DeliveryOutcome};
use crate::runs::Commit;
use crate::verbs::{AcquireChildStarts, ExpireLeases, ReadRun};

/// Longer than one piece of what goes over a network at once; no character ends where a piece does.
fn large() -> Value {
    json!({"text": "é🦀".repeat(30_000), "n": 1.50})
}

fn completed() -> JobOutcome {
    JobOutcome::completed(large())
}

pub async fn a_large_result_is_deferred_and_delivered(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let kept = DeferResult { outcome: completed(), ..deferred(&claimed, 1) };
    scene.kept(&kept).await;
    scene.kept(&kept).await;
    subject.elapse(DELAY).await;
    let due = scene.acquire_deferred(10).await.remove(0);
    assert!(due.outcome == completed());
    let taken = scene.delivered(&report(&claimed, due.outcome)).await;
    assert!(outcomes(&taken) == [(claimed.job.id.clone(), completed())]);
    let _ = scene.commit(idle(&taken)).await.unwrap();
    let again = scene.deliver(&report(&claimed, completed())).await;
    assert!(matches!(again, DeliveryOutcome::AlreadyRecorded), "{again:?}");
}

pub async fn a_large_deferred_result_is_not_lost_with_its_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let kept = DeferResult { outcome: completed(), ..deferred(&claimed, 1) };
    scene.kept(&kept).await;
    subject.elapse(Duration::from_secs(10)).await;
    let expired = scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await;
    assert_eq!(expired, Ok(vec![claimed.job.id.clone()]));
    let taken = scene.taken(&acme(), claimed.job.id.run).await;
    assert!(outcomes(&taken) == [(claimed.job.id, completed())]);
}

pub async fn a_large_document_is_replaced_by_a_small_one_and_back(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let key = StepKey::whole(&name("build"));
    let mut taken = scene.taken(&acme(), run).await;
    for (count, value) in [large(), json!(1), large(), json!({})].into_iter().enumerate() {
        let mut turn: Commit = if count == 0 { running(&taken) } else { idle(&taken) };
        let step = StepRun { output: Some(value.clone()), ..StepRun::default() };
        turn.head.output = Some(value.clone());
        turn.steps = vec![(key.clone(), step.clone())];
        turn.continues = true;
        let _ = scene.commit(turn).await.unwrap();
        let found = scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap();
        assert!(found.head.output == Some(value) && found.steps[&key] == step, "turn {count}");
        taken = scene.taken(&acme(), run).await;
        assert!(taken.head == found.head, "turn {count}");
    }
}

pub async fn a_child_has_a_large_input_and_reports_a_large_output(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), parent).await;
    let mut child = scene.child_of(&taken);
    child.input = large();
    let mut turn = running(&taken);
    turn.children.started = vec![child.clone()];
    let _ = scene.commit(turn).await.unwrap();
    let acquire = AcquireChildStarts { tenant: acme(), in_progress: DELAY, limit: 10 };
    assert!(scene.store.call(acquire).await.unwrap() == [child.clone()]);
    let _ = scene.start_child(&child, &[]).await;
    let taken = scene.taken(&acme(), child.run).await;
    assert!(taken.start.input == large());
    let mut turn = ending(&taken, Ending::Succeeded);
    turn.head.output = Some(large());
    let run = Run { start: taken.start.clone(), head: turn.head.clone(), steps: BTreeMap::new() };
    turn.children.report = ChildReport::of(&run);
    let _ = scene.commit(turn).await.unwrap();
    let taken = scene.taken(&acme(), parent).await;
    let [InboxEvent::Child { child: ended, outcome: ChildOutcome::Succeeded { output }, .. }] =
        &taken.inbox[..]
    else {
        panic!("the end of the child is in the inbox, not {} events", taken.inbox.len())
    };
    assert!(*ended == child.run && *output == large());
}
