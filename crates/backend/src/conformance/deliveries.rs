//! Results under the lock of their run: recorded with taking it, or put off and delivered again.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::run::{Ending, InboxEvent};
use interlock_model::{Fence, JobId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, ending, globex, holder, idle, name, new_job, outcomes, running};
use crate::StoreError;
use crate::deliveries::{IN_HAND, PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken};
use crate::jobs::{Claimed, Heartbeat, LeaseTerm, Report};
use crate::runs::Taken;

const DELAY: Duration = Duration::from_millis(200);

/// The delay in two parts. The lease is two of them.
const ALMOST: Duration = Duration::from_millis(199);
const MOMENT: Duration = Duration::from_millis(1);

fn completed() -> JobOutcome {
    JobOutcome::Completed { output: json!({"ok": [1, 2.5, {}]}) }
}

fn failed() -> JobOutcome {
    JobOutcome::Failed { error: "no".to_owned(), retryable: true }
}

fn report(claimed: &Claimed, outcome: JobOutcome) -> ReportAndTake {
    ReportAndTake {
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome,
        holder: name("gateway-1"),
        lease: LEASE,
    }
}

fn put_off(claimed: &Claimed, deliveries: u32) -> PutOff {
    PutOff {
        waited: Duration::ZERO,
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        deliveries,
        delay: DELAY,
        lease: LEASE,
    }
}

fn is_fenced<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced { .. }))
}

impl Scene {
    async fn deliver(&self, report: &ReportAndTake) -> ReportTaken {
        self.store.report_and_take(report).await.expect("the result counts")
    }

    async fn delivered(&self, report: &ReportAndTake) -> Taken {
        match self.deliver(report).await {
            ReportTaken::Recorded(taken) => *taken,
            other => panic!("expected to get the run, got {other:?}"),
        }
    }

    /// Puts a result off, and says that it was.
    async fn kept(&self, put_off: &PutOff) {
        assert_eq!(self.store.put_off(put_off).await, Ok(PutOffAnswer::PutOff));
    }

    async fn take_put_off(&self, limit: usize) -> Vec<PutOffResult> {
        self.store.take_put_off(&acme(), limit).await.expect("the store is up")
    }

    /// A run with so many claimed jobs.
    async fn working_at(&self, jobs: u32) -> Vec<Claimed> {
        let run = self.started(&acme()).await;
        let mut turn = running(&self.taken(&acme(), run).await);
        turn.dispatched = (1..=jobs).map(|attempt| new_job(run, attempt)).collect();
        let _ = self.commit(turn).await.expect("the turn is in time");
        self.claim(&acme(), jobs as usize).await
    }

    /// Somebody else is at the run: it has been asked to end.
    async fn hold(&self, job: &JobId) -> Taken {
        let _ = self.store.request_cancel(&acme(), job.run, "a test").await.expect("the run is live");
        self.taken(&acme(), job.run).await
    }
}

pub async fn a_result_of_a_free_run_is_recorded_and_brings_the_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let job = &claimed[0].job.id;
    subject.elapse(Duration::from_millis(7)).await;
    let taken = scene.delivered(&report(&claimed[0], completed())).await;
    assert_eq!(outcomes(&taken), [(job.clone(), completed())]);
    assert!(matches!(&taken.inbox[0], InboxEvent::Job { at, .. } if *at == taken.now));
    let ended = scene.store.job(&acme(), job).await.unwrap().expect("the job is there");
    assert_eq!(ended.state, JobState::Succeeded);
    let end = ended.job.end.expect("it has ended");
    assert!(
        end.held < end.fence && end.fence < taken.fence,
        "first the job's fence is raised, then the run's"
    );
    assert!(scene.take(&acme(), job.run).await.is_none(), "the run is the reporter's");

    let committed = scene.commit(idle(&taken)).await.expect("the run is ours");
    assert!(!committed.has_more, "the turn has drained the result that it came with");
    let next = scene.delivered(&report(&claimed[1], failed())).await;
    assert_eq!(outcomes(&next), [(claimed[1].job.id.clone(), failed())]);
    assert!(next.fence > taken.fence && next.head.version == taken.head.version + 1);
}

pub async fn a_result_comes_behind_what_waits_already(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    for early in &claimed[..2] {
        let reported = scene.store.report(&acme(), &early.job.id, early.lease.fence, failed()).await;
        assert_eq!(reported, Ok(Report::Recorded));
    }
    let taken = scene.delivered(&report(&claimed[2], completed())).await;
    let told: Vec<JobId> = outcomes(&taken).into_iter().map(|(job, _)| job).collect();
    assert_eq!(told, claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    let committed = scene.commit(idle(&taken)).await.expect("the run is ours");
    assert!(!committed.has_more && scene.take(&acme(), taken.start.run).await.is_none());
}

pub async fn a_result_of_a_held_run_changes_nothing(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let held = scene.hold(&claimed.job.id).await;
    let before = scene.store.job(&acme(), &claimed.job.id).await.unwrap();
    assert_eq!(scene.deliver(&report(&claimed, completed())).await, ReportTaken::Busy);
    assert_eq!(scene.store.job(&acme(), &claimed.job.id).await.unwrap(), before);
    let committed = scene.commit(idle(&held)).await.expect("its holder has the run still");
    assert!(!committed.has_more, "nothing was put into the inbox");
    assert_eq!(outcomes(&scene.delivered(&report(&claimed, completed())).await).len(), 1);
}

pub async fn a_hold_that_ran_out_keeps_no_result_waiting(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let late = scene.hold(&claimed.job.id).await;
    let term = LeaseTerm::For(LEASE * 10);
    let beat = scene.store.hold(&acme(), &claimed.job.id, claimed.lease.fence, term).await;
    assert!(matches!(beat, Ok(Heartbeat::Extended { .. })));
    subject.elapse(ALMOST * 2).await;
    assert_eq!(scene.deliver(&report(&claimed, completed())).await, ReportTaken::Busy);
    subject.elapse(MOMENT * 2).await;
    let taken = scene.delivered(&report(&claimed, completed())).await;
    assert_eq!(taken.inbox.len(), 2, "what the late one had not taken into account is there, too");
    assert!(is_fenced(&scene.commit(idle(&late)).await), "and its commit counts no more");
}

pub async fn a_stale_or_repeated_result_is_told_so_whether_the_run_is_held_or_not(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let first = report(&claimed[0], completed());
    let taken = scene.delivered(&first).await;
    let guessed = ReportAndTake { fence: Fence::new(first.fence.number() + 1), ..first.clone() };
    let foreign = ReportAndTake { tenant: globex(), ..first.clone() };
    let late = report(&claimed[1], completed());
    for is_held in [true, false] {
        assert_eq!(scene.deliver(&first).await, ReportTaken::AlreadyRecorded, "held: {is_held}");
        for stale in [&guessed, &report(&claimed[0], failed())] {
            let refused = scene.store.report_and_take(stale).await;
            let held = stale.fence;
            assert!(
                matches!(refused, Err(StoreError::Fenced { held: told, .. }) if told == held),
                "{refused:?}"
            );
        }
        let missing = scene.store.report_and_take(&foreign).await;
        assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
        if is_held {
            scene.store.let_go(&acme(), first.job.run, taken.fence).await.expect("the store is up");
        }
    }
    subject.elapse(LEASE).await;
    assert!(is_fenced(&scene.store.report_and_take(&late).await), "its lease has run out");
}

pub async fn results_at_once_get_the_run_one_at_a_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(12).await;
    let reports: Vec<_> = claimed.iter().map(|it| report(it, completed())).collect();
    let answers = join_all(reports.iter().map(|report| scene.deliver(report))).await;
    let recorded = answers.iter().filter(|it| matches!(it, ReportTaken::Recorded(_))).count();
    let busy = answers.iter().filter(|it| **it == ReportTaken::Busy).count();
    assert_eq!((recorded, busy), (1, 11));
}

pub async fn a_result_that_was_put_off_comes_due_once_and_not_before_its_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    subject.elapse(Duration::from_millis(3)).await;
    scene.kept(&put_off(&claimed, 1)).await;
    let due = scene.store.due(10).await.unwrap();
    assert_eq!((due.put_off, due.next_in), (vec![], Some(DELAY)));
    subject.elapse(ALMOST).await;
    assert_eq!(scene.take_put_off(10).await, []);
    subject.elapse(MOMENT).await;
    let due = scene.store.due(10).await.unwrap();
    assert_eq!(due.put_off, [acme()]);
    let expected = PutOffResult {
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        deliveries: 1,
        waited: DELAY,
    };
    assert_eq!(scene.take_put_off(10).await, std::slice::from_ref(&expected));
    assert_eq!(scene.take_put_off(10).await, [], "it is in somebody's hands");
    assert_eq!(scene.store.due(10).await.unwrap().put_off, []);
    assert_eq!(scene.store.take_put_off(&globex(), 10).await, Ok(vec![]));

    // Whoever took it has died, and the worker says that it lives.
    for _ in 0..IN_HAND.as_millis() / (LEASE.as_millis() / 2) {
        subject.elapse(LEASE / 2).await;
        let _ = scene.store.heartbeat(&acme(), &claimed.job.id, claimed.lease.fence).await.unwrap();
    }
    let again = PutOffResult { waited: DELAY + IN_HAND, ..expected };
    assert_eq!(scene.take_put_off(10).await, [again]);
}

pub async fn due_results_are_taken_oldest_first_and_no_more_than_asked_for(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    for (place, late) in [(1, 30), (0, 20), (2, 10)] {
        let delay = Duration::from_millis(late);
        scene.kept(&PutOff { delay, ..put_off(&claimed[place], 1) }).await;
    }
    subject.elapse(Duration::from_millis(30)).await;
    let jobs = async |limit| scene.take_put_off(limit).await.into_iter().map(|it| it.job).collect::<Vec<_>>();
    assert_eq!(jobs(2).await, [claimed[2].job.id.clone(), claimed[0].job.id.clone()]);
    assert_eq!(jobs(2).await, [claimed[1].job.id.clone()]);
}

pub async fn putting_off_again_goes_on_from_the_first_time_and_repeating_changes_nothing(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let before = Duration::from_secs(3);
    scene.kept(&PutOff { waited: before, ..put_off(&claimed, 1) }).await;
    subject.elapse(DELAY).await;
    assert_eq!(scene.take_put_off(1).await.len(), 1);
    scene.kept(&put_off(&claimed, 2)).await;
    subject.elapse(DELAY / 2).await;
    // The worker has not heard that its result was taken, and comes again.
    scene.kept(&put_off(&claimed, 1)).await;
    scene.kept(&put_off(&claimed, 2)).await;
    subject.elapse(DELAY / 2).await;
    let due = scene.take_put_off(1).await.pop().expect("its second delay is over");
    assert_eq!((due.deliveries, due.waited), (2, before + DELAY * 2), "from when it came");
}

pub async fn the_workers_first_word_counts_while_it_is_put_off(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&put_off(&claimed, 1)).await;
    let other = PutOff { outcome: failed(), deliveries: 2, ..put_off(&claimed, 2) };
    let refused = scene.store.put_off(&other).await;
    assert!(
        matches!(refused, Err(StoreError::Fenced { held, current }) if held == other.fence && current > held),
        "{refused:?}"
    );
    assert!(is_fenced(&scene.store.report_and_take(&report(&claimed, failed())).await));
    let taken = scene.delivered(&report(&claimed, completed())).await;
    assert_eq!(outcomes(&taken), [(claimed.job.id.clone(), completed())]);
}

pub async fn only_the_jobs_holder_may_put_its_result_off(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let guessed =
        PutOff { fence: Fence::new(claimed[0].lease.fence.number() + 1), ..put_off(&claimed[0], 1) };
    assert!(is_fenced(&scene.store.put_off(&guessed).await));
    let foreign = scene.store.put_off(&PutOff { tenant: globex(), ..put_off(&claimed[0], 1) }).await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    let (job, fence) = (&claimed[0].job.id, claimed[0].lease.fence);
    assert_eq!(scene.store.report(&acme(), job, fence, completed()).await, Ok(Report::Recorded));
    assert_eq!(scene.store.put_off(&put_off(&claimed[0], 1)).await, Ok(PutOffAnswer::AlreadyRecorded));
    let contradiction = PutOff { outcome: failed(), ..put_off(&claimed[0], 1) };
    assert!(is_fenced(&scene.store.put_off(&contradiction).await));
    subject.elapse(LEASE).await;
    assert!(is_fenced(&scene.store.put_off(&put_off(&claimed[1], 1)).await), "its lease has run out");
    assert_eq!(scene.store.due(10).await.unwrap().put_off, []);
}

pub async fn a_job_whose_result_is_put_off_keeps_its_lease_beyond_the_delay(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let slow = PutOff { delay: LEASE * 5, ..put_off(&claimed[0], 1) };
    scene.kept(&slow).await;
    scene.kept(&PutOff { delay: Duration::ZERO, lease: Duration::ZERO, ..put_off(&claimed[1], 1) }).await;
    let lease = async |claimed: &Claimed| {
        scene.store.job(&acme(), &claimed.job.id).await.unwrap().and_then(|view| view.lease).unwrap()
    };
    let kept = lease(&claimed[0]).await;
    assert_eq!(
        kept.expires_at.since(claimed[0].lease.expires_at),
        slow.delay,
        "so long, and the lease again"
    );
    assert_eq!((kept.fence, kept.ttl), (claimed[0].lease.fence, claimed[0].lease.ttl));
    assert_eq!(lease(&claimed[1]).await, claimed[1].lease, "a lease is never cut short");
    subject.elapse(LEASE * 5 + ALMOST * 2).await;
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(vec![claimed[1].job.id.clone()]));
}

pub async fn a_heartbeat_does_not_end_the_time_of_a_result_that_is_kept(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&PutOff { delay: LEASE * 5, ..put_off(&claimed, 1) }).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    let beat = scene.store.heartbeat(&acme(), job, fence).await.unwrap();
    let Heartbeat::Extended { expires_at, .. } = beat else { panic!("{beat:?}") };
    assert_eq!(expires_at.since(claimed.lease.expires_at), LEASE * 5);
    subject.elapse(LEASE * 5).await;
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(Vec::new()));
    assert_eq!(scene.take_put_off(1).await.len(), 1, "it is delivered at its time");
}

pub async fn a_result_that_was_put_off_is_not_lost_with_its_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    scene.kept(&put_off(&claimed[0], 1)).await;
    scene.kept(&PutOff { outcome: failed(), ..put_off(&claimed[1], 1) }).await;
    subject.elapse(DELAY + LEASE).await;
    let mut ended = scene.store.expire(&acme(), 10).await.unwrap();
    ended.sort();
    assert_eq!(ended, claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    let mut told = outcomes(&scene.taken(&acme(), claimed[0].job.id.run).await);
    told.sort_by_key(|(job, _)| job.attempt);
    let expected = [completed(), failed(), JobOutcome::Lost];
    assert_eq!(told.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), expected);
    assert_eq!(scene.take_put_off(10).await, []);
    let repeated = scene.store.report_and_take(&report(&claimed[0], completed())).await;
    assert_eq!(repeated, Ok(ReportTaken::AlreadyRecorded), "the worker hears that it was recorded");
}

pub async fn a_result_that_was_put_off_goes_with_its_job(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 6).await;
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let claimed = scene.working_at(1).await.remove(0);
        scene.kept(&put_off(&claimed, 1)).await;
        waiting.push(claimed);
    }
    let [reported, failed_for_good, taken, cancelled, revoked, deleted] = &waiting[..] else { panic!() };
    let (job, fence) = (&reported.job.id, reported.lease.fence);
    assert_eq!(scene.store.report(&acme(), job, fence, completed()).await, Ok(Report::Recorded));
    // Whoever gives a result up ends its job otherwise.
    let (job, fence) = (&failed_for_good.job.id, failed_for_good.lease.fence);
    assert_eq!(scene.store.report(&acme(), job, fence, failed()).await, Ok(Report::Recorded));
    scene.delivered(&report(taken, completed())).await;
    let state = scene.store.cancel_job(&acme(), &cancelled.job.id, "a test").await;
    assert_eq!(state, Ok(JobState::Cancelled));
    let held = scene.hold(&revoked.job.id).await;
    let _ = scene.commit(ending(&held, Ending::Cancelled)).await.expect("the run is ours");
    scene.store.delete_run(&acme(), deleted.job.id.run).await.expect("the run is there");
    subject.elapse(DELAY * 2).await;
    assert_eq!(scene.store.due(10).await.unwrap().put_off, []);
    assert_eq!(scene.take_put_off(10).await, []);
}

pub async fn a_result_that_was_put_off_survives_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&put_off(&claimed, 3)).await;
    drop(scene);
    subject.reopen().await;
    subject.elapse(DELAY).await;
    let store = subject.store();
    let due = store.take_put_off(&acme(), 10).await.unwrap().pop().expect("it is kept");
    assert_eq!((due.outcome, due.deliveries, due.waited), (completed(), 3, DELAY));
    let again = ReportAndTake { holder: holder(), ..report(&claimed, completed()) };
    assert!(matches!(store.report_and_take(&again).await, Ok(ReportTaken::Recorded(_))));
}
