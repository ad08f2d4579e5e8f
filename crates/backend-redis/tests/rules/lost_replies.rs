//! A verb whose reply was lost is asked again, and has happened once.

use interlock_backend::verbs::{
    AbandonWorker, AcquireRun, Admit, CancelJob, CreateApiKey, DeleteRun, DeleteWorkflow, ListActiveRuns,
    ListApiKeys, ReadDocument, ReadJob, ReadLimits, ReadRun, ReadTimeline, ReadUsage, RecordProgress,
    RecordResult, ReleaseRun, SaveDocument, SaveWorkflow, SetLimits,
};

use interlock_backend::documents::DocumentName;
use interlock_backend::jobs::{Progress, Report};
use interlock_backend::keys::{ApiKey, KeyScope, Role};
use interlock_backend::runs::{Commit, Committed};
use interlock_backend::tenants::LimitScope;
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::limit::Limits;
use interlock_model::{InstanceId, JobId, RunId, Timestamp};
use interlock_poll::until;
use interlock_servers::Redis;
use serde_json::json;

use super::cutting::CuttingProxy;
use super::{
    LEASE, acme, claim, deploy, document, idle, name, open, open_impatient, request, server, started,
};

/// A store whose replies can be lost.
pub(crate) struct Scene {
    pub(crate) store: Store,
    proxy: CuttingProxy,
    pub(crate) server: Redis,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let proxy = CuttingProxy::before(server.port()).await;
        Self { store: open(&proxy.url()).await, proxy, server }
    }

    /// Loses the reply to the next request with `mark` in it.
    pub(crate) fn lose_reply_to(&self, mark: &str) {
        self.proxy.lose_reply_to(mark);
    }

    /// A run whose job waits.
    async fn waiting(&self, number: u64) -> RunId {
        started(&self.store, number, true).await
    }

    async fn events_waiting(&self, run: RunId) -> usize {
        let holder: InstanceId = name("engine-1");
        self.store
            .call(AcquireRun { tenant: acme(), run, holder: holder.clone(), lease: LEASE })
            .await
            .unwrap()
            .map_or(0, |taken| taken.inbox.len())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.proxy.cuts(), 1, "exactly one reply was lost");
        }
    }
}

#[tokio::test]
async fn a_start_whose_reply_was_lost_is_one_run() {
    let scene = Scene::new().await;
    scene
        .store
        .call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("deploy") })
        .await
        .unwrap();
    let start = request(1, true);
    scene.lose_reply_to(&start.request.run.to_string());
    let lost = scene.store.call(start.clone()).await.unwrap_err();
    assert!(matches!(lost, StoreError::Unavailable { effect: Effect::Unknown, .. }), "{lost:?}");

    let again = scene.store.call(Admit { is_repeat: true, ..start.clone() }).await.unwrap();
    assert!(matches!(again, StartOutcome::Admitted { run, .. } if run == start.request.run), "{again:?}");
    assert_eq!(
        scene.store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await,
        Ok(vec![start.request.run])
    );
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_gives_the_same_jobs() {
    let scene = Scene::new().await;
    let (older, newer) = (scene.waiting(1).await, scene.waiting(2).await);
    scene.lose_reply_to("worker-7");
    let claimed = claim(&scene.store, "worker-7").await.pop().unwrap();
    let next = claim(&scene.store, "worker-7").await.pop().unwrap();
    assert_eq!(
        (claimed.job.id.run, next.job.id.run),
        (older, newer),
        "no job was given out twice or forgotten"
    );

    let kept =
        scene.store.call(ReadJob { tenant: acme(), job: claimed.job.id.clone() }).await.unwrap().unwrap();
    assert_eq!(kept.lease, Some(claimed.lease));
    assert!(claim(&scene.store, "worker-7").await.is_empty());
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_gives_nothing_that_its_worker_had_before() {
    let scene = Scene::new().await;
    let (older, newer) = (scene.waiting(1).await, scene.waiting(2).await);
    let held = claim(&scene.store, "worker-7").await.pop().unwrap();
    scene.lose_reply_to("worker-7");
    let claimed = claim(&scene.store, "worker-7").await;
    let runs: Vec<RunId> = claimed.iter().map(|claimed| claimed.job.id.run).collect();
    assert_eq!((held.job.id.run, runs), (older, vec![newer]));
}

#[tokio::test]
async fn a_take_whose_reply_was_lost_holds_the_run_under_one_fence() {
    let scene = Scene::new().await;
    let run = started(&scene.store, 1, false).await;
    scene.lose_reply_to("engine-7");
    let taken = scene
        .store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-7"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        scene.store.call(AcquireRun { tenant: acme(), run, holder: name("engine-8"), lease: LEASE }).await,
        Ok(None)
    );
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: taken.fence }).await.unwrap();
    assert!(
        scene
            .store
            .call(AcquireRun { tenant: acme(), run, holder: name("engine-8"), lease: LEASE })
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_known_to_be_done() {
    let scene = Scene::new().await;
    let run = started(&scene.store, 1, false).await;
    let taken = scene
        .store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-7"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    let turn = idle(&taken);
    scene.lose_reply_to(&taken.fence.to_string());
    let committed = scene.store.call(turn.clone()).await.unwrap();
    assert_eq!(committed, Committed { has_more: false, version: taken.head.version + 1, granted: 0 });
    assert!(matches!(scene.store.call(turn).await, Err(StoreError::Fenced { .. })), "once, and not again");
}

#[tokio::test]
async fn a_result_whose_reply_was_lost_reaches_its_run_once() {
    let scene = Scene::new().await;
    let run = scene.waiting(1).await;
    let held = claim(&scene.store, "worker-1").await.pop().unwrap();
    scene.lose_reply_to("all is well");
    let outcome = JobOutcome::completed(json!("all is well"));
    let report = scene
        .store
        .call(RecordResult {
            tenant: acme(),
            job: held.job.id.clone(),
            fence: held.lease.fence,
            outcome,
            edge: None,
        })
        .await
        .unwrap();
    assert!(matches!(report, Report::Recorded | Report::AlreadyRecorded));
    assert_eq!(scene.events_waiting(run).await, 1);
}

#[tokio::test]
async fn progress_whose_reply_was_lost_stands_in_the_timeline_once() {
    let scene = Scene::new().await;
    let run = scene.waiting(1).await;
    let held = claim(&scene.store, "worker-1").await.pop().unwrap();
    let before =
        scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap().len();
    scene.lose_reply_to("half of it");
    let progress = Progress { percent: 50, message: Some("half of it".to_owned()) };
    scene
        .store
        .call(RecordProgress { tenant: acme(), job: held.job.id.clone(), fence: held.lease.fence, progress })
        .await
        .unwrap();
    assert_eq!(
        scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap().len(),
        before + 1
    );
}

#[tokio::test]
async fn a_lost_job_whose_reply_was_lost_is_posted_once() {
    let scene = Scene::new().await;
    let run = scene.waiting(1).await;
    let held = claim(&scene.store, "worker-7").await.pop().unwrap();
    scene.lose_reply_to("worker-7");
    let lost: Vec<JobId> = scene
        .store
        .call(AbandonWorker { tenant: acme(), worker: name("worker-7"), limit: 10 })
        .await
        .unwrap();
    assert_eq!(lost, [held.job.id]);
    assert_eq!(scene.events_waiting(run).await, 1);
}

#[tokio::test]
async fn a_cancellation_whose_reply_was_lost_is_posted_once() {
    let scene = Scene::new().await;
    let run = scene.waiting(1).await;
    let held = claim(&scene.store, "worker-1").await.pop().unwrap();
    scene.lose_reply_to("an operator");
    let state = scene
        .store
        .call(CancelJob { tenant: acme(), job: held.job.id.clone(), by: "an operator".to_owned() })
        .await;
    assert_eq!(state, Ok(interlock_model::job::JobState::Cancelled));
    assert_eq!(scene.events_waiting(run).await, 1);
}

#[tokio::test]
async fn a_workflow_whose_reply_was_lost_is_saved_once() {
    let scene = Scene::new().await;
    assert_eq!(
        scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("one") }).await,
        Ok(1)
    );
    scene.lose_reply_to("the second");
    assert_eq!(
        scene
            .store
            .call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("the second") })
            .await,
        Ok(2)
    );
    assert_eq!(
        scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("three") }).await,
        Ok(3)
    );
}

#[tokio::test]
async fn a_deleted_workflow_whose_reply_was_lost_is_deleted() {
    let scene = Scene::new().await;
    scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("one") }).await.unwrap();
    scene.lose_reply_to("deploy");
    assert_eq!(scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await, Ok(()));
    assert_eq!(
        scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await,
        Err(StoreError::not_found("workflow", deploy()))
    );
}

#[tokio::test]
async fn limits_whose_reply_was_lost_are_one_revision() {
    let scene = Scene::new().await;
    let scope = LimitScope::Tenant(acme());
    let limits = |runs_max| Limits { runs_max: Some(runs_max), ..Limits::default() };
    let before = scene
        .store
        .call(SetLimits { scope: scope.clone(), limits: limits(3), keeps_quotas: false })
        .await
        .unwrap();
    scene.lose_reply_to("runs_max");
    assert_eq!(
        scene
            .store
            .call(SetLimits { scope: scope.clone(), limits: limits(87_654), keeps_quotas: false })
            .await,
        Ok(before + 1)
    );
    assert_eq!(scene.store.call(ReadLimits { scope: scope.clone() }).await.unwrap().revision, before + 1);
}

#[tokio::test]
async fn a_deleted_run_whose_reply_was_lost_is_deleted() {
    let scene = Scene::new().await;
    let run = scene.waiting(1).await;
    scene.lose_reply_to(&run.to_string());
    let jobs = scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert_eq!(jobs.len(), 1, "its jobs are named, so that what they left elsewhere is removed");
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run }).await, Ok(None));
    assert_eq!(scene.store.call(ReadUsage { tenant: acme() }).await.unwrap().runs_active, 0);
}

#[tokio::test]
async fn a_key_whose_reply_was_lost_is_created_once() {
    let scene = Scene::new().await;
    let key = ApiKey {
        id: name("key7"),
        name: "a key".to_owned(),
        role: Role::Viewer,
        scope: KeyScope::All,
        secret_hash: "0".repeat(64),
        created_at: Timestamp::ZERO,
        expires_at: None,
        workflows: None,
        replaces: None,
        replaced_by: None,
    };
    scene.lose_reply_to("key7");
    let kept = scene.store.call(CreateApiKey { key: key.clone() }).await.unwrap();
    assert_eq!(scene.store.call(ListApiKeys).await, Ok(vec![kept]));
    assert!(matches!(scene.store.call(CreateApiKey { key }).await, Err(StoreError::Conflict(_))));
}

#[tokio::test]
async fn a_document_whose_reply_was_lost_is_saved_once_and_by_us() {
    let scene = Scene::new().await;
    let name = DocumentName::Contention;
    assert_eq!(scene.store.call(SaveDocument { name, expected: 0, text: "one".to_owned() }).await, Ok(true));
    scene.lose_reply_to("the second");
    assert_eq!(
        scene.store.call(SaveDocument { name, expected: 1, text: "the second".to_owned() }).await,
        Ok(true)
    );
    assert_eq!(scene.store.call(ReadDocument { name }).await.unwrap().unwrap().version, 2);
}

/// A store whose server hangs for longer than any caller waits, and then runs the commands.
pub(crate) async fn hang(server: &Redis, call: impl Future<Output = ()>) {
    server.pause().unwrap();
    call.await;
    server.resume().unwrap();
    until("the server is back", async || server.command(&["PING"]).await.is_ok()).await;
}

#[tokio::test]
async fn a_run_that_was_taken_without_anybody_knowing_is_taken_again_at_once() {
    let server = server().await;
    let store = open_impatient(&server.url()).await;
    let run = started(&store, 1, false).await;
    let engine: InstanceId = name("instance-1");
    // From now on the server knows the script, and runs it when it wakes.
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: engine.clone(), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    store.call(ReleaseRun { tenant: acme(), run, fence: taken.fence }).await.unwrap();
    hang(&server, async {
        let lost = store.call(AcquireRun { tenant: acme(), run, holder: engine.clone(), lease: LEASE }).await;
        assert!(matches!(lost, Err(StoreError::Unavailable { effect: Effect::Unknown, .. })), "{lost:?}");
    })
    .await;
    until("the take was done in the end", async || {
        server.command(&["EXISTS", &format!("cordum:wf:run:lock:{run}")]).await.unwrap() == "1"
    })
    .await;
    assert_eq!(
        store.call(AcquireRun { tenant: acme(), run, holder: name("instance-2"), lease: LEASE }).await,
        Ok(None),
        "it is held"
    );
    let taken =
        store.call(AcquireRun { tenant: acme(), run, holder: engine.clone(), lease: LEASE }).await.unwrap();
    assert!(taken.is_some(), "by us, who did not know of it");
}

#[tokio::test]
async fn a_run_whose_commit_got_no_answer_is_taken_again_at_once() {
    let server = server().await;
    let store = open_impatient(&server.url()).await;
    let run = started(&store, 1, false).await;
    let engine: InstanceId = name("instance-1");
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: engine.clone(), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    // The definition says nothing about this version: the turn is refused, and the hold stays.
    let turn = Commit { version: taken.head.version + 7, ..idle(&taken) };
    hang(&server, async {
        let lost = store.call(turn).await;
        assert!(matches!(lost, Err(StoreError::Unavailable { .. })), "{lost:?}");
    })
    .await;
    let again = store
        .call(AcquireRun { tenant: acme(), run, holder: engine.clone(), lease: LEASE })
        .await
        .unwrap()
        .expect("no other call releases it");
    assert!(again.fence > taken.fence);
}
