//! Held jobs: no worker can claim one until a decision settles it, once.

use crate::verbs::{
    CancelJob, DeleteRun, FindDue, ListApprovals, ListJobs, ReadJob, ReadTimeline, ResolveApproval,
    SettleHeldJob,
};
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::approval::{Approval, ApprovalState, AskedBecause, Decision, Resolution, Verdict};
use interlock_model::dispatch_policy::{Hold, HoldReason, Throttle};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, JobOutcome, JobState};
use interlock_model::{JobId, RunId, TenantId, Timestamp};

use super::Subject;
use super::scene::{
    Scene, acme, deploy, document, globex, held_job, name, new_job, outcomes, running, topic,
};
use crate::jobs::JobView;
use crate::policy_holds::{AcquireHeldJobs, HeldDue, Settled, Settlement};
use crate::{PageRequest, StoreError};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const IN_PROGRESS: Duration = Duration::from_secs(5);

pub(super) fn release() -> Settlement {
    Settlement::Release { message: None }
}

pub(super) fn deny() -> Settlement {
    Settlement::Deny { reason: "rule prod says deny".to_owned() }
}

pub(super) fn wait(reason: HoldReason, detail: &str) -> Settlement {
    Settlement::Wait { reason, detail: detail.to_owned(), wait: SECOND, acquired_until: None }
}

pub(super) fn ask(due: &HeldDue) -> Settlement {
    let approval = Approval {
        job: due.job.id.clone(),
        workflow: deploy(),
        requested_at: due.now,
        input: due.job.input.clone(),
        state: ApprovalState::Open,
        because: Some(AskedBecause { detail: "rule prod asks".to_owned(), budget: None }),
    };
    Settlement::Ask { approval, detail: "rule prod asks".to_owned() }
}

pub(super) fn within(rule: &str, dispatches: u32) -> Settlement {
    let dispatches = NonZeroU32::new(dispatches).expect("a throttle lets something go");
    Settlement::ReleaseWithin {
        rule: name(rule),
        throttle: Throttle { dispatches, period: SECOND },
        detail: "enough for now".to_owned(),
        message: None,
    }
}

pub(super) fn verdict(verdict: Verdict) -> Decision {
    Decision { verdict, by: "someone".to_owned(), reason: None }
}

impl Scene {
    /// A run with this many held jobs.
    async fn holding(&self, tenant: &TenantId, jobs: u32) -> (RunId, Vec<JobId>) {
        let run = self.started(tenant).await;
        let mut turn = running(&self.taken(tenant, run).await);
        turn.dispatched.clear();
        turn.held = (1..=jobs).map(|attempt| held_job(new_job(run, attempt))).collect();
        let held = turn.held.iter().map(|held| held.job.id.clone()).collect();
        let _ = self.commit(turn).await.expect("the turn is in time");
        (run, held)
    }

    pub(super) async fn held_one(&self) -> (RunId, JobId) {
        let (run, mut jobs) = self.holding(&acme(), 1).await;
        (run, jobs.remove(0))
    }

    pub(super) async fn take_held(&self, tenant: &TenantId, ahead: Duration, limit: usize) -> Vec<HeldDue> {
        let take = AcquireHeldJobs { tenant: tenant.clone(), ahead, in_progress: IN_PROGRESS, limit };
        self.store.call(take.clone()).await.expect("the store is up")
    }

    pub(super) async fn settle(&self, job: &JobId, settlement: &Settlement) -> Settled {
        self.store
            .call(SettleHeldJob { tenant: acme(), job: job.clone(), settlement: settlement.clone() })
            .await
            .expect("the store is up")
    }

    pub(super) async fn job(&self, job: &JobId) -> JobView {
        self.store
            .call(ReadJob { tenant: acme(), job: job.clone() })
            .await
            .expect("the store is up")
            .expect("the job is there")
    }

    /// A held job about which a person is asked.
    pub(super) async fn asked(&self) -> (RunId, JobId) {
        let (run, job) = self.held_one().await;
        let due = self.take_held(&acme(), Duration::ZERO, 1).await.remove(0);
        assert_eq!(self.settle(&job, &ask(&due)).await, Settled::Asked);
        (run, job)
    }

    pub(super) async fn open_approvals(&self) -> Vec<JobId> {
        let page = PageRequest { limit: 10, after: None };
        let open = self
            .store
            .call(ListApprovals { tenant: acme(), page: page.clone() })
            .await
            .expect("the store is up");
        open.items.into_iter().map(|approval| approval.job).collect()
    }

    async fn policy_events(&self, run: RunId) -> Vec<Event> {
        let timeline = self
            .store
            .call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 })
            .await
            .expect("the store is up");
        let is_ours = |event: &Event| matches!(event.kind, EventKind::StepHeld | EventKind::StepReleased);
        timeline.into_iter().map(|recorded| recorded.event).filter(is_ours).collect()
    }
}

pub async fn a_held_job_is_open_in_no_queue_and_shown_with_its_reason(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, job) = scene.held_one().await;
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let view = scene.job(&job).await;
    assert_eq!((view.state, &view.job.end), (JobState::Held, &None));
    let hold = view.hold.clone().expect("it is held");
    let now = view.job.created_at;
    assert_eq!(hold, Hold::new(HoldReason::PolicyPending, now, "to be asked".to_owned()));
    let listed = async |state| {
        let page = PageRequest { limit: 10, after: None };
        scene
            .store
            .call(ListJobs { tenant: acme(), state: Some(state), page: page.clone() })
            .await
            .expect("the store is up")
            .items
    };
    assert_eq!(listed(JobState::Held).await, [view]);
    assert_eq!(listed(JobState::Queued).await, []);
}

pub async fn a_held_job_of_a_first_turn_is_one_write_with_the_start(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let mut start = scene.begun(&document(), serde_json::json!({})).await;
    let plan = std::sync::Arc::make_mut(start.plan.as_mut().expect("it can begin"));
    let turn = plan.first_turn.as_mut().expect("it is small");
    let job = turn.dispatched.remove(0);
    turn.held = vec![held_job(job.clone())];
    let _ = scene.admit(start).await;
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let due = scene.take_held(&acme(), Duration::ZERO, 10).await;
    assert_eq!(due.iter().map(|due| &due.job).collect::<Vec<_>>(), [&job]);
}

pub async fn held_jobs_are_acquired_when_due_by_one_instance(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, jobs) = scene.holding(&acme(), 3).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held, [acme()]);
    let taken = scene.take_held(&acme(), Duration::ZERO, 2).await;
    let ids = |taken: &[HeldDue]| taken.iter().map(|due| due.job.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&taken), jobs[..2]);
    assert!(taken.iter().all(|due| due.hold.look_at == Some(due.now + IN_PROGRESS)));
    assert_eq!(scene.job(&jobs[0]).await.hold.as_ref(), Some(&taken[0].hold));
    assert_eq!(ids(&scene.take_held(&acme(), Duration::ZERO, 10).await), jobs[2..]);
    assert_eq!(scene.take_held(&acme(), Duration::ZERO, 10).await, []);
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!((due.held, due.next_in), (vec![], Some(IN_PROGRESS)));

    // The instance that acquired them has died.
    subject.elapse(IN_PROGRESS).await;
    assert_eq!(ids(&scene.take_held(&acme(), Duration::ZERO, 10).await), jobs);
}

pub async fn jobs_that_are_due_soon_are_acquired_by_looking_ahead(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, job) = scene.held_one().await;
    let waits = scene.settle(&job, &wait(HoldReason::PolicyUnavailable, "unreachable")).await;
    assert!(matches!(waits, Settled::Waiting(_)));
    assert_eq!(scene.take_held(&acme(), SECOND / 2, 10).await, []);
    assert_eq!(scene.take_held(&acme(), SECOND, 10).await.len(), 1);
}

pub async fn a_released_job_is_claimed_once_in_the_place_of_its_age(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (run, job) = scene.held_one().await;
    subject.elapse(Duration::from_millis(5)).await;
    let younger = scene.started(&acme()).await;
    let younger = scene.begin(&acme(), younger).await;
    let released = Settlement::Release { message: Some("no service answered".to_owned()) };
    assert_eq!(scene.settle(&job, &released).await, Settled::Released);
    let view = scene.job(&job).await;
    assert_eq!((view.state, view.hold), (JobState::Queued, None));
    let claimed = scene.claim(&acme(), 10).await;
    assert_eq!(claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>(), [job.clone(), younger]);
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let events = scene.policy_events(run).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].kind, events[0].message.as_deref()),
        (EventKind::StepReleased, Some("no service answered"))
    );
    assert_eq!((events[0].job.as_ref(), events[0].at > Timestamp::ZERO), (Some(&job), true));
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!(due.held, []);
}

pub async fn only_the_first_settlement_counts(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.held_one().await;
    let due = scene.take_held(&acme(), Duration::ZERO, 1).await.remove(0);
    assert_eq!(scene.settle(&job, &release()).await, Settled::Released);
    let later =
        [release(), deny(), wait(HoldReason::PolicyUnavailable, "unreachable"), within("r", 1), ask(&due)];
    for settlement in &later {
        assert_eq!(scene.settle(&job, settlement).await, Settled::NotHeld, "{settlement:?}");
    }
    assert!(scene.take(&acme(), run).await.is_none(), "nothing is posted to its run");
    assert_eq!(scene.open_approvals().await, []);
    assert_eq!(scene.claim(&acme(), 10).await.len(), 1);
    for settlement in &later {
        assert_eq!(scene.settle(&job, settlement).await, Settled::NotHeld, "{settlement:?}");
    }
}

pub async fn settlements_at_once_are_decided_for_one_of_them(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.held_one().await;
    let settlements: Vec<_> = (0..10).map(|at| if at % 2 == 0 { release() } else { deny() }).collect();
    let answers = join_all(settlements.iter().map(|settlement| scene.settle(&job, settlement))).await;
    let counted: Vec<_> = answers.into_iter().filter(|answer| *answer != Settled::NotHeld).collect();
    assert_eq!(counted.len(), 1);
    let is_denied = counted[0] == Settled::Denied;
    assert_eq!(scene.claim(&acme(), 10).await.is_empty(), is_denied);
    assert_eq!(scene.take(&acme(), run).await.is_some(), is_denied);
}

pub async fn a_denied_job_ends_and_posts_to_its_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.held_one().await;
    assert_eq!(scene.settle(&job, &deny()).await, Settled::Denied);
    let view = scene.job(&job).await;
    assert_eq!((view.state, view.hold), (JobState::Denied, None));
    assert_eq!(view.job.end.expect("it has ended").cause, EndCause::Denied);
    assert_eq!(scene.claim(&acme(), 10).await, []);
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held, []);
    let denied = JobOutcome::Denied { reason: "rule prod says deny".to_owned() };
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.clone(), denied)]);
    let page = PageRequest { limit: 10, after: None };
    let listed = scene
        .store
        .call(ListJobs { tenant: acme(), state: Some(JobState::Denied), page: page.clone() })
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1);
}

pub async fn a_waiting_job_is_in_the_timeline_once_per_reason_and_due_again(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.held_one().await;
    let unavailable = async |detail| {
        let answer = scene.settle(&job, &wait(HoldReason::PolicyUnavailable, detail)).await;
        let Settled::Waiting(look_at) = answer else { panic!("expected to wait, got {answer:?}") };
        let hold = scene.job(&job).await.hold.expect("it is held");
        assert_eq!((hold.reason, hold.detail.as_str()), (HoldReason::PolicyUnavailable, detail));
        assert_eq!(hold.look_at, Some(look_at));
        hold
    };
    let first = unavailable("unreachable").await;
    assert_eq!((first.looks, first.look_at), (1, Some(first.since + SECOND)));
    subject.elapse(SECOND / 2).await;
    let second = unavailable("still unreachable").await;
    assert_eq!((second.looks, second.since), (2, first.since));
    assert_eq!(second.look_at, Some(first.since + SECOND + SECOND / 2));
    assert_eq!(scene.take_held(&acme(), Duration::ZERO, 1).await, []);
    subject.elapse(SECOND).await;
    assert_eq!(scene.take_held(&acme(), Duration::ZERO, 1).await.len(), 1);
    let other = scene.settle(&job, &wait(HoldReason::PolicyThrottled, "enough")).await;
    assert!(matches!(other, Settled::Waiting(_)));
    let hold = scene.job(&job).await.hold.expect("it is held");
    assert_eq!((hold.reason, hold.looks, hold.since > first.since), (HoldReason::PolicyThrottled, 1, true));
    let events = scene.policy_events(run).await;
    let words: Vec<_> = events.iter().map(|event| (event.kind, event.message.as_deref())).collect();
    assert_eq!(words, [(EventKind::StepHeld, Some("unreachable")), (EventKind::StepHeld, Some("enough"))]);
    assert_eq!(events[0], Hold::event(events[0].at, &job, HoldReason::PolicyUnavailable, "unreachable"));
}

pub async fn a_throttled_rule_releases_at_most_its_dispatches_per_period(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, jobs) = scene.holding(&acme(), 4).await;
    assert_eq!(scene.settle(&jobs[0], &within("r", 2)).await, Settled::Released);
    let began = scene.job(&jobs[0]).await.job.created_at;
    subject.elapse(SECOND / 4).await;
    assert_eq!(scene.settle(&jobs[1], &within("r", 2)).await, Settled::Released);
    for _ in 0..2 {
        let answer = scene.settle(&jobs[2], &within("r", 2)).await;
        assert_eq!(answer, Settled::Waiting(began + SECOND), "until the next period");
    }
    let hold = scene.job(&jobs[2]).await.hold.expect("it is held");
    assert_eq!((hold.reason, hold.looks), (HoldReason::PolicyThrottled, 2));
    assert_eq!(scene.policy_events(run).await.len(), 1);
    subject.elapse(SECOND / 2 + SECOND / 4).await;
    assert_eq!(scene.settle(&jobs[2], &within("r", 2)).await, Settled::Released);
    assert_eq!(scene.settle(&jobs[2], &within("r", 2)).await, Settled::NotHeld, "it is counted once");
    assert_eq!(scene.settle(&jobs[3], &within("r", 2)).await, Settled::Released);
}

pub async fn a_throttle_counts_for_each_tenant_and_rule(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, jobs) = scene.holding(&acme(), 3).await;
    let (_, others) = scene.holding(&globex(), 1).await;
    assert_eq!(scene.settle(&jobs[0], &within("r", 1)).await, Settled::Released);
    assert!(matches!(scene.settle(&jobs[1], &within("r", 1)).await, Settled::Waiting(_)));
    assert_eq!(scene.settle(&jobs[2], &within("s", 1)).await, Settled::Released);
    let other = scene
        .store
        .call(SettleHeldJob { tenant: globex(), job: others[0].clone(), settlement: within("r", 1) })
        .await;
    assert_eq!(other, Ok(Settled::Released));
}

pub async fn a_held_job_that_is_cancelled_is_not_held_any_more(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.held_one().await;
    assert_eq!(
        scene.store.call(CancelJob { tenant: acme(), job: job.clone(), by: "a test".to_owned() }).await,
        Ok(JobState::Cancelled)
    );
    assert_eq!(scene.settle(&job, &release()).await, Settled::NotHeld);
    assert_eq!(scene.claim(&acme(), 10).await, []);
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held, []);
    let cancelled = JobOutcome::Cancelled { by: "a test".to_owned() };
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job, cancelled)]);
}

pub async fn deleting_a_run_deletes_its_held_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (run, jobs) = scene.holding(&acme(), 2).await;
    assert_eq!(scene.store.call(DeleteRun { tenant: acme(), run }).await, Ok(jobs.clone()));
    let (run, job) = scene.asked().await;
    assert_eq!(scene.store.call(DeleteRun { tenant: acme(), run }).await, Ok(vec![job.clone()]));
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held, []);
    assert_eq!(scene.take_held(&acme(), SECOND, 10).await, []);
    assert_eq!(scene.open_approvals().await, []);
    for job in jobs.iter().chain([&job]) {
        assert_eq!(scene.settle(job, &release()).await, Settled::NotHeld);
        assert_eq!(scene.store.call(ReadJob { tenant: acme(), job: job.clone() }).await, Ok(None));
    }
    assert_eq!(scene.claim(&acme(), 10).await, []);
}

pub async fn another_tenants_held_job_is_not_there(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, job) = scene.held_one().await;
    assert_eq!(scene.take_held(&globex(), SECOND, 10).await, []);
    assert_eq!(
        scene.store.call(SettleHeldJob { tenant: globex(), job: job.clone(), settlement: release() }).await,
        Ok(Settled::NotHeld)
    );
    let foreign = scene
        .store
        .call(ResolveApproval { tenant: globex(), job: job.clone(), decision: verdict(Verdict::Approved) })
        .await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    assert_eq!(scene.job(&job).await.state, JobState::Held);
}

pub async fn held_jobs_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (_, asked) = scene.asked().await;
    let (_, job) = scene.held_one().await;
    let before = (scene.job(&asked).await, scene.job(&job).await);
    drop(scene);
    subject.reopen().await;
    let scene = Scene::with_cap(subject, 2).await;
    assert_eq!((scene.job(&asked).await, scene.job(&job).await), before);
    assert_eq!(scene.claim(&acme(), 10).await, []);
    assert_eq!(scene.settle(&job, &release()).await, Settled::Released);
    let approved = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: asked.clone(), decision: verdict(Verdict::Approved) })
        .await;
    assert_eq!(approved, Ok(Resolution::Recorded));
    let topics: Vec<_> = scene.claim(&acme(), 10).await.into_iter().map(|it| it.job.topic).collect();
    assert_eq!(topics, [topic(), topic()]);
}
