//! Completes every run, with the least of an engine, workers and people that this needs.

use std::time::Duration;

use crate::suspects::SuspectOutcome;
use crate::verbs::{
    AcquireChildStarts, AcquireReadyRuns, AcquireSuspect, ExpireLeases, FireTimers, ListActiveRuns,
    ListApprovals, ReadLock, ReadRun, ReadUsage, ReadWorkflowVersion, RecordResult, ReleaseIdempotencyKey,
    ReleaseLock, ResolveApproval,
};
use std::collections::BTreeMap;

use interlock_model::approval::{Decision, Verdict};
use interlock_model::job::JobOutcome;
use interlock_model::run::Run;
use interlock_model::run::advance::{Advance, Effects, TurnContext, advance};
use interlock_model::workflow::Workflow;
use serde_json::json;

use super::super::lock_requests::granted;
use super::super::scene::{acme, deploy, holder, idle, name};
use super::fixture::{Fixture, LEASE, asked_by, claim_of, lock, reserving, start_child};
use super::{Plant, look};
use crate::runs::{AcquiredRun, Commit};
use crate::{PageRequest, Store};

/// Topics of the fixture.
const TOPICS: [&str; 8] = ["queued", "leased", "ended", "kept", "posted", "held", "limited", "inner"];

/// Rounds of work that are enough for every run.
const ROUNDS: usize = 20;

impl Fixture {
    /// Completes every run and checks that nothing is left behind.
    pub(super) async fn complete_all(&self, subject: &dyn Plant) {
        let store = subject.store();
        self.pass_on_the_lock(&store).await;
        let reserved = store
            .call(ReleaseIdempotencyKey {
                tenant: acme(),
                workflow: deploy(),
                key: self.reserved.clone(),
                run: reserving(),
            })
            .await;
        reserved.expect("the store is up");
        // A job that was lost is dispatched again before it is claimed again.
        for _ in 0..3 {
            round(&store).await;
        }
        let queued =
            store.call(ReadRun { tenant: acme(), run: self.queued.run }).await.expect("the store is up");
        let queued = queued.expect("the run is there");
        assert!(queued.head.status.is_final(), "a worker took its job: {queued:?}");
        subject.elapse(LEASE * 2).await;
        for _ in 0..ROUNDS {
            round(&store).await;
        }
        let usage = store.call(ReadUsage { tenant: acme() }).await.expect("the store is up");
        assert_eq!(usage.runs_active, 0, "every run has ended");
        assert_eq!(store.call(ListActiveRuns { tenant: acme(), limit: 100 }).await, Ok(Vec::new()));
        assert_eq!(look(&store, &acme()).await, []);
    }

    /// The waiter gets the lock, if its turn has not come before, and gives it back.
    async fn pass_on_the_lock(&self, store: &Store) {
        if let Some(held) = store.call(ReadLock { lock: lock() }).await.expect("the store is up") {
            let token = &held.view.holders[0].token;
            let _ = store.call(ReleaseLock { lock: lock(), token: token.clone() }).await.expect("it is held");
        }
        let bob = granted(store, &asked_by("bob")).await;
        let _ = store.call(ReleaseLock { lock: lock(), token: bob.token.clone() }).await.expect("it is held");
    }
}

/// What reconcilers, people, workers and the engine do.
async fn round(store: &Store) {
    store.call(ExpireLeases { tenant: acme(), limit: 100 }).await.expect("the store is up");
    store
        .call(FireTimers { tenant: acme(), ahead: Duration::ZERO, limit: 100 })
        .await
        .expect("the store is up");
    let wanted = AcquireChildStarts { tenant: acme(), in_progress: Duration::from_millis(1), limit: 100 };
    for child in store.call(wanted).await.expect("the store is up") {
        start_child(store, &child).await;
    }
    let page = PageRequest { limit: 100, after: None };
    for approval in
        store.call(ListApprovals { tenant: acme(), page: page.clone() }).await.expect("the store is up").items
    {
        let yes = Decision { verdict: Verdict::Approved, by: "a test".to_owned(), reason: None };
        let _ = store
            .call(ResolveApproval { tenant: acme(), job: approval.job.clone(), decision: yes })
            .await
            .expect("it is open");
    }
    for topic in TOPICS {
        for claimed in store.call(claim_of(name(topic))).await.expect("the store is up") {
            let outcome = JobOutcome::completed(json!({}));
            let (job, fence) = (&claimed.job.id, claimed.lease.fence);
            let _ = store
                .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome, edge: None })
                .await
                .expect("it was just claimed");
        }
    }
    for taken in store
        .call(AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 100 })
        .await
        .expect("the store is up")
        .runs
    {
        turn(store, taken).await;
    }
    let (lease, holder) = (LEASE, holder());
    let alone =
        AcquireSuspect { tenant: acme(), holder, lease, tries_max: u32::MAX, dead_letters_max: u32::MAX };
    while let SuspectOutcome::Acquired(suspect) = store.call(alone.clone()).await.expect("the store is up") {
        turn(store, suspect.run).await;
    }
}

/// A turn of the engine.
pub(super) async fn turn(store: &Store, taken: AcquiredRun) {
    let (id, version) = (&taken.start.workflow, taken.start.workflow_version);
    let found = store
        .call(ReadWorkflowVersion { tenant: acme(), id: id.clone(), version })
        .await
        .expect("the store is up");
    let document = found.expect("runs are pinned to a version that is there").document;
    let workflow = Workflow::compile(id.clone(), version, &document).expect("it compiled before");
    let run = store.call(ReadRun { tenant: acme(), run: taken.start.run }).await.expect("the store is up");
    let steps = run.map_or_else(BTreeMap::new, |run| run.steps);
    let mut turn = idle(&taken);
    let AcquiredRun { start, head, inbox, now, .. } = taken;
    let advanced = advance(&workflow, Run { start, head, steps }, &inbox, &TurnContext::at(now))
        .expect("the rules know the way");
    write(&mut turn, advanced);
    let _ = store.call(turn).await.expect("the turn is in time");
}

fn write(turn: &mut Commit, advanced: Advance) {
    let Advance { run, changed, effects, events, continues } = advanced;
    turn.continues = continues;
    let steps = changed.into_iter().filter_map(|key| run.steps.get(&key).cloned().map(|step| (key, step)));
    turn.steps = steps.collect();
    turn.head = run.head;
    turn.events = events;
    let Effects { dispatched, revoked, approvals_opened, approvals_withdrawn, buried, children, waits } =
        effects;
    turn.dispatched.extend(dispatched);
    turn.revoked.extend(revoked);
    turn.approvals_opened.extend(approvals_opened);
    turn.approvals_withdrawn.extend(approvals_withdrawn);
    turn.buried.extend(buried);
    turn.children = children;
    turn.waits = waits;
}
