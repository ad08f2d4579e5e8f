//! Named limits: who has their slots, who waits for them, and who goes next.

use std::sync::Arc;

use interlock_model::admission::{StartOutcome, StartPlan};
use interlock_model::limit::GroupKey;
use interlock_model::limit::Limits;
use interlock_model::limit::document::{LimitDocument, OnFull};
use interlock_model::limit::place::{QueuedRun, StartPriority};
use interlock_model::limit::rule::{LimitRule, StartFacts, claims, fair_claims};
use interlock_model::run::{Ending, InboxEvent, RunEvent};
use interlock_model::{LimitName, RunId, TenantId};
use serde_json::{Value, json};

use super::scene::{Scene, acme, ending, idle, name};
use crate::PageRequest;
use crate::limits::{GroupUsage, LimitBook, LimitChange};
use crate::runs::AcquiredRun;
use crate::tenants::LimitScope;
use crate::verbs::{Admit, ListLimits, ListQueuedRuns, ReadLimitUsage, ReadQueuedRun, SaveLimit, SetLimits};

/// A start for this repository.
pub(super) fn repo(repo: &str) -> Value {
    json!({"repo": repo})
}

pub(super) fn limit_document(document: Value) -> LimitDocument {
    serde_json::from_value(document).expect("the document is valid")
}

pub(super) fn group(text: &str) -> GroupKey {
    name(text)
}

impl Scene {
    pub(super) async fn book(&self) -> LimitBook {
        self.book_of(acme()).await
    }

    pub(super) async fn book_of(&self, tenant: TenantId) -> LimitBook {
        self.store.call(ListLimits { tenant }).await.expect("the store is up")
    }

    /// Saves a limit of acme. Returns how many runs got their slots by that.
    pub(super) async fn save_limit(&self, limit: &str, document: Value) -> u32 {
        let book = self.book().await.revision;
        let (tenant, document) = (acme(), limit_document(document));
        let save = SaveLimit { tenant, name: name(limit), document, book, replaces: None };
        match self.store.call(save).await.expect("the store is up") {
            LimitChange::Done { granted, .. } => granted,
            LimitChange::Changed { revision } => panic!("the limit has changed: {revision}"),
        }
    }

    /// What happens to starts of acme beyond its cap.
    pub(super) async fn queue_at_cap(&self, cap: u32, queued_max: u32) {
        let (runs_max, on_full) = (Some(cap), Some(OnFull::Queue));
        let limits = Limits { runs_max, on_full, queued_max: Some(queued_max), ..Limits::default() };
        let set = SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false };
        self.store.call(set).await.expect("the store is up");
    }

    /// A start of acme that counts in the limits as they are now.
    pub(super) async fn counted(&self, key: Option<&str>, input: Value) -> Admit {
        self.counted_of(&acme(), key, input).await
    }

    /// The same of another tenant.
    pub(super) async fn counted_of(&self, tenant: &TenantId, key: Option<&str>, input: Value) -> Admit {
        let book = self.book_of(tenant.clone()).await;
        let compile = |limit: &crate::limits::StoredLimit| {
            LimitRule::compile(limit.name.clone(), &limit.document).expect("the document compiles")
        };
        let rules: Vec<_> = book.limits.iter().map(compile).collect();
        let admit = self.request(tenant, key, input);
        let request = &admit.request;
        let facts =
            StartFacts { workflow: &request.workflow, input: &request.input, labels: &request.labels };
        let claims = claims(&rules, &facts).expect("the start has its groups");
        let plan = admit.plan.as_deref().expect("it has one").clone();
        let fair = fair_claims(&rules, &facts).expect("the start has its share");
        let plan = Arc::new(StartPlan { limits_revision: book.revision, claims, fair, ..plan });
        Admit { plan: Some(plan), ..admit }
    }

    /// A start of this version of the workflow.
    pub(super) async fn arrive_at(&self, workflow_version: u32, input: Value) -> StartOutcome {
        let admit = self.counted(None, input).await;
        let plan = admit.plan.as_deref().expect("it has one").clone();
        self.admit(Admit { plan: Some(Arc::new(StartPlan { workflow_version, ..plan })), ..admit }).await
    }

    pub(super) async fn arrive(&self, input: Value) -> StartOutcome {
        let admit = self.counted(None, input).await;
        self.admit(admit).await
    }

    pub(super) async fn arrive_with(&self, priority: u8, input: Value) -> StartOutcome {
        let admit = self.counted(None, input).await;
        let mut request = (*admit.request).clone();
        request.priority = StartPriority::try_from(priority).expect("it is a priority");
        self.admit(Admit { request: Arc::new(request), ..admit }).await
    }

    /// A run that has its slots.
    pub(super) async fn live(&self, input: Value) -> RunId {
        match self.arrive(input).await {
            StartOutcome::Admitted { run, .. } => run,
            other => panic!("expected an admission, got {other:?}"),
        }
    }

    /// A run that waits for its slots.
    pub(super) async fn waiting_run(&self, input: Value) -> RunId {
        queued(&self.arrive(input).await).0
    }

    pub(super) async fn place(&self, run: RunId) -> Option<QueuedRun> {
        self.store.call(ReadQueuedRun { tenant: acme(), run }).await.expect("the store is up")
    }

    /// In which limit's queue the run waits, and how many go first.
    pub(super) async fn waits(&self, run: RunId) -> Option<(LimitName, Option<u64>)> {
        self.place(run).await.map(|queued| (queued.waiting.limit, queued.position))
    }

    pub(super) async fn queue(&self, limit: &str, of: &str) -> Vec<RunId> {
        let (tenant, name, group) = (acme(), name(limit), group(of));
        let page = PageRequest { limit: 1_000, after: None };
        let list = ListQueuedRuns { tenant, name, group, page };
        let runs = self.store.call(list).await.expect("the store is up").items;
        for (expected, queued) in (1..).zip(&runs) {
            assert_eq!(queued.position, Some(expected));
        }
        runs.into_iter().map(|queued| queued.run).collect()
    }

    /// Live and waiting runs of a group.
    pub(super) async fn usage(&self, limit: &str, of: &str) -> (u32, u32) {
        let read = ReadLimitUsage { tenant: acme(), name: name(limit), group: Some(group(of)) };
        let usage = self.store.call(read).await.expect("the store is up");
        usage.groups.first().map_or((0, 0), |GroupUsage { state, .. }| (state.live, state.queued))
    }

    /// Ends a live run. Returns how many others got their slots by that.
    pub(super) async fn end_run(&self, run: RunId) -> u32 {
        let taken = self.taken(&acme(), run).await;
        self.commit(ending(&taken, Ending::Succeeded)).await.expect("the turn is in time").granted
    }

    /// Acquires a run that has got its slots and begins it. The run is ready once more.
    pub(super) async fn begin_granted(&self, run: RunId) {
        let taken = self.taken(&acme(), run).await;
        assert!(matches!(taken.inbox[..], [InboxEvent::Granted { .. }]), "{:?}", taken.inbox);
        let mut turn = idle(&taken);
        turn.head.status = turn.head.status.apply(RunEvent::Grant).expect("a queued run begins");
        turn.continues = true;
        let _ = self.commit(turn).await.expect("the turn is in time");
    }

    /// A run that has got its slots begins and ends.
    pub(super) async fn end_granted(&self, run: RunId) -> u32 {
        self.begin_granted(run).await;
        self.end_run(run).await
    }

    /// What waits in the inbox of a run.
    pub(super) async fn posted_to(&self, run: RunId) -> Vec<InboxEvent> {
        let AcquiredRun { inbox, fence, .. } = self.taken(&acme(), run).await;
        let release = crate::verbs::ReleaseRun { tenant: acme(), run, fence };
        self.store.call(release).await.expect("the lease is in force");
        inbox
    }
}

/// The run that was queued, the limit that it waits for, and its position.
pub(super) fn queued(outcome: &StartOutcome) -> (RunId, LimitName, Option<u64>) {
    match outcome {
        StartOutcome::Queued { run, position, blocked, .. } => (*run, blocked.limit.clone(), *position),
        other => panic!("expected a queued run, got {other:?}"),
    }
}
