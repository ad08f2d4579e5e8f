//! Workers that fall silent, and a bus that does.

use std::time::Duration;

use async_nats::connection::State;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_cap::CapSettings;
use interlock_cap::streams::{RESULTS_CONSUMER, SYSTEM_STREAM};
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_servers::NatsRelease;
use serde_json::json;

use crate::scene::{JOB_LOCK, Scene, TOPIC, acme, fast, output, until};
use crate::worker::{Manner, Worker};

crate::on_both_releases!(
    a_silent_workers_job_goes_to_another_and_its_late_result_is_refused,
    a_worker_that_comes_back_needs_no_new_introduction,
    a_worker_that_stays_away_is_forgotten,
    a_worker_that_starts_anew_has_lost_what_it_held,
    a_pushed_job_is_its_workers_for_as_long_as_its_step_may_take,
    a_job_whose_push_was_never_finished_is_dispatched_again,
    an_outage_of_nats_costs_no_job,
    a_consumer_that_vanished_is_made_again,
);

async fn a_silent_workers_job_goes_to_another_and_its_late_result_is_refused(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut first =
        Worker::join(&scene, "first", Manner { every: Duration::from_hours(1), ..Manner::default() }).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let lost = first.next_job().await;
    let mut second = Worker::join(&scene, "second", Manner::default()).await;
    let job = second.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@2"));
    assert!(job.dispatch.as_ref().unwrap().attempt > lost.dispatch.as_ref().unwrap().attempt);

    first.succeed(&scene, &lost, &json!("late")).await;
    until("the late result is refused", async || scene.tally.results_refused.get() == 1).await;
    second.succeed(&scene, &job, &json!("right")).await;
    let run = scene.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!("right")));
    assert_eq!((run.steps[&"work".parse().unwrap()].losses, scene.tally.jobs_abandoned.get()), (1, 1));
}

async fn a_worker_that_starts_anew_has_lost_what_it_held(release: NatsRelease) {
    let scene = Scene::open(release, CapSettings { silence: Duration::from_mins(10), ..fast() }).await;
    scene.save(&acme(), json!({})).await;
    let mut former = Worker::join(&scene, "w", Manner { tenant: Some("acme"), ..Manner::default() }).await;
    let run = scene.start(&acme()).await;
    assert_eq!(former.next_job().await.job_id, format!("{run}:work@1"));
    drop(former);
    // Killed, and started again under the same name before anybody missed it.
    let mut again = Worker::join(&scene, "w", Manner::default()).await;
    let job = again.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@2"));
    again.succeed(&scene, &job, &json!("ok")).await;
    assert_eq!(output(&scene.ended(&acme(), run).await), json!("ok"));
}

async fn a_pushed_job_is_its_workers_for_as_long_as_its_step_may_take(release: NatsRelease) {
    let lease = Duration::from_mins(7);
    let scene = Scene::open(release, CapSettings { lease, ..fast() }).await;
    scene.save(&acme(), json!({})).await;
    let mut worker = Worker::join(&scene, "w", Manner::default()).await;
    scene.start(&acme()).await;
    let job = worker.next_job().await.job_id.parse().unwrap();
    until("the lease is the worker's", async || {
        let view = scene.control.store().job(&acme(), &job).await.unwrap().unwrap();
        view.lease.is_some_and(|held| held.ttl == lease)
    })
    .await;
}

/// As if the process had died between the claim and the push: a claim of the edge, and nothing after it.
async fn a_job_whose_push_was_never_finished_is_dispatched_again(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let claim = Claim {
        tenant: acme(),
        worker: "w".parse().unwrap(),
        topics: vec![TOPIC.parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(JOB_LOCK),
        edge: Edge::Http,
    };
    assert_eq!(scene.control.claim_now(claim).await.unwrap().len(), 1);
    let mut worker = Worker::join(&scene, "w", Manner::default()).await;
    assert_eq!(worker.next_job().await.job_id, format!("{run}:work@2"));
}

async fn a_worker_that_comes_back_needs_no_new_introduction(release: NatsRelease) {
    let silence = Duration::from_millis(300);
    let scene = Scene::open(release, CapSettings { silence, ..fast() }).await;
    let mut worker =
        Worker::join(&scene, "w1", Manner { every: Duration::from_hours(1), ..Manner::default() }).await;
    until("it is known", async || known(&scene).await == 1).await;
    let seen = scene.control.registry().await.unwrap().workers[0].last_seen_at;
    until("it is silent for long", async || {
        scene.control.registry().await.unwrap().now.since(seen) > silence * 4
    })
    .await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    // The SDK introduces itself once, when it starts: all that it says now is that it lives.
    worker.beat_once().await;
    let job = worker.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@1"), "nothing was pushed to it while it was silent");
    worker.succeed(&scene, &job, &json!("ok")).await;
    assert_eq!(output(&scene.ended(&acme(), run).await), json!("ok"));
}

async fn a_worker_that_stays_away_is_forgotten(release: NatsRelease) {
    let forget_after = Duration::from_secs(1);
    let scene = Scene::open(release, CapSettings { silence: forget_after / 4, forget_after, ..fast() }).await;
    let worker = Worker::join(&scene, "w1", Manner::default()).await;
    until("it is known", async || known(&scene).await == 1).await;
    drop(worker);
    until("it is forgotten", async || known(&scene).await == 0).await;
}

async fn known(scene: &Scene) -> usize {
    scene.control.registry().await.unwrap().workers.len()
}

async fn an_outage_of_nats_costs_no_job(release: NatsRelease) {
    let silence = Duration::from_millis(600);
    let mut scene = Scene::open(release, CapSettings { silence, ..fast() }).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let job = worker.next_job().await;

    scene.nats.kill().await.unwrap();
    until("the connection is down", async || scene.client.connection_state() != State::Connected).await;
    // Nobody can be heard for longer than the bound.
    let registry = scene.control.registry().await.unwrap();
    let last_seen = registry.workers[0].last_seen_at;
    until("the worker looks silent", async || {
        scene.control.registry().await.unwrap().now.since(last_seen) > silence * 2
    })
    .await;
    scene.nats.start_again().await.unwrap();
    until("the connection is back", async || scene.client.connection_state() == State::Connected).await;
    until("the worker is heard", async || {
        scene.control.registry().await.unwrap().workers[0].last_seen_at > last_seen
    })
    .await;

    worker.succeed(&scene, &job, &json!("survived")).await;
    let run = scene.ended(&acme(), run).await;
    assert_eq!((output(&run), run.steps[&"work".parse().unwrap()].attempts), (json!("survived"), 1));
    assert_eq!(scene.tally.jobs_abandoned.get(), 0);
    // And it goes on as before.
    let next = scene.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&scene, &job, &json!("next")).await;
    assert_eq!(output(&scene.ended(&acme(), next).await), json!("next"));
}

async fn a_consumer_that_vanished_is_made_again(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    scene.save(&acme(), json!({})).await;
    let context = async_nats::jetstream::new(scene.client.clone());
    context.delete_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    let run = scene.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&scene, &job, &json!("ok")).await;
    assert_eq!(output(&scene.ended(&acme(), run).await), json!("ok"));
    // The stream, too.
    context.delete_stream(SYSTEM_STREAM).await.unwrap();
    until("the stream is back", async || context.get_stream(SYSTEM_STREAM).await.is_ok()).await;
    let run = scene.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&scene, &job, &json!("ok")).await;
    assert_eq!(output(&scene.ended(&acme(), run).await), json!("ok"));
}
