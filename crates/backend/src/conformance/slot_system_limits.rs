//! Named limits of the system: each tenant has them beside its own, and its runs are counted by them separately.

use std::time::Duration;

use interlock_model::admission::StartOutcome;
use interlock_model::limit::Limits;
use interlock_model::limit::document::{OnFull, Pause};
use interlock_model::limit::group::Fullness;
use interlock_model::limit::rule::LIMITS_MAX;
use interlock_model::{TenantId, Timestamp};
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, globex, name};
use super::slots::{limit_document, queued, repo};
use crate::limits::{GRANT_STEPS_MAX, LimitBook, LimitChange, StoredLimit, SystemAdopted};
use crate::tenants::LimitScope;
use crate::verbs::{AdoptSystemLimits, FireTimers, SaveLimit, SetLimits};

/// A limit of the system as its document has it.
fn limit(of_system: &str, revision: u64, document: Value) -> StoredLimit {
    let saved_at = Timestamp::from_millis(1_794_700_800_000);
    StoredLimit {
        name: name(of_system),
        document: limit_document(document),
        revision,
        saved_at,
        paused: None,
    }
}

impl Scene {
    async fn adopt(&self, tenant: TenantId, version: u64, limits: &[StoredLimit]) -> SystemAdopted {
        let limits = limits.to_vec();
        self.store.call(AdoptSystemLimits { tenant, version, limits }).await.expect("the store is up")
    }

    /// A start of a tenant by the limits that it has now.
    async fn arrive_of(&self, tenant: &TenantId, input: Value) -> StartOutcome {
        let admit = self.counted_of(tenant, None, input).await;
        self.admit(admit).await
    }
}

fn granted(adopted: SystemAdopted) -> u32 {
    adopted.granted
}

pub async fn a_limit_of_the_system_applies_to_each_tenant_separately(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let keyed = json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"});
    let limits = [limit("system.per-repo", 1, keyed), limit("system.two", 1, json!({"max_runs": 2}))];
    for tenant in [acme(), globex()] {
        let adopted = scene.adopt(tenant, 7, &limits).await;
        assert_eq!(adopted, SystemAdopted { version: 7, granted: 0 });
    }
    let LimitBook { system, limits: listed, .. } = scene.book().await;
    assert_eq!((system, &listed[..]), (7, &limits[..]));
    for tenant in [acme(), globex()] {
        let first = scene.arrive_of(&tenant, repo("api")).await;
        assert!(matches!(first, StartOutcome::Admitted { .. }), "{tenant} has slots of its own: {first:?}");
        let (_, by, position) = queued(&scene.arrive_of(&tenant, repo("api")).await);
        assert_eq!((by.as_str(), position), ("system.per-repo", Some(1)));
        assert!(matches!(scene.arrive_of(&tenant, repo("web")).await, StartOutcome::Admitted { .. }));
        let third = scene.arrive_of(&tenant, repo("docs")).await;
        let StartOutcome::LimitReached { blocked, .. } = third else { panic!("{third:?}") };
        assert_eq!((blocked.limit.as_str(), blocked.live), ("system.two", 2));
    }
    assert_eq!(scene.usage("system.per-repo", "api").await, (1, 1));
}

pub async fn a_start_by_older_limits_of_the_system_is_refused(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let before = scene.counted(None, repo("api")).await;
    scene.adopt(acme(), 1, &[limit("system.none", 1, json!({"max_runs": 0}))]).await;
    assert!(matches!(scene.admit(before).await, StartOutcome::LimitsChanged { .. }));
    assert!(matches!(scene.arrive(repo("api")).await, StartOutcome::LimitReached { .. }));
    // A version in which nothing has changed for the tenant refuses none.
    let now = scene.counted(None, repo("api")).await;
    scene.adopt(acme(), 2, &[limit("system.none", 1, json!({"max_runs": 0}))]).await;
    assert!(matches!(scene.admit(now).await, StartOutcome::LimitReached { .. }));
    assert_eq!(scene.book().await.system, 2);
}

pub async fn an_older_version_of_the_systems_limits_changes_nothing(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let newer = [limit("system.one", 3, json!({"max_runs": 1}))];
    scene.adopt(acme(), 3, &newer).await;
    for version in [2, 3] {
        let adopted = scene.adopt(acme(), version, &[]).await;
        assert_eq!(adopted, SystemAdopted { version: 3, granted: 0 });
    }
    assert_eq!(scene.book().await.limits, newer);
}

pub async fn a_changed_limit_of_the_system_grants_in_the_step_that_applies_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let of =
        |revision, most: u32| limit("system.few", revision, json!({"max_runs": most, "on_full": "queue"}));
    scene.adopt(acme(), 1, &[of(1, 1)]).await;
    scene.live(json!({})).await;
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(scene.waiting_run(json!({})).await);
    }
    assert_eq!(granted(scene.adopt(acme(), 2, &[of(2, 3)]).await), 2, "it was raised");
    assert_eq!(scene.queue("system.few", "").await, runs[2..]);
    assert_eq!(granted(scene.adopt(acme(), 3, &[of(3, 1)]).await), 0, "it was lowered");
    let at = Timestamp::from_millis(1_794_700_800_000);
    let pause = Some(Pause { by: "lea".to_owned(), at, reason: None });
    let paused = StoredLimit { paused: pause, ..of(4, 5) };
    assert_eq!(granted(scene.adopt(acme(), 4, &[paused]).await), 0, "it was raised, and paused");
    let StartOutcome::Queued { run, blocked, .. } = scene.arrive(json!({})).await else {
        panic!("a paused limit that queues lets wait")
    };
    assert_eq!(blocked.fullness, Fullness::Paused);
    assert_eq!(granted(scene.adopt(acme(), 5, &[of(5, 5)]).await), 2, "it was resumed");
    assert_eq!(scene.queue("system.few", "").await, [runs[4], runs[5], run]);
    assert_eq!(granted(scene.adopt(acme(), 6, &[]).await), 3, "it was deleted");
    assert_eq!(scene.book().await.limits, []);
    for run in runs {
        scene.begin_granted(run).await;
    }
}

pub async fn more_grants_than_applying_gives_are_continued_by_a_timer(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    let queues = json!({"max_runs": 0, "on_full": "queue"});
    scene.adopt(acme(), 1, &[limit("system.none", 1, queues)]).await;
    let (step, extra) = (GRANT_STEPS_MAX, 20);
    for _ in 0..step + extra {
        scene.waiting_run(json!({})).await;
    }
    let at_once = granted(scene.adopt(acme(), 2, &[]).await);
    assert!((1..=step).contains(&at_once), "{at_once} runs were granted in one step");
    let fire = FireTimers { tenant: acme(), ahead: Duration::ZERO, limit: 100 };
    for _ in 0..3 {
        scene.store.call(fire.clone()).await.expect("the store is up");
    }
    assert_eq!(scene.queue("system.none", "").await, []);
}

pub async fn the_systems_limits_do_not_count_among_the_tenants_own(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.adopt(acme(), 1, &[limit("system.one", 1, json!({"max_runs": 5}))]).await;
    for number in 0..LIMITS_MAX {
        scene.save_limit(&format!("l{number}"), json!({"max_runs": 1})).await;
    }
    let (tenant, document) = (acme(), limit_document(json!({"max_runs": 1})));
    let book = scene.book().await;
    assert_eq!(book.limits.len(), LIMITS_MAX as usize + 1);
    let save = SaveLimit { tenant, name: name("more"), document, book: book.revision, replaces: None };
    assert!(scene.store.call(save.clone()).await.is_err(), "it would be one too many");
    // One of the same name as the system's is another limit.
    let replaced = SaveLimit { name: name("l0"), ..save };
    assert!(matches!(scene.store.call(replaced).await, Ok(LimitChange::Done { .. })));
}

pub async fn a_raised_cap_of_the_system_is_granted_where_it_is_inherited(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let set = async |scope, runs_max| {
        let limits = Limits { runs_max, on_full: Some(OnFull::Queue), ..Limits::default() };
        scene.store.call(SetLimits { scope, limits, keeps_quotas: false }).await.expect("the store is up");
    };
    set(LimitScope::System, Some(1)).await;
    set(LimitScope::Tenant(acme()), None).await;
    scene.live(json!({})).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(scene.waiting_run(json!({})).await);
    }
    assert_eq!(granted(scene.adopt(acme(), 0, &[]).await), 0, "no slot is free");
    set(LimitScope::System, Some(3)).await;
    assert_eq!(granted(scene.adopt(acme(), 0, &[]).await), 2);
    assert_eq!(scene.queue("tenant-runs", "").await, runs[2..]);
    scene.begin_granted(runs[0]).await;
}

pub async fn limits_of_the_system_survive_a_reopening(subject: &mut dyn Subject) {
    let before = {
        let scene = Scene::with_cap(subject, 10).await;
        scene.adopt(acme(), 4, &[limit("system.one", 2, json!({"max_runs": 1, "on_full": "queue"}))]).await;
        scene.live(json!({})).await;
        scene.waiting_run(json!({})).await;
        scene.book().await
    };
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.book().await, before);
    assert_eq!(scene.usage("system.one", "").await, (1, 1));
}
