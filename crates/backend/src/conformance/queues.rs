//! Who goes next: queues by topic and by what a job requires, in the order of time and priority.

use crate::verbs::{CancelJob, CountJobsBefore, DeleteRun};
use std::time::Duration;

use interlock_model::JobId;
use interlock_model::job::{JobState, NewJob};
use interlock_model::meta::{JobMeta, Priority};
use interlock_model::queue::PRIORITY_STEP;

use super::Subject;
use super::scene::{Scene, acme, claim, globex, name, new_job, running};
use crate::jobs::Claim;

/// So long that two moments differ on every clock.
const MOMENT: Duration = Duration::from_millis(5);

fn requiring(tags: &[&str]) -> JobMeta {
    JobMeta { requires: tags.iter().map(|tag| name(tag)).collect(), ..JobMeta::default() }
}

fn urgent(priority: Priority) -> JobMeta {
    JobMeta { priority, ..JobMeta::default() }
}

/// A run with one job for each meta, each a little younger than the one before.
async fn dispatched(scene: &Scene, subject: &dyn Subject, metas: &[JobMeta]) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for meta in metas {
        let run = scene.started(&acme()).await;
        let mut turn = running(&scene.taken(&acme(), run).await);
        turn.dispatched = vec![NewJob { meta: meta.clone(), ..new_job(run, 1) }];
        jobs.push(turn.dispatched[0].id.clone());
        let _ = scene.commit(turn).await.expect("the run is held");
        subject.elapse(MOMENT).await;
    }
    jobs
}

async fn claimed(scene: &Scene, capabilities: &[&str], jobs_max: usize) -> Vec<JobId> {
    let capabilities = capabilities.iter().map(|&name| name.to_owned()).collect();
    let request = Claim { capabilities, ..claim(&acme(), jobs_max) };
    let claimed = scene.store.call(request).await.expect("the store is up");
    claimed.into_iter().map(|it| it.job.id).collect()
}

pub async fn a_job_goes_only_to_a_worker_that_is_capable_of_all_it_requires(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas = [requiring(&["gpu", "arm:64"]), requiring(&["gpu"]), requiring(&["gpu.2"])];
    let jobs = dispatched(&scene, subject, &metas).await;
    for capabilities in [&[][..], &["arm:64"], &["gp"], &["gpu+arm:64"], &["arm:64+gpu"]] {
        assert_eq!(claimed(&scene, capabilities, 5).await, [], "{capabilities:?}");
    }
    let other = Claim { tenant: globex(), capabilities: vec!["gpu".to_owned()], ..claim(&acme(), 5) };
    assert!(scene.store.call(other).await.expect("the store is up").is_empty());
    assert_eq!(claimed(&scene, &["gpu"], 5).await, jobs[1..2]);
    assert_eq!(claimed(&scene, &["linux", "gpu", "arm:64"], 5).await, jobs[..1]);
    assert_eq!(claimed(&scene, &["gpu.2"], 5).await, jobs[2..]);
}

pub async fn the_oldest_comes_first_over_all_kinds_that_fit(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas = [&["gpu"][..], &[], &["linux"], &["gpu"], &[]].map(requiring);
    let jobs = dispatched(&scene, subject, &metas).await;
    assert_eq!(claimed(&scene, &["gpu"], 2).await, jobs[..2]);
    assert_eq!(claimed(&scene, &["linux", "gpu"], 5).await, jobs[2..]);
}

pub async fn jobs_that_others_must_do_are_not_looked_past(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    let required = |attempt| NewJob { meta: requiring(&["gpu"]), ..new_job(run, attempt) };
    turn.dispatched = (1..=300).map(required).collect();
    turn.dispatched.push(new_job(run, 301));
    let _ = scene.commit(turn).await.expect("the run is held");
    let got = claimed(&scene, &["linux"], 1).await;
    assert_eq!(got.iter().map(|job| job.attempt).collect::<Vec<_>>(), [301]);
}

pub async fn an_urgent_job_goes_before_those_that_wait(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas =
        [Priority::Batch, Priority::Interactive, Priority::Critical, Priority::Interactive].map(urgent);
    let jobs = dispatched(&scene, subject, &metas).await;
    let expected = [2, 1, 3, 0].map(|position: usize| jobs[position].clone());
    assert_eq!(claimed(&scene, &[], 2).await, expected[..2]);
    assert_eq!(claimed(&scene, &[], 5).await, expected[2..]);
}

pub async fn a_job_that_waits_ages_until_nothing_overtakes_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let mut jobs = dispatched(&scene, subject, &[urgent(Priority::Batch)]).await;
    subject.elapse(PRIORITY_STEP * 2).await;
    jobs.extend(dispatched(&scene, subject, &[urgent(Priority::Critical)]).await);
    assert_eq!(claimed(&scene, &[], 5).await, jobs);
}

pub async fn a_job_of_any_kind_and_priority_leaves_its_queue_with_its_end(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas = [
        JobMeta { priority: Priority::Critical, ..requiring(&["gpu"]) },
        JobMeta { priority: Priority::Batch, ..requiring(&["gpu", "linux"]) },
        urgent(Priority::Batch),
    ];
    let able = ["gpu", "linux"];
    let jobs = dispatched(&scene, subject, &metas).await;
    for job in &jobs {
        let state = scene
            .store
            .call(CancelJob { tenant: acme(), job: job.clone(), by: "a rule".to_owned() })
            .await
            .expect("the store is up");
        assert_eq!(state, JobState::Cancelled);
    }
    assert_eq!(claimed(&scene, &able, 5).await, []);
    let jobs = dispatched(&scene, subject, &metas).await;
    for job in &jobs {
        scene.store.call(DeleteRun { tenant: acme(), run: job.run }).await.expect("the store is up");
    }
    assert_eq!(claimed(&scene, &able, 5).await, [], "they went with their run");
    let jobs = dispatched(&scene, subject, &metas[1..2]).await;
    assert_eq!(claimed(&scene, &able, 5).await, jobs, "the kind is found again after its queue was empty");
}

pub async fn kinds_and_places_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas = [urgent(Priority::Batch), requiring(&["gpu"])];
    let jobs = dispatched(&scene, subject, &metas).await;
    drop(scene);
    subject.reopen().await;
    let scene = Scene::with_cap(subject, 9).await;
    assert_eq!(claimed(&scene, &["gpu"], 5).await, [jobs[1].clone(), jobs[0].clone()]);
}

pub async fn a_waiting_job_knows_how_many_go_before_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 9).await;
    let metas =
        [urgent(Priority::Batch), requiring(&["gpu"]), urgent(Priority::Interactive), requiring(&["gpu"])];
    let jobs = dispatched(&scene, subject, &metas).await;
    let before = async |job: &JobId| {
        scene.store.call(CountJobsBefore { tenant: acme(), job: job.clone() }).await.expect("the store is up")
    };
    let mut counted = Vec::new();
    for job in &jobs {
        counted.push(before(job).await);
    }
    assert_eq!(counted, [Some(1), Some(0), Some(0), Some(1)]);
    assert_eq!(claimed(&scene, &[], 1).await, jobs[2..3]);
    assert_eq!((before(&jobs[0]).await, before(&jobs[2]).await), (Some(0), None));
    assert_eq!(scene.store.call(CountJobsBefore { tenant: globex(), job: jobs[0].clone() }).await, Ok(None));
}
