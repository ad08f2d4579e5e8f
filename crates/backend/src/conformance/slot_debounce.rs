//! Starts that wait for newer ones: one run per workflow and group, with the input of the newest.

use std::sync::Arc;
use std::time::Duration;

use interlock_model::RunId;
use interlock_model::admission::{RunRequest, StartOutcome};
use interlock_model::limit::group::{Fullness, Quiet};
use interlock_model::limit::place::{JOINED_KEYS_MAX, StartPriority};
use interlock_model::run::Run;
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, document, name};
use super::slots::repo;
use crate::limits::GroupUsage;
use crate::verbs::{Admit, FindDue, FireTimers, ReadDebouncedRun, ReadLimitUsage, ReadRun, SaveWorkflow};

/// As the limits of these rules say.
pub(super) const QUIET: Duration = Duration::from_secs(5);
pub(super) const DELAY_MAX: Duration = Duration::from_secs(12);

pub(super) fn limit() -> Value {
    json!({"key": "input.repo", "on_full": "debounce", "quiet_sec": 5, "max_delay_sec": 12})
}

/// A start for a repository that differs from others.
pub(super) fn numbered(repo: &str, number: u32) -> Value {
    json!({"repo": repo, "number": number})
}

pub(super) fn quiet_of(outcome: &StartOutcome) -> (RunId, Quiet) {
    match outcome {
        StartOutcome::Queued { run, position: None, blocked, .. } => match blocked.fullness {
            Fullness::Quiet(quiet) => (*run, quiet),
            other => panic!("expected a run that waits for newer starts, got {other:?}"),
        },
        other => panic!("expected a run that waits, got {other:?}"),
    }
}

impl Scene {
    /// A store with a limit `calm` that debounces.
    pub(super) async fn debouncing(subject: &dyn Subject) -> Self {
        let scene = Self::with_cap(subject, 100).await;
        scene.save_limit("calm", limit()).await;
        scene
    }

    pub(super) async fn fire(&self) -> usize {
        let fire = FireTimers { tenant: acme(), ahead: Duration::ZERO, limit: 500 };
        self.store.call(fire).await.expect("the store is up")
    }

    pub(super) async fn debounced(&self, input: Value) -> (RunId, Quiet) {
        quiet_of(&self.arrive(input).await)
    }

    pub(super) async fn keyed(&self, key: &str, input: Value) -> StartOutcome {
        let admit = self.counted(Some(key), input).await;
        self.admit(admit).await
    }

    /// The same, changed.
    pub(super) async fn arrive_as(&self, input: Value, change: impl FnOnce(&mut RunRequest)) -> StartOutcome {
        let admit = self.counted(None, input).await;
        let mut request = (*admit.request).clone();
        change(&mut request);
        self.admit(Admit { request: Arc::new(request), ..admit }).await
    }

    pub(super) async fn run(&self, run: RunId) -> Run {
        let found = self.store.call(ReadRun { tenant: acme(), run }).await.expect("the store is up");
        found.expect("the run is there")
    }

    pub(super) async fn has_begun(&self, run: RunId) -> bool {
        self.place(run).await.is_none()
    }

    /// How long until a quiet period ends. Runs that wait for a slot do so for a day.
    pub(super) async fn next_in(&self) -> Option<Duration> {
        let next_in = self.store.call(FindDue { limit: 10 }).await.expect("the store is up").next_in;
        next_in.filter(|time| *time <= DELAY_MAX)
    }

    /// Runs of a group that wait for newer starts.
    pub(super) async fn waiting_for_starts(&self, limit: &str, of: &str) -> u32 {
        let read = ReadLimitUsage { tenant: acme(), name: name(limit), group: Some(name(of)) };
        let usage = self.store.call(read).await.expect("the store is up");
        usage.groups.first().map_or(0, |GroupUsage { debounced, .. }| *debounced)
    }
}

pub async fn a_start_waits_until_no_newer_one_has_come_for_a_while(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, first) = scene.debounced(numbered("api", 1)).await;
    assert_eq!((first.latest, first.starts), (first.until - QUIET + DELAY_MAX, 1));
    assert_eq!(scene.next_in().await, Some(QUIET));
    assert_eq!(scene.waiting_for_starts("calm", "api").await, 1);
    assert_eq!((scene.active(&acme()).await, scene.usage("calm", "api").await), (0, (0, 0)));
    subject.elapse(Duration::from_secs(4)).await;
    let (same, second) = scene.debounced(numbered("api", 2)).await;
    assert_eq!(
        (same, second.until, second.latest),
        (run, first.until + Duration::from_secs(4), first.latest)
    );
    assert_eq!(second.starts, 2);
    subject.elapse(Duration::from_secs(4)).await;
    assert_eq!((scene.fire().await, scene.has_begun(run).await), (0, false));
    subject.elapse(Duration::from_secs(1)).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().timers, [acme()]);
    assert!(scene.fire().await > 0);
    assert!(scene.has_begun(run).await);
    assert_eq!(
        (scene.waiting_for_starts("calm", "api").await, scene.usage("calm", "api").await),
        (0, (1, 0))
    );
    scene.end_granted(run).await;
    assert_ne!(scene.debounced(numbered("api", 3)).await.0, run, "that one has begun");
}

pub async fn a_run_is_delayed_no_longer_than_the_limit_says(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, first) = scene.debounced(numbered("api", 0)).await;
    for number in 1..=2 {
        subject.elapse(Duration::from_secs(4)).await;
        assert_eq!(scene.debounced(numbered("api", number)).await.0, run);
    }
    subject.elapse(Duration::from_secs(3)).await;
    let (same, last) = scene.debounced(numbered("api", 3)).await;
    assert_eq!((same, last.until, last.latest, last.starts), (run, first.latest, first.latest, 4));
    subject.elapse(Duration::from_secs(1)).await;
    // Its time is over, even if no timer has fired: the next start has a run of its own.
    let (next, _) = scene.debounced(numbered("api", 4)).await;
    assert_ne!(next, run);
    assert!(scene.fire().await > 0);
    assert_eq!((scene.has_begun(run).await, scene.has_begun(next).await), (true, false));
    assert_eq!(scene.run(run).await.start.input, numbered("api", 3));
}

pub async fn a_debounced_run_becomes_what_its_newest_start_asks_for(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    scene.save_limit("kind", json!({"key": "input.kind", "max_runs": 1, "on_full": "queue"})).await;
    let of_kind = |kind: &str| json!({"repo": "api", "kind": kind});
    let (run, _) = scene.debounced(of_kind("a")).await;
    let before = scene.run(run).await.start;
    let save = SaveWorkflow { tenant: acme(), id: name("deploy"), document: document() };
    let version = scene.store.call(save).await.unwrap();
    subject.elapse(Duration::from_secs(1)).await;
    let admit = scene.counted(Some("k"), of_kind("b")).await;
    let mut request = (*admit.request).clone();
    request.labels.insert("team".to_owned(), "red".to_owned());
    request.priority = StartPriority::try_from(7).unwrap();
    let mut plan = admit.plan.as_deref().expect("it has one").clone();
    plan.workflow_version = version;
    let newer = Admit { request: Arc::new(request.clone()), plan: Some(Arc::new(plan)), ..admit };
    assert_eq!(quiet_of(&scene.admit(newer).await).0, run);
    let mut expected = request.start(version, before.created_at);
    expected.run = run;
    assert_eq!(scene.run(run).await.start, expected);
    assert_eq!(scene.place(run).await.expect("it waits").waiting.place.priority, request.priority);
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert_eq!((scene.usage("kind", "a").await, scene.usage("kind", "b").await), ((0, 0), (1, 0)));
    assert_eq!(scene.run(run).await.start, expected);
}

pub async fn a_replay_of_a_debounced_start_does_not_extend_its_quiet_period(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = quiet_of(&scene.keyed("first", numbered("api", 1)).await);
    let (_, second) = quiet_of(&scene.keyed("second", numbered("api", 2)).await);
    subject.elapse(Duration::from_secs(2)).await;
    for (key, number) in [("first", 1), ("second", 2), ("first", 1)] {
        let again = scene.keyed(key, numbered("api", number)).await;
        assert!(
            matches!(again, StartOutcome::Replayed { run: replayed, .. } if replayed == run),
            "{again:?}"
        );
    }
    let other = scene.keyed("first", numbered("api", 2)).await;
    assert!(matches!(other, StartOutcome::KeyReused { run: reused, .. } if reused == run), "{other:?}");
    assert_eq!(scene.place(run).await.expect("it waits").quiet, Some(second));
    assert_eq!(scene.next_in().await, Some(Duration::from_secs(3)));
    assert_eq!(scene.run(run).await.start.input, numbered("api", 2));
    subject.elapse(QUIET).await;
    scene.fire().await;
    scene.end_granted(run).await;
    let again = scene.keyed("second", numbered("api", 2)).await;
    assert!(
        matches!(again, StartOutcome::Replayed { run: replayed, status: Some(status), .. }
            if replayed == run && status.is_final()),
        "{again:?}"
    );
}

pub async fn a_repeated_start_that_waits_for_newer_ones_is_answered_with_its_place(
    subject: &mut dyn Subject,
) {
    let scene = Scene::debouncing(subject).await;
    let admit = scene.counted(None, repo("api")).await;
    let first = scene.admit(admit.clone()).await;
    subject.elapse(Duration::from_secs(1)).await;
    let again = scene.admit(Admit { is_repeat: true, ..admit }).await;
    assert_eq!(quiet_of(&again), quiet_of(&first));
}

pub async fn a_newer_start_whose_answer_is_lost_is_taken_in_once(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    let with = |version: u32| json!({"repo": "api", "version": version});
    let second = scene.counted(None, with(2)).await;
    assert_eq!(quiet_of(&scene.admit(second.clone()).await).1.starts, 2);
    let third = scene.counted(None, with(3)).await;
    let answer = scene.admit(third.clone()).await;
    subject.elapse(Duration::from_secs(1)).await;
    for repeated in [second, third] {
        let again = scene.admit(Admit { is_repeat: true, ..repeated }).await;
        assert_eq!(
            quiet_of(&again),
            quiet_of(&answer),
            "it neither counts again nor extends the quiet period"
        );
    }
    let found = scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("it waits");
    assert_eq!(found.start.input, with(3), "the input of an older start does not come back");
}

pub async fn a_debounced_run_answers_a_bounded_number_of_keys(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    for number in 0..JOINED_KEYS_MAX {
        assert_eq!(quiet_of(&scene.keyed(&format!("k{number}"), repo("api")).await).0, run);
    }
    let before = scene.place(run).await;
    let StartOutcome::QueueFull { blocked, .. } = scene.keyed("more", repo("api")).await else {
        panic!("it answers for as many keys as it may")
    };
    assert!(matches!(blocked.fullness, Fullness::Quiet(_)), "{blocked:?}");
    assert_eq!(scene.place(run).await, before, "a rejected start changes nothing");
    assert_eq!(scene.debounced(repo("api")).await.0, run, "without a key nothing is kept");
    // The rejected start left its key free.
    subject.elapse(QUIET).await;
    assert_ne!(quiet_of(&scene.keyed("more", repo("api")).await).0, run);
}

pub async fn workflows_and_groups_wait_apart(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    assert_ne!(scene.debounced(repo("web")).await.0, run);
    let save = SaveWorkflow { tenant: acme(), id: name("other"), document: document() };
    scene.store.call(save).await.unwrap();
    let other = scene.arrive_as(repo("api"), |request| request.workflow = name("other")).await;
    let (other, _) = quiet_of(&other);
    assert_ne!(other, run);
    assert_eq!(scene.waiting_for_starts("calm", "api").await, 2);
    let read = ReadLimitUsage { tenant: acme(), name: name("calm"), group: None };
    let usage = scene.store.call(read).await.unwrap();
    let groups = usage.groups.iter().map(|usage| (usage.group.as_str(), usage.debounced));
    assert_eq!((groups.collect::<Vec<_>>(), usage.debounced), (vec![("api", 2), ("web", 1)], 3));
    for (workflow, expected) in [("deploy", Some(run)), ("other", Some(other)), ("third", None)] {
        let (name, group, workflow) = (name("calm"), name("api"), name(workflow));
        let read = ReadDebouncedRun { tenant: acme(), name, group, workflow };
        let found = scene.store.call(read).await.unwrap();
        assert_eq!(found.as_ref().map(|found| found.run), expected);
        assert!(found.is_none_or(|found| found.quiet.is_some() && found.position.is_none()));
    }
}

pub async fn a_full_limit_that_rejects_refuses_a_first_start_and_no_newer_one(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    scene.limit(&acme(), 0).await;
    let refused = scene.keyed("k", repo("web")).await;
    assert!(matches!(refused, StartOutcome::AtCapacity { .. }), "{refused:?}");
    assert_eq!(scene.debounced(numbered("api", 2)).await.0, run);
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert_eq!(scene.waits(run).await, Some((name("tenant-runs"), Some(1))));
    scene.limit(&acme(), 1).await;
    assert!(scene.has_begun(run).await);
    assert_eq!(scene.run(run).await.start.input, numbered("api", 2));
}

pub async fn a_narrower_limit_with_a_policy_of_its_own_decides_before_one_that_debounces(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 100).await;
    let calm = json!({"on_full": "debounce", "quiet_sec": 5});
    scene.save_limit("calm", calm).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "join"})).await;
    let (run, _) = scene.debounced(repo("api")).await;
    subject.elapse(QUIET).await;
    scene.fire().await;
    let joined = scene.arrive(repo("api")).await;
    assert!(matches!(joined, StartOutcome::Joined { run: joined, .. } if joined == run), "{joined:?}");
    assert_ne!(scene.debounced(repo("web")).await.0, run);
    // The other way round, the limit that joins queues.
    scene.save_limit("one", json!({"key": "input.repo", "on_full": "debounce", "quiet_sec": 5})).await;
    scene.save_limit("calm", json!({"max_runs": 1, "on_full": "join"})).await;
    let (waiting, _) = scene.debounced(repo("third")).await;
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert_eq!(scene.waits(waiting).await.map(|(limit, _)| limit), Some(name("calm")));
}
