//! The doctor over everything: it names what it finds, mends it, and says what it could not see.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use interlock_backend::documents::DocumentName;
use interlock_backend::verbs::{SaveDocument, SetLimits};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::clock::RuntimeClock;
use interlock_backend::conformance::inspection::LocalRows as _;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::inspection::{Probe, Probed};
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::local::Table;
use interlock_backend::memory::MemoryStore;
use interlock_backend::registry::Handshake;
use interlock_backend::tenants::LimitScope;
use interlock_backend::{InProcessBus, Store, StoreError, memory};
use interlock_control::admission::StartRequest;
use interlock_control::doctor::{
    DoctorPage, DoctorReport, DoctorScope, DoctorTenants, FindingId, FindingOutcome,
};
use interlock_control::identity::Identity;
use interlock_control::reconcile::ticking::Tick;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};
use interlock_model::limit::Limits;
use interlock_model::lock::StageLock;
use interlock_model::scheduling::Edge;
use interlock_model::{TenantId, Timestamp, Topic, WorkerId};
use serde_json::json;

const NO_RUN: &str = "01a1dc80-0000-7000-8000-000000000000";

struct Scene {
    tables: Arc<MemoryStore>,
    control: Arc<Control>,
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn everything() -> DoctorScope {
    DoctorScope { tenants: DoctorTenants::All, only: Vec::new() }
}

fn control(store: Store, clock: RuntimeClock, probes: Vec<Arc<dyn Probe>>) -> Arc<Control> {
    let foundation = Foundation {
        store,
        bus: Arc::new(InProcessBus::default()),
        clock: Arc::new(clock),
        identity: Identity::from_seed(1),
        instance: "i-1".parse().unwrap(),
        mailbox: None,
        probes,
    };
    Control::new(foundation, Settings::default())
}

/// Two tenants with nothing in them.
async fn scene_with(probes: Vec<Arc<dyn Probe>>) -> Scene {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let tables = Arc::new(memory::store(Arc::new(clock)));
    let store = Store::new(tables.clone());
    for name in ["acme", "globex"] {
        let scope = LimitScope::Tenant(tenant(name));
        store
            .call(SetLimits {
                scope: scope.clone(),
                limits: Limits { runs_max: Some(1), ..Limits::default() },
                keeps_quotas: false,
            })
            .await
            .unwrap();
    }
    Scene { control: control(store, clock, probes), tables }
}

async fn scene() -> Scene {
    scene_with(Vec::new()).await
}

impl Scene {
    /// Leaves a mark of a run that is not there, and a row that cannot be read.
    async fn spoil(&self) {
        self.tables.overwrite(Table::Ready, vec![(format!("globex/{NO_RUN}"), Some(String::new()))]).await;
        self.tables.overwrite(Table::Steps, vec![(format!("acme/{NO_RUN}/a"), Some("{".to_owned()))]).await;
    }

    async fn found(&self, scope: &DoctorScope) -> Vec<(Invariant, Option<TenantId>)> {
        let report = self.control.doctor.examine(scope).await;
        assert_eq!(report.unseen, []);
        report.findings.into_iter().map(|finding| (finding.invariant, finding.tenant)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_installation_is_well() {
    let scene = scene().await;
    let report = scene.control.doctor.examine(&everything()).await;
    assert_eq!((report.findings, report.unseen), (Vec::new(), Vec::new()));
    let of_tenants = report.looked_at.iter().filter(|looked| looked.tenants == 2).count();
    assert_eq!(
        (of_tenants, report.looked_at.len()),
        (43, 52),
        "those of tenants, those of keys and queues, and our own of the installation"
    );
}

#[tokio::test(start_paused = true)]
async fn every_tenant_is_looked_at_or_the_one_that_is_asked_for_and_only_what_is_asked_for() {
    let scene = scene().await;
    scene.spoil().await;
    let (damaged, ready) = (Invariant::RowDamaged, Invariant::ReadyWithoutRun);
    let both = [(ready, Some(tenant("globex"))), (damaged, Some(tenant("acme")))];
    assert_eq!(scene.found(&everything()).await, both);
    let acme = DoctorScope { tenants: DoctorTenants::One(tenant("acme")), only: Vec::new() };
    assert_eq!(scene.found(&acme).await, [(damaged, Some(tenant("acme")))]);
    let only = DoctorScope { tenants: DoctorTenants::All, only: vec![ready] };
    assert_eq!(scene.found(&only).await, [(ready, Some(tenant("globex")))]);
}

#[tokio::test(start_paused = true)]
async fn a_finding_that_cannot_be_repaired_does_not_stop_the_others() {
    let scene = scene().await;
    scene.spoil().await;
    let repairs = scene.control.doctor.repair(&everything(), None).await;
    let became: Vec<_> = repairs.repaired.iter().map(|one| (one.named.invariant, &one.outcome)).collect();
    assert_eq!(became[0], (Invariant::ReadyWithoutRun, &FindingOutcome::Repaired));
    assert!(matches!(became[1], (Invariant::RowDamaged, FindingOutcome::Impossible(_))), "{became:?}");
    let left: Vec<_> = repairs.after.findings.iter().map(|finding| finding.invariant).collect();
    assert_eq!(left, [Invariant::RowDamaged]);
    let named = repairs.repaired[0].named.clone();
    let again = scene.control.doctor.repair(&everything(), Some(vec![named])).await;
    assert_eq!(again.repaired[0].outcome, FindingOutcome::NothingToDo);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_store_is_a_finding() {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let store = Arc::new(memory::store(Arc::new(clock)));
    let away = Faults { requests_lost: 1_000, ..Faults::NONE };
    let control = control(Store::new(Arc::new(FaultyStore::new(store, 1, away))), clock, Vec::new());
    let report = control.doctor.examine(&everything()).await;
    assert_eq!(report.findings, []);
    let unseen: Vec<_> = report.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
    assert!(
        unseen.contains(&"the rows of the tenants") && unseen.contains(&"loop_not_ticking"),
        "{unseen:?}"
    );
    let (invariant, subject) = (Invariant::ReadyWithoutRun, NO_RUN.to_owned());
    let named = FindingId { invariant, tenant: Some(tenant("acme")), subject };
    let repairs = control.doctor.repair(&everything(), Some(vec![named; 5])).await;
    let tried = repairs.repaired.iter().map(|one| {
        let FindingOutcome::Unknown(reason) = &one.outcome else { panic!("the outcome is known: {one:?}") };
        !reason.contains("not tried")
    });
    assert_eq!(tried.collect::<Vec<_>>(), [true, true, true, false, false], "each costs a time-out");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_tick_is_a_finding_once_replicas_had_time_to_start() {
    let scene = scene().await;
    let loops = DoctorScope { tenants: DoctorTenants::All, only: vec![Invariant::LoopNotTicking] };
    assert_eq!(scene.found(&loops).await, []);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(scene.found(&loops).await.len(), StageLock::ALL.len());
    let mut locks = StageLock::ALL.map(|stage| (stage, scene.control.reconcilers.loop_lock(stage)));
    for (stage, lock) in &mut locks {
        assert!(matches!(scene.control.reconcilers.tick(lock, *stage).await, Ok(Tick::Done(_))));
    }
    assert_eq!(scene.found(&loops).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_without_a_writer_is_written() {
    let scene = scene().await;
    tokio::time::advance(Duration::from_secs(31)).await;
    let snapshot = DoctorScope { tenants: DoctorTenants::All, only: vec![Invariant::SnapshotStale] };
    let [found] = scene.control.doctor.examine(&snapshot).await.findings.try_into().unwrap();
    assert_eq!(found.detail, "there is no snapshot of the workers");
    let repairs = scene.control.doctor.repair(&snapshot, None).await;
    assert_eq!(repairs.repaired[0].outcome, FindingOutcome::Repaired);
    assert_eq!(repairs.after.findings, []);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(scene.found(&snapshot).await, [(Invariant::SnapshotStale, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_renew_in_time_is_reported() {
    let scene = scene().await;
    let stage = StageLock::Reconciler;
    let mut lock = scene.control.reconcilers.loop_lock(stage);
    assert!(matches!(scene.control.reconcilers.tick(&mut lock, stage).await, Ok(Tick::Done(_))));
    let lag = DoctorScope { tenants: DoctorTenants::All, only: vec![Invariant::RenewalLag] };
    let ttl = scene.control.process.settings().locks.stage(stage).ttl;
    tokio::time::advance(ttl / 2).await;
    assert_eq!(scene.found(&lag).await, [], "it is renewed at half of its time");
    tokio::time::advance(ttl / 4).await;
    assert_eq!(scene.found(&lag).await, [], "a quarter is left");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(scene.found(&lag).await, [(Invariant::RenewalLag, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_another_one_than_before_has_lost_its_data() {
    let scene = scene().await;
    scene.control.process.join_installation().await.unwrap();
    let lost = DoctorScope { tenants: DoctorTenants::All, only: vec![Invariant::StoreDataLost] };
    assert_eq!(scene.found(&lost).await, []);
    let name = DocumentName::Installation;
    let replaced = SaveDocument { name, expected: 1, text: "another".to_owned() };
    assert!(Store::new(scene.tables.clone()).call(replaced).await.unwrap());
    assert_eq!(scene.found(&lost).await, [(Invariant::StoreDataLost, None)]);
    assert!(scene.control.process.has_lost_data());
}

/// A server with one violation that can be repaired and one invariant that cannot be checked.
struct Beneath;

#[async_trait]
impl Probe for Beneath {
    async fn probe(&self) -> Vec<Probed> {
        let gone = Finding {
            invariant: Invariant::ConsumerGone,
            tenant: None,
            subject: "results".to_owned(),
            detail: "the consumer is missing".to_owned(),
            is_repairable: true,
        };
        let reason = "it did not answer".to_owned();
        vec![
            Probed::Sound(Invariant::MemoryPolicy),
            Probed::Found(gone),
            Probed::Unseen { invariant: Invariant::StreamLag, reason },
        ]
    }

    async fn repair(&self, invariant: Invariant, subject: &str) -> Result<RepairOutcome, StoreError> {
        let is_own = invariant == Invariant::ConsumerGone && subject == "results";
        Ok(if is_own { RepairOutcome::Repaired } else { RepairOutcome::NothingToDo })
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_repairs_its_own_findings() {
    let scene = scene_with(vec![Arc::new(Beneath)]).await;
    let report = scene.control.doctor.examine(&everything()).await;
    let found: Vec<_> = report.findings.iter().map(|finding| finding.invariant).collect();
    assert_eq!(found, [Invariant::ConsumerGone]);
    assert_eq!(report.unseen[0].what, "stream_lag");
    assert!(report.looked_at.iter().any(|looked| looked.invariant == Invariant::MemoryPolicy));
    let repairs = scene.control.doctor.repair(&everything(), None).await;
    let back = FindingOutcome::Impossible("it was repaired, and the violation is back".to_owned());
    assert_eq!(repairs.repaired[0].outcome, back, "the second look decides");
    let (invariant, subject) = (Invariant::MemoryShort, "redis".to_owned());
    let named = FindingId { invariant, tenant: None, subject };
    let repairs = scene.control.doctor.repair(&everything(), Some(vec![named])).await;
    assert!(
        matches!(&repairs.repaired[0].outcome, FindingOutcome::Impossible(plan) if plan.contains("more memory"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_not_seen_in_time_is_named() {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let slow = Faults { delayed: 1_000, delay_max: Duration::from_hours(1), ..Faults::NONE };
    let store = Arc::new(FaultyStore::new(Arc::new(memory::store(Arc::new(clock))), 1, slow));
    let control = control(Store::new(store), clock, Vec::new());
    let only = vec![Invariant::SlotWithoutRun];
    let scope = DoctorScope { tenants: DoctorTenants::One(tenant("acme")), only };
    let report = control.doctor.examine(&scope).await;
    let unseen: Vec<_> = report.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
    assert_eq!(unseen, ["slot_without_run and what follows, of the tenant acme"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_probe_only_what_is_asked_for_is_reported() {
    let scene = scene_with(vec![Arc::new(Beneath)]).await;
    for only in [Invariant::ConsumerGone, Invariant::MemoryPolicy, Invariant::StreamLag] {
        let scope = DoctorScope { tenants: DoctorTenants::All, only: vec![only] };
        let report = scene.control.doctor.examine(&scope).await;
        assert!(report.looked_at.iter().all(|looked| looked.invariant == only), "{report:?}");
        assert!(report.findings.iter().all(|finding| finding.invariant == only), "{report:?}");
        assert!(report.unseen.iter().all(|unseen| unseen.what == only.name()), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_nats_worker_that_holds_jobs_is_found_and_abandoned() {
    let scene = scene().await;
    let store = Store::new(scene.tables.clone());
    let document = json!({"id": "job", "name": "job", "steps": {"a": {"type": "worker", "topic": "work"}}});
    let document = serde_json::from_value(document).unwrap();
    scene.control.documents.save_workflow(&tenant("acme"), document).await.unwrap();
    let (tenant, workflow) = (tenant("acme"), "job".parse().unwrap());
    let start = StartRequest::new(tenant, workflow, json!({}));
    let _ = scene.control.admission.start(start).await.unwrap();
    let (worker, topics): (WorkerId, Vec<Topic>) = ("w".parse().unwrap(), vec!["work".parse().unwrap()]);
    scene.control.workers.register(&worker, &Handshake { topics: topics.clone() }).await.unwrap();
    let claim = Claim {
        tenant: self::tenant("acme"),
        worker,
        topics,
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(Duration::from_hours(1)),
        edge: Edge::Nats,
    };
    assert_eq!(store.call(claim).await.unwrap().len(), 1);
    let silent = DoctorScope { tenants: DoctorTenants::All, only: vec![Invariant::WorkerSilent] };
    assert_eq!(scene.found(&silent).await, []);
    tokio::time::advance(Duration::from_mins(3)).await;
    assert_eq!(scene.found(&silent).await, [(Invariant::WorkerSilent, None)]);
    let repairs = scene.control.doctor.repair(&silent, None).await;
    assert_eq!((&repairs.repaired[0].outcome, repairs.after.findings.len()), (&FindingOutcome::Repaired, 0));
}

/// Goes through all pages; each checks for this long.
async fn in_pages(control: &Control, scope: &DoctorScope, budget: Duration) -> Vec<DoctorReport> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = DoctorPage { after: after.take(), budget };
        let report = control.doctor.examine_page(scope, Some(page)).await;
        after.clone_from(&report.next);
        pages.push(report);
        assert!(pages.len() < 1_000, "the pages do not end");
        if after.is_none() {
            return pages;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pages_visit_every_tenant_once_and_find_what_one_large_page_finds() {
    const TENANTS: u64 = 30;
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let tables = Arc::new(memory::store(Arc::new(clock)));
    let names: Vec<_> = (0..TENANTS).map(|number| format!("t{number:02}")).collect();
    let mark = |key: String| (key, Some(String::new()));
    let ready = names.iter().map(|name| mark(format!("{name}/{NO_RUN}")));
    tables.overwrite(Table::Ready, ready.collect()).await;
    let queued = names.iter().map(|name| mark(format!("{name}/work/000000000000005/{NO_RUN}:a@1")));
    let mut queue: Vec<_> = queued.collect();
    // Enough rows beside them for a pass over the queues to take several steps.
    queue.extend((0..3_000).map(|number| mark(format!("t07/work/{number:015}/x"))));
    tables.overwrite(Table::Queue, queue).await;
    let tenants = names.iter().map(|name| (name.clone(), Some("{}".to_owned()))).collect();
    tables.overwrite(Table::Tenants, tenants).await;
    let slow = FaultyStore::new(
        tables,
        1,
        Faults { delayed: 1_000, delay_max: Duration::from_millis(5), ..Faults::NONE },
    );
    let control = control(Store::new(Arc::new(slow)), clock, Vec::new());
    let only = vec![Invariant::ReadyWithoutRun, Invariant::QueueEntryWithoutJob, Invariant::LockDebt];
    let scope = DoctorScope { tenants: DoctorTenants::All, only };
    let whole = control.doctor.examine(&scope).await;
    assert_eq!((whole.findings.len() as u64, &whole.unseen, &whole.next), (2 * TENANTS, &Vec::new(), &None));
    for (budget, pages_min) in [(0, 34), (10, 8), (60_000, 1)] {
        let pages = in_pages(&control, &scope, Duration::from_millis(budget)).await;
        assert!(pages.len() >= pages_min, "{} pages of {budget} ms", pages.len());
        let mut found: Vec<_> = pages.iter().flat_map(|page| page.findings.clone()).collect();
        found.sort_by(|one, other| (one.invariant, &one.tenant).cmp(&(other.invariant, &other.tenant)));
        assert_eq!(found, whole.findings, "pages of {budget} ms");
        let looked = pages.iter().flat_map(|page| &page.looked_at);
        let looked = looked.filter(|looked| looked.invariant == Invariant::LockDebt);
        assert_eq!(looked.map(|looked| looked.tenants).sum::<u64>(), TENANTS, "pages of {budget} ms");
    }
}
