//! Children: started once in the slot of their root, reported to the step that waits for them, given up with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_model::admission::{StartOutcome, StartPlan};
use interlock_model::child::{ChildOutcome, ChildReport, NewChild, ParentLink};
use interlock_model::doctor::Invariant;
use interlock_model::limit::document::Labels;
use interlock_model::limit::place::StartPriority;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Ending, InboxEvent, Run, RunEvent, RunStatus};
use interlock_model::step::ErrorCode;
use interlock_model::{RunId, StepKey};
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, deploy, ending, idle, name};
use super::slots::group;
use crate::PageRequest;
use crate::children::{ChildSettled, ChildSettlement};
use crate::inspection::Inspect;
use crate::runs::{AcquiredRun, Commit, RunFilter};
use crate::verbs::{
    AcquireChildStarts, Admit, DeleteRun, FindDue, ListRuns, ReadRun, RepairSlots, RequestCancel,
    SaveWorkflow, SettleChildStart,
};

const IN_PROGRESS: Duration = Duration::from_millis(400);

impl Scene {
    /// A child of the step `sub` of a run.
    pub(super) fn child_of(&self, taken: &AcquiredRun) -> NewChild {
        let start = &taken.start;
        let step = StepKey::whole(&name("sub"));
        NewChild {
            run: self.fresh_run(),
            workflow: deploy(),
            input: json!({"n": 1.50}),
            parent: ParentLink { run: start.run, step, root: start.root(), depth: start.depth() + 1 },
            labels: Labels::default(),
            priority: StartPriority::default(),
            trace: None,
        }
    }

    /// Commits a turn of the run that asks for a child.
    pub(super) async fn ask_for_child(&self, run: RunId) -> NewChild {
        let taken = self.taken(&acme(), run).await;
        let child = self.child_of(&taken);
        let mut turn = idle(&taken);
        if turn.head.status == RunStatus::Pending {
            turn.head.status = turn.head.status.apply(RunEvent::Start).expect("a pending run starts");
        }
        turn.children.started = vec![child.clone()];
        // It is ready again, so that rules can go on with it.
        turn.continues = true;
        let _ = self.commit(turn).await.expect("the turn is in time");
        child
    }

    /// A run that counts in no named limit.
    async fn started_unlimited(&self) -> RunId {
        let admit = self.request(&acme(), None, json!({}));
        let plan = StartPlan { limits_revision: self.book().await.revision, ..StartPlan::unlimited(1) };
        match self.admit(Admit { plan: Some(Arc::new(plan)), ..admit }).await {
            StartOutcome::Admitted { run, .. } => run,
            other => panic!("expected an admission, got {other:?}"),
        }
    }

    async fn wanted(&self) -> Vec<NewChild> {
        let acquire = AcquireChildStarts { tenant: acme(), in_progress: IN_PROGRESS, limit: 10 };
        self.store.call(acquire).await.expect("the store is up")
    }

    async fn settle_child(&self, child: &NewChild, settlement: ChildSettlement) -> ChildSettled {
        let settle = SettleChildStart { tenant: acme(), child: child.clone(), settlement };
        self.store.call(settle).await.expect("the store is up")
    }

    /// Starts a child that counts in these limits, as they are now.
    pub(super) async fn start_child(&self, child: &NewChild, limits: &[&str]) -> ChildSettled {
        let claims = limits.iter().map(|limit| SlotClaim { limit: name(limit), group: group("") });
        let (limits_revision, claims) = (self.book().await.revision, claims.collect());
        self.settle_child(child, ChildSettlement::Start { workflow_version: 1, limits_revision, claims })
            .await
    }

    /// A child that a run has asked for and that has started.
    pub(super) async fn live_child(&self, parent: RunId, limits: &[&str]) -> NewChild {
        let child = self.ask_for_child(parent).await;
        assert_eq!(self.start_child(&child, limits).await, ChildSettled::Started);
        child
    }

    async fn give_up(&self, parent: RunId, child: &NewChild) {
        let mut turn = idle(&self.taken(&acme(), parent).await);
        turn.children.cancelled = vec![child.run];
        turn.continues = true;
        let _ = self.commit(turn).await.expect("the turn is in time");
    }

    async fn inbox(&self, run: RunId) -> Vec<InboxEvent> {
        let taken = self.taken(&acme(), run).await;
        let inbox = taken.inbox.clone();
        let mut turn = idle(&taken);
        turn.continues = true;
        let _ = self.commit(turn).await.expect("the turn is in time");
        inbox
    }

    /// Ends a child, as the engine does. Returns the turn.
    async fn end_child(&self, child: &NewChild, how: Ending) -> Commit {
        let taken = self.taken(&acme(), child.run).await;
        let mut turn = ending(&taken, how);
        turn.head.output = Some(json!({"a": 1}));
        let run = Run { start: taken.start.clone(), head: turn.head.clone(), steps: BTreeMap::new() };
        turn.children.report = ChildReport::of(&run);
        let _ = self.commit(turn.clone()).await.expect("the turn is in time");
        turn
    }

    async fn status_of(&self, run: RunId) -> Option<RunStatus> {
        let found = self.store.call(ReadRun { tenant: acme(), run }).await.expect("the store is up");
        found.map(|run| run.head.status)
    }
}

fn counting_all(more: &Value) -> Value {
    let mut document =
        json!({"max_runs": 1, "on_full": "queue", "count": "all", "queue": {"max_wait_sec": 60}});
    document.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
    document
}

fn reports(events: &[InboxEvent]) -> Vec<(RunId, ChildOutcome)> {
    let report = |event: &InboxEvent| {
        let InboxEvent::Child { step, child, outcome } = event else { return None };
        assert_eq!(step.to_string(), "sub");
        Some((*child, outcome.clone()))
    };
    events.iter().filter_map(report).collect()
}

fn is_cancel(events: &[InboxEvent]) -> bool {
    matches!(events, [InboxEvent::Cancel { by }] if by.contains("parent run"))
}

pub async fn a_child_is_started_once_in_the_slot_of_its_root(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.ask_for_child(parent).await;
    assert_eq!(scene.wanted().await, std::slice::from_ref(&child));
    assert_eq!(scene.status_of(child.run).await, None);
    assert_eq!(scene.start_child(&child, &[]).await, ChildSettled::Started);
    assert_eq!(scene.start_child(&child, &[]).await, ChildSettled::NotWanted);
    assert_eq!((scene.wanted().await, scene.active(&acme()).await), (Vec::new(), 1));
    let taken = scene.taken(&acme(), child.run).await;
    assert_eq!(taken.start, child.start(&acme(), 1, taken.start.created_at));
    assert_eq!(taken.head.status, RunStatus::Pending);
    let filter = RunFilter { parent: Some(parent), ..RunFilter::default() };
    let list = ListRuns { tenant: acme(), filter, page: PageRequest { limit: 10, after: None } };
    let listed = scene.store.call(list).await.expect("the store is up").items;
    assert_eq!(listed.iter().map(|run| run.start.run).collect::<Vec<_>>(), [child.run]);
    let grandchild = scene.child_of(&taken);
    assert_eq!((grandchild.parent.root, grandchild.parent.depth), (parent, 2));
}

pub async fn a_child_is_not_started_by_an_old_definition_or_old_limits(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.ask_for_child(parent).await;
    let start = |workflow_version, limits_revision| ChildSettlement::Start {
        workflow_version,
        limits_revision,
        claims: Vec::new(),
    };
    assert_eq!(scene.settle_child(&child, start(2, 0)).await, ChildSettled::Outdated);
    scene.save_limit("one", counting_all(&json!({}))).await;
    assert_eq!(scene.settle_child(&child, start(1, 0)).await, ChildSettled::Outdated);
    let save = SaveWorkflow { tenant: acme(), id: deploy(), document: super::scene::document() };
    let version = scene.store.call(save).await.expect("the store is up");
    let revision = scene.book().await.revision;
    assert_eq!(scene.settle_child(&child, start(1, revision)).await, ChildSettled::Outdated);
    assert_eq!(scene.settle_child(&child, start(version, revision)).await, ChildSettled::Started);
}

pub async fn a_child_that_is_not_settled_is_due_again(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.ask_for_child(parent).await;
    let due = || async { scene.store.call(FindDue { limit: 10 }).await.expect("the store is up") };
    assert_eq!(due().await.children, [acme()]);
    assert_eq!(scene.wanted().await, std::slice::from_ref(&child));
    assert_eq!((due().await.children, scene.wanted().await), (Vec::new(), Vec::new()));
    assert!(due().await.next_in.is_some_and(|next| next <= IN_PROGRESS));
    subject.elapse(IN_PROGRESS).await;
    assert_eq!((due().await.children, scene.wanted().await), (vec![acme()], vec![child]));
}

pub async fn the_commit_that_ends_a_child_posts_its_end_to_its_parent(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.live_child(parent, &[]).await;
    assert_eq!(scene.inbox(parent).await, []);
    let turn = scene.end_child(&child, Ending::Succeeded).await;
    assert!(scene.commit(turn).await.is_err(), "a turn is committed once");
    let succeeded = ChildOutcome::Succeeded { output: json!({"a": 1}) };
    assert_eq!(reports(&scene.inbox(parent).await), [(child.run, succeeded)]);
    assert_eq!(scene.active(&acme()).await, 1, "the slot is the root's");
}

pub async fn a_child_that_is_given_up_is_not_started_or_cancelled_in_each_state(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.save_limit("one", counting_all(&json!({}))).await;
    let parent = scene.started_unlimited().await;
    let not_started = scene.ask_for_child(parent).await;
    scene.give_up(parent, &not_started).await;
    assert_eq!(scene.wanted().await, []);
    assert_eq!(scene.start_child(&not_started, &[]).await, ChildSettled::NotWanted);
    let live = scene.live_child(parent, &["one"]).await;
    let queued = scene.ask_for_child(parent).await;
    assert!(matches!(scene.start_child(&queued, &["one"]).await, ChildSettled::Queued(_)));
    let ended = scene.live_child(parent, &[]).await;
    scene.end_child(&ended, Ending::Failed).await;
    for child in [&live, &queued, &ended] {
        scene.give_up(parent, child).await;
    }
    assert!(is_cancel(&scene.inbox(queued.run).await));
    assert!(is_cancel(&scene.inbox(live.run).await));
    assert_eq!(scene.take(&acme(), ended.run).await.map(|taken| taken.inbox), None);
    // No step waits for what they report now.
    scene.end_child(&live, Ending::Cancelled).await;
    assert_eq!(reports(&scene.inbox(parent).await), []);
}

pub async fn the_run_that_ends_gives_up_its_children(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let (not_started, live) = (scene.ask_for_child(parent).await, scene.live_child(parent, &[]).await);
    let mut turn = ending(&scene.taken(&acme(), parent).await, Ending::Cancelled);
    turn.children.cancelled = vec![not_started.run, live.run];
    let _ = scene.commit(turn).await.expect("the turn is in time");
    assert_eq!(scene.start_child(&not_started, &[]).await, ChildSettled::NotWanted);
    assert!(is_cancel(&scene.inbox(live.run).await));
    scene.end_child(&live, Ending::Cancelled).await;
    assert_eq!(
        scene.take(&acme(), parent).await.map(|taken| taken.inbox),
        None,
        "nothing comes for it any more"
    );
    assert_eq!(scene.active(&acme()).await, 0);
}

pub async fn a_refused_child_is_reported_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.ask_for_child(parent).await;
    let (code, message) = (ErrorCode::WorkflowNotFound, "there is \"none\"".to_owned());
    let refuse = ChildSettlement::Refuse { code, message: message.clone(), retryable: false };
    assert_eq!(scene.settle_child(&child, refuse.clone()).await, ChildSettled::Refused);
    assert_eq!(scene.settle_child(&child, refuse).await, ChildSettled::NotWanted);
    let refused = ChildOutcome::Refused { code, message, retryable: false };
    assert_eq!(reports(&scene.inbox(parent).await), [(child.run, refused)]);
    assert_eq!(scene.status_of(child.run).await, None);
}

pub async fn a_limit_that_counts_all_runs_counts_children(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.save_limit("one", counting_all(&json!({}))).await;
    let parent = scene.started_unlimited().await;
    let first = scene.live_child(parent, &["one"]).await;
    let second = scene.ask_for_child(parent).await;
    let ChildSettled::Queued(blocked) = scene.start_child(&second, &["one"]).await else {
        panic!("it did not wait")
    };
    assert_eq!((blocked.limit, blocked.live), (name("one"), 1));
    assert_eq!(scene.waits(second.run).await, Some((name("one"), Some(1))));
    assert_eq!(scene.usage("one", "").await, (1, 1));
    let waiting = scene.store.call(ReadRun { tenant: acme(), run: second.run }).await.unwrap().unwrap();
    let until = waiting.start.created_at + Duration::from_mins(1);
    assert_eq!((waiting.head.status, waiting.head.queued_until), (RunStatus::Queued, Some(until)));
    // The tenant is at its cap, and the child starts nevertheless.
    scene.end_child(&first, Ending::Succeeded).await;
    scene.begin_granted(second.run).await;
    assert_eq!((scene.usage("one", "").await, scene.active(&acme()).await), ((1, 0), 1));
    scene.end_child(&second, Ending::Succeeded).await;
    assert_eq!(scene.usage("one", "").await, (0, 0));
}

pub async fn a_group_in_which_a_run_above_counts_is_ignored(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    scene.save_limit("one", counting_all(&json!({}))).await;
    scene.save_limit("other", counting_all(&json!({}))).await;
    let parent = scene.live(json!({})).await;
    assert_eq!(scene.usage("one", "").await, (1, 0));
    let child = scene.live_child(parent, &["one", "other"]).await;
    let grandchild = scene.live_child(child.run, &["one", "other"]).await;
    assert_eq!((scene.usage("one", "").await, scene.usage("other", "").await), ((1, 0), (1, 0)));
    scene.end_child(&grandchild, Ending::Succeeded).await;
    scene.end_child(&child, Ending::Succeeded).await;
    assert_eq!(
        (scene.usage("one", "").await, scene.usage("other", "").await),
        ((1, 0), (1, 0)),
        "the root's"
    );
    assert_eq!(scene.end_run(parent).await, 0);
    assert_eq!((scene.usage("one", "").await, scene.usage("other", "").await), ((0, 0), (0, 0)));
}

pub async fn a_full_limit_that_rejects_leaves_a_child_as_it_is(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.save_limit("one", counting_all(&json!({"on_full": "reject"}))).await;
    scene.save_limit("few", counting_all(&json!({"queue": {"max": 1, "max_wait_sec": 60}}))).await;
    let parent = scene.started_unlimited().await;
    scene.live_child(parent, &["one", "few"]).await;
    let child = scene.ask_for_child(parent).await;
    let refused = scene.start_child(&child, &["one", "few"]).await;
    assert!(
        matches!(&refused, ChildSettled::LimitReached(blocked) if blocked.limit == name("one")),
        "{refused:?}"
    );
    let second = scene.ask_for_child(parent).await;
    assert!(matches!(scene.start_child(&second, &["few"]).await, ChildSettled::Queued(_)));
    let refused = scene.start_child(&child, &["few"]).await;
    assert!(
        matches!(&refused, ChildSettled::QueueFull(blocked) if blocked.limit == name("few")),
        "{refused:?}"
    );
    assert_eq!(scene.start_child(&child, &[]).await, ChildSettled::Started, "it was still wanted");
}

pub async fn a_child_waits_where_other_starts_would_join_or_replace(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.save_limit("join", counting_all(&json!({"on_full": "join"}))).await;
    scene.save_limit("newest", counting_all(&json!({"on_full": "replace_running"}))).await;
    let parent = scene.started_unlimited().await;
    let first = scene.live_child(parent, &["join", "newest"]).await;
    for limit in ["join", "newest"] {
        let child = scene.ask_for_child(parent).await;
        assert!(matches!(scene.start_child(&child, &[limit]).await, ChildSettled::Queued(_)), "{limit}");
        assert_eq!(scene.waits(child.run).await, Some((name(limit), Some(1))));
    }
    assert_eq!(scene.inbox(first.run).await, [], "it is not replaced");
}

pub async fn a_deleted_child_is_reported_and_the_children_of_a_deleted_run_are_given_up(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let deleted = scene.live_child(parent, &[]).await;
    let delete = |run| scene.store.call(DeleteRun { tenant: acme(), run });
    delete(deleted.run).await.expect("the store is up");
    assert_eq!(reports(&scene.inbox(parent).await), [(deleted.run, ChildOutcome::deleted())]);
    let (live, not_started) = (scene.live_child(parent, &[]).await, scene.ask_for_child(parent).await);
    delete(parent).await.expect("the store is up");
    assert!(is_cancel(&scene.inbox(live.run).await));
    assert_eq!(scene.start_child(&not_started, &[]).await, ChildSettled::NotWanted);
    scene.end_child(&live, Ending::Cancelled).await;
    assert_eq!(scene.active(&acme()).await, 0);
}

pub async fn a_child_without_a_slot_is_no_drift(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = scene.started(&acme()).await;
    let child = scene.live_child(parent, &[]).await;
    let repair = RepairSlots { tenant: acme(), after: None, limit: 100 };
    let drift = scene.store.call(repair).await.expect("the store is up");
    assert_eq!((drift.found, scene.active(&acme()).await), (0, 1));
    for invariant in [Invariant::RunWithoutSlot, Invariant::SlotCountDrift, Invariant::RunWithoutLimitSlot] {
        let page = PageRequest { limit: 100, after: None };
        let inspect = Inspect { tenant: acme(), invariant, grace: Duration::ZERO, page };
        assert_eq!(scene.store.call(inspect).await.expect("the store is up").items, []);
    }
    let cancel = RequestCancel { tenant: acme(), run: child.run, by: "ann".to_owned() };
    let _ = scene.store.call(cancel).await.expect("the store is up");
    scene.end_child(&child, Ending::Cancelled).await;
    let reported = reports(&scene.inbox(parent).await);
    assert!(matches!(&reported[..], [(_, ChildOutcome::Ended { status: RunStatus::Cancelled, .. })]));
}

pub async fn children_survive_a_reopening(subject: &mut dyn Subject) {
    let (parent, live, not_started) = {
        let scene = Scene::with_cap(subject, 1).await;
        let parent = scene.started(&acme()).await;
        (parent, scene.live_child(parent, &[]).await, scene.ask_for_child(parent).await)
    };
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.wanted().await, std::slice::from_ref(&not_started));
    assert_eq!(scene.start_child(&not_started, &[]).await, ChildSettled::Started);
    scene.end_child(&live, Ending::Succeeded).await;
    assert_eq!(reports(&scene.inbox(parent).await).len(), 1);
}
