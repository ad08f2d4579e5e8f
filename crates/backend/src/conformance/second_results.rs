//! Results that must not count: over another edge than their lease, or other than the first.

use interlock_model::job::{JobOutcome, JobState};
use interlock_model::scheduling::Edge;
use serde_json::json;

use super::Subject;
use super::deliveries::{completed, deferred, failed, is_fenced, report};
use super::scene::{Scene, acme, outcomes};
use crate::StoreError;
use crate::deliveries::{DeferOutcome, DeferResult, DeliverResult, DeliveryOutcome};
use crate::jobs::{Claimed, OTHER_EDGE, Report};
use crate::verbs::{ReadJob, RecordResult};

fn result(claimed: &Claimed, edge: Edge, outcome: JobOutcome) -> RecordResult {
    let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
    RecordResult { tenant: acme(), job, fence, edge: Some(edge), outcome }
}

fn other_output() -> JobOutcome {
    JobOutcome::completed(json!({"forged": true}))
}

pub async fn a_result_counts_only_over_the_edge_of_its_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    assert_eq!(claimed.lease.edge, Some(Edge::Http));
    let other_edge = StoreError::Conflict(OTHER_EDGE.to_owned());
    let nats = Some(Edge::Nats);
    let recorded = scene.store.call(result(&claimed, Edge::Nats, completed())).await;
    assert_eq!(recorded, Err(other_edge.clone()));
    let delivered = scene.store.call(DeliverResult { edge: nats, ..report(&claimed, completed()) }).await;
    assert_eq!(delivered, Err(other_edge.clone()));
    let kept = scene.store.call(DeferResult { edge: nats, ..deferred(&claimed, 1) }).await;
    assert_eq!(kept, Err(other_edge));
    let job = claimed.job.id.clone();
    let shown = scene.store.call(ReadJob { tenant: acme(), job: job.clone() }).await.unwrap();
    let shown = shown.expect("the job is there");
    assert_eq!((shown.state, shown.lease), (JobState::Running, Some(claimed.lease.clone())));

    assert_eq!(scene.store.call(result(&claimed, Edge::Http, failed())).await, Ok(Report::Recorded));
    assert_eq!(outcomes(&scene.taken(&acme(), job.run).await), [(job, failed())]);
}

pub async fn a_second_result_with_another_output_is_refused(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    assert_eq!(scene.store.call(result(&claimed, Edge::Http, completed())).await, Ok(Report::Recorded));
    assert!(is_fenced(&scene.store.call(result(&claimed, Edge::Http, other_output())).await));
    assert!(is_fenced(&scene.store.call(report(&claimed, other_output())).await));
    let kept = DeferResult { outcome: other_output(), ..deferred(&claimed, 1) };
    assert!(is_fenced(&scene.store.call(kept).await));

    let again = scene.store.call(result(&claimed, Edge::Http, completed())).await;
    assert_eq!(again, Ok(Report::AlreadyRecorded));
    let again = scene.store.call(report(&claimed, completed())).await;
    assert_eq!(again, Ok(DeliveryOutcome::AlreadyRecorded));
    assert_eq!(scene.store.call(deferred(&claimed, 1)).await, Ok(DeferOutcome::AlreadyRecorded));
    let job = claimed.job.id.clone();
    assert_eq!(outcomes(&scene.taken(&acme(), job.run).await), [(job, completed())]);
}

pub async fn another_output_than_the_deferred_one_is_refused(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&deferred(&claimed, 1)).await;
    let kept = DeferResult { outcome: other_output(), ..deferred(&claimed, 2) };
    assert!(is_fenced(&scene.store.call(kept).await));
    assert!(is_fenced(&scene.store.call(report(&claimed, other_output())).await));
    let taken = scene.delivered(&report(&claimed, completed())).await;
    assert_eq!(outcomes(&taken), [(claimed.job.id.clone(), completed())]);
}
