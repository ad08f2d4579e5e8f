//! What only Redis can have wrong among its keys: other kinds of values, and lists that disagree.

use interlock_backend::verbs::{AcquireRun, CancelJob};
use std::time::Duration;

use interlock_backend::inspection::{Inspect, InspectUnlisted, Repair};
use interlock_backend::{Page, PageRequest, Store};
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};
use interlock_model::{InstanceId, JobId, TenantId};
use interlock_poll::until;
use interlock_servers::Redis;

use super::asking::{DOOR, ask, door, granted, waiting};
use super::{acme, claim, open, server, started};

const GRACE: Duration = Duration::from_secs(5);

/// A run whose job waits, one whose job a worker has, one that has not begun, and a lock with a line.
struct Scene {
    server: Redis,
    store: Store,
    queued: String,
    leased: String,
    fresh: String,
}

/// The lock as it stands in keys.
const LOCK: &str = "deploy%2Fprod:eu%251";

impl Scene {
    async fn new() -> Self {
        let server = server().await;
        let store = open(&server.url()).await;
        let leased = started(&store, 1, true).await;
        assert_eq!(claim(&store, "worker-1").await[0].job.id.run, leased);
        let queued = started(&store, 2, true).await;
        let fresh = started(&store, 3, false).await;
        granted(&store, &ask(&door(), "alice")).await;
        let _ = store.call(waiting(&door(), "bob")).await.unwrap();
        let [queued, leased, fresh] = [queued, leased, fresh].map(|run| run.to_string());
        Self { server, store, queued, leased, fresh }
    }

    /// One command: its words stand apart by spaces. `QUEUED`, `LEASED` and `FRESH` are the runs, `_` is nothing.
    async fn run(&self, command: &str) -> String {
        let command = self.named(command);
        let words = command.split(' ').map(|word| if word == "_" { "" } else { word });
        self.server.command(&words.collect::<Vec<_>>()).await.unwrap()
    }

    fn named(&self, text: &str) -> String {
        let named = text.replace("QUEUED", &self.queued).replace("LEASED", &self.leased);
        named.replace("FRESH", &self.fresh).replace("LOCK", LOCK)
    }

    async fn look(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for invariant in Invariant::ALL.iter().filter(|known| known.realm() == Realm::Tenant) {
            findings.extend(self.look_for(*invariant).await);
        }
        findings
    }

    async fn look_for(&self, invariant: Invariant) -> Vec<Finding> {
        let (mut findings, mut after) = (Vec::new(), None);
        let mut is_unlisted = false;
        for _ in 0..1_000 {
            let page = PageRequest { limit: 2, after };
            let page = if is_unlisted {
                let tenant = Some(acme());
                self.store.call(InspectUnlisted { tenant, invariant, grace: GRACE, page }).await.unwrap()
            } else {
                self.store.call(Inspect { tenant: acme(), invariant, grace: GRACE, page }).await.unwrap()
            };
            findings.extend(page.items);
            after = page.next;
            if after.is_none() && std::mem::replace(&mut is_unlisted, true) {
                return findings;
            }
        }
        panic!("{invariant} is looked for without end");
    }

    async fn repair(&self, finding: &Finding) -> RepairOutcome {
        let (invariant, subject) = (finding.invariant, finding.subject.clone());
        self.store.call(Repair { tenant: acme(), invariant, subject, grace: GRACE }).await.unwrap()
    }

    /// Does it, finds it and nothing else, and has it mended.
    async fn finds_and_mends(&self, commands: &[&str], invariant: Invariant, subject: &str) {
        for command in commands {
            self.run(command).await;
        }
        let found = self.look().await;
        let subject = self.named(subject);
        let [finding] = found.as_slice() else { panic!("{commands:?} are one fault, but: {found:?}") };
        assert_eq!((finding.invariant, &finding.subject), (invariant, &subject), "{finding:?}");
        assert!(finding.is_repairable, "{finding:?}");
        assert_eq!(self.repair(finding).await, RepairOutcome::Repaired, "{finding:?}");
        assert_eq!(self.look().await, [], "{commands:?}");
        assert_eq!(self.repair(finding).await, RepairOutcome::NothingToDo);
    }

    /// Does it and finds it, beyond repair.
    async fn tells_only(&self, command: &str, invariant: Invariant, subject: &str) {
        self.run(command).await;
        let found = self.look_for(invariant).await;
        let subject = self.named(subject);
        let [finding] = found.as_slice() else { panic!("{command} is one fault, but: {found:?}") };
        assert_eq!((&finding.subject, finding.is_repairable), (&subject, false), "{finding:?}");
        assert!(matches!(self.repair(finding).await, RepairOutcome::Impossible { .. }));
        assert_eq!(self.look_for(invariant).await.len(), 1, "it was left alone");
    }
}

#[tokio::test]
async fn lists_that_disagree_are_found_and_mended() {
    let scene = Scene::new().await;
    assert_eq!(scene.look().await, []);
    for (commands, invariant, subject) in [
        (["ZADD wf:leases:{acme} 5 LEASED:build@1"].as_slice(), Invariant::LeaseNotIndexed, "LEASED:build@1"),
        (&["ZADD wf:leases:{acme} 5 QUEUED:build@1"], Invariant::LeaseWithoutJob, "QUEUED:build@1"),
        (&["ZADD wf:leases:{acme} 5 ghost:build@1"], Invariant::LeaseWithoutJob, "ghost:build@1"),
        (
            &["ZADD wf:queue:{acme}:build 0 000000000000005/QUEUED:build@1"],
            Invariant::QueueEntryWithoutJob,
            "QUEUED:build@1",
        ),
        (
            &["ZADD wf:queue:{acme}:other 0 000000000000005/ghost:build@1"],
            Invariant::QueueEntryWithoutJob,
            "ghost:build@1",
        ),
        (&["SREM wf:run:jobs:{acme}:QUEUED QUEUED:build@1"], Invariant::JobNotListed, "QUEUED:build@1"),
        (&["ZADD wf:put_off:{acme} 5 QUEUED:build@1"], Invariant::KeptResultNotDue, "QUEUED:build@1"),
        (&["ZREM wf:ready:{acme} FRESH"], Invariant::InboxNotDrained, "FRESH"),
        (&["HSET wf:run:{acme}:QUEUED due_at 9999999999999"], Invariant::TimerMissing, "QUEUED"),
        (
            &["HINCRBY wf:locks:waiting:{acme} LOCK 2", "HINCRBY wf:locks:waiting:{acme} _ 2"],
            Invariant::LockTallyDrift,
            "acme",
        ),
        (&["HSET wf:locks:since:{acme} LOCK 5"], Invariant::LockNotListed, "deploy/prod:eu%1"),
        (
            &[
                "SET cordum:wf:run:lock:FRESH {\"owner\":\"x\",\"token\":\"t\",\"fence\":5,\"expires_at\":99999999999999}",
            ],
            Invariant::RunHoldWithoutHolder,
            "FRESH",
        ),
        (&["ZADD wf:approvals:open:{acme} 0 QUEUED:gate@1"], Invariant::ApprovalOfEndedRun, "QUEUED:gate@1"),
    ] {
        scene.finds_and_mends(commands, invariant, subject).await;
        scene.run("ZREM wf:timers:{acme} QUEUED").await;
        scene.run("HDEL wf:run:{acme}:QUEUED due_at").await;
    }
    let held = scene.run(&format!("GET {DOOR}")).await;
    assert!(held.contains("alice"), "what was well is as it was: {held}");
}

#[tokio::test]
async fn a_step_whose_job_ended_unreported_is_posted_once() {
    let scene = Scene::new().await;
    let job: JobId = scene.named("QUEUED:build@1").parse().unwrap();
    let _ = scene
        .store
        .call(CancelJob { tenant: acme(), job: job.clone(), by: "a test".to_owned() })
        .await
        .unwrap();
    assert_eq!(scene.look().await, [], "its end is on its way");
    let lost = ["DEL wf:inbox:{acme}:QUEUED", "ZREM wf:ready:{acme} QUEUED"];
    scene.finds_and_mends(&lost, Invariant::StepWithoutJob, "QUEUED:build@1").await;
    let inbox = scene.run("LRANGE wf:inbox:{acme}:QUEUED 0 -1").await;
    assert!(inbox.contains("\"outcome\":\"lost\""), "{inbox}");
}

#[tokio::test]
async fn a_job_that_is_held_is_in_no_queue_and_will_be_looked_at() {
    let scene = Scene::new().await;
    let job = "QUEUED:build@1";
    let held = ["HSET wf:job:{acme}:QUEUED:build@1 held policy_pending held_until 9999999999999"];
    let listed = scene.run("ZRANGE wf:queue:{acme}:build 0 -1").await;
    scene.run("ZADD wf:held:{acme} 9999999999999 QUEUED:build@1").await;
    scene.finds_and_mends(&held, Invariant::QueueEntryWithoutJob, job).await;
    assert_eq!(scene.run("ZRANGE wf:queue:{acme}:build 0 -1").await, "", "it was at {listed}");
    scene.finds_and_mends(&["ZREM wf:held:{acme} QUEUED:build@1"], Invariant::JobInNoIndex, job).await;
    assert_eq!(scene.run("ZSCORE wf:held:{acme} QUEUED:build@1").await, "9999999999999");
}

#[tokio::test]
async fn a_hold_of_a_process_that_is_gone_is_ended() {
    let scene = Scene::new().await;
    let holder: InstanceId = super::name("engine-gone");
    scene
        .store
        .call(AcquireRun {
            tenant: acme(),
            run: super::name(&scene.fresh),
            holder: holder.clone(),
            lease: super::LEASE,
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(scene.look().await, [], "it may live, for all that we know");
    scene.run("ZADD sys:instances:{:system} 1794700800000 engine-gone").await;
    let now: u64 = scene.run("TIME").await.lines().next().unwrap().parse().unwrap();
    scene.run(&format!("ZADD sys:instances:{{:system}} {}000 engine-gone", now - 60)).await;
    // It is heard of with the next pulse.
    until("it is known to be gone", async || {
        !scene.look_for(Invariant::RunHoldWithoutHolder).await.is_empty()
    })
    .await;
    scene.finds_and_mends(&[], Invariant::RunHoldWithoutHolder, "FRESH").await;
    assert_eq!(scene.run("EXISTS cordum:wf:run:lock:FRESH").await, "0");
}

#[tokio::test]
async fn foreign_keys_are_reported_and_left_alone() {
    let scene = Scene::new().await;
    for (command, invariant, subject) in [
        ("SET cordum:wf:run:lock:FRESH mine", Invariant::RunHoldWithoutHolder, "FRESH"),
        (
            "SET wf:run:idempotency:{acme}:deploy:key-9 x",
            Invariant::RowDamaged,
            "wf:run:idempotency:{acme}:deploy:key-9",
        ),
    ] {
        scene.tells_only(command, invariant, subject).await;
    }
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_each_named() {
    for (command, subject) in [
        ("HSET wf:run:{acme}:QUEUED head {}", "wf:run:{acme}:QUEUED"),
        ("HSET wf:run:{acme}:QUEUED version seven", "wf:run:{acme}:QUEUED"),
        ("HDEL wf:run:{acme}:QUEUED status", "wf:run:{acme}:QUEUED"),
        ("HSET wf:run:{acme}:QUEUED start _", "wf:run:{acme}:QUEUED"),
        ("ZADD wf:runs:{acme} 0 ghost", "wf:run:{acme}:ghost"),
        ("HSET wf:job:{acme}:QUEUED:build@1 created_at x", "wf:job:{acme}:QUEUED:build@1"),
        ("HSET wf:job:{acme}:QUEUED:build@1 job []", "wf:job:{acme}:QUEUED:build@1"),
        ("RPUSH wf:inbox:{acme}:FRESH x", "wf:inbox:{acme}:FRESH"),
        ("SET wf:timeline:{acme}:ghost x", ""),
        ("HSET wf:lock:{acme}:LOCK h:call-of-alice x", "wf:lock:{acme}:LOCK"),
        ("SADD wf:run:approvals:{acme}:QUEUED QUEUED:gate@1", "wf:approval:{acme}:QUEUED:gate@1"),
    ] {
        let scene = Scene::new().await;
        if subject.is_empty() {
            scene.run(command).await;
            assert_eq!(scene.look().await, [], "a row that nothing leads to does no harm");
        } else {
            scene.tells_only(command, Invariant::RowDamaged, subject).await;
        }
    }
}

#[tokio::test]
async fn a_list_of_another_kind_is_named_and_stops_no_look() {
    let lists = [
        "wf:tenant",
        "wf:defs",
        "wf:runs",
        "wf:runs:active",
        "wf:ready",
        "wf:timers",
        "wf:jobs",
        "wf:leases",
        "wf:put_off",
        "wf:held",
        "wf:approvals:open",
        "wf:dead_letters:index",
        "wf:locks:sweeps",
        "wf:locks:listed",
        "wf:locks:waiting",
    ];
    for list in lists {
        let scene = Scene::new().await;
        let key = format!("{list}:{{acme}}");
        scene.run(&format!("DEL {key}")).await;
        scene.run(&format!("SET {key} x")).await;
        let found = scene.look().await;
        let damaged =
            |finding: &&Finding| finding.invariant == Invariant::RowDamaged && finding.subject == key;
        assert_eq!(found.iter().filter(damaged).count(), 1, "{list}: {found:?}");
        for finding in &found {
            let _ = scene.repair(finding).await;
        }
        assert_eq!(scene.run(&format!("GET {key}")).await, "x");
    }
}

#[tokio::test]
async fn a_definition_or_a_queue_of_another_kind_is_named_and_stops_no_look() {
    for key in ["wf:def:{acme}:deploy", "wf:def:{acme}:deploy:1", "wf:queue:{acme}:build"] {
        let scene = Scene::new().await;
        scene.run(&format!("DEL {key}")).await;
        scene.run(&format!("SET {key} x")).await;
        let found = scene.look().await;
        let damaged =
            |finding: &&Finding| finding.invariant == Invariant::RowDamaged && finding.subject == key;
        assert_eq!(found.iter().filter(damaged).count(), 1, "{key}: {found:?}");
        assert_eq!(scene.run(&format!("GET {key}")).await, "x");
    }
}

#[tokio::test]
async fn a_name_that_is_no_text_does_not_stop_the_look() {
    let scene = Scene::new().await;
    let script = "return redis.call('SADD', KEYS[1], '\\255')";
    scene.server.command(&["EVAL", script, "1", "wf:runs:active:{acme}"]).await.unwrap();
    scene.run("SADD wf:runs:active:{acme} ghost").await;
    let found = scene.look_for(Invariant::SlotWithoutRun).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|finding| finding.subject == "ghost"));
}

impl Scene {
    /// How often Redis went through its keys so far.
    async fn scans(&self) -> u64 {
        let stats = self.run("INFO commandstats").await;
        let scan = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
        scan.map_or(0, |figures| figures.split(',').next().unwrap().parse().unwrap())
    }

    /// One page of a pass for this invariant.
    async fn unlisted(
        &self,
        tenant: Option<TenantId>,
        invariant: Invariant,
        page: PageRequest,
    ) -> Page<Finding> {
        self.store.call(InspectUnlisted { tenant, invariant, grace: GRACE, page }).await.unwrap()
    }
}

#[tokio::test]
async fn a_check_of_one_tenant_goes_through_no_keys_and_a_page_of_all_through_a_bounded_number() {
    let scene = Scene::new().await;
    let many = "for i = 1, 20000 do redis.call('SET', 'wf:run:idempotency:{t' .. i .. '}:deploy:k', 'x') end";
    scene.server.command(&["EVAL", many, "0"]).await.unwrap();
    for invariant in Invariant::ALL.iter().copied().filter(|known| known.realm() == Realm::Tenant) {
        let mut page = PageRequest { limit: 1_000, after: None };
        loop {
            let inspect = Inspect { tenant: acme(), invariant, grace: GRACE, page: page.clone() };
            page.after = scene.store.call(inspect).await.unwrap().next;
            if page.after.is_none() {
                break;
            }
        }
    }
    assert_eq!(scene.scans().await, 0, "the rows of a tenant are found by its lists");
    let (mut pages, mut after, mut found) = (0, None, 0);
    loop {
        let page = PageRequest { limit: 1_000, after };
        let page = scene.unlisted(None, Invariant::RowDamaged, page).await;
        pages += 1;
        assert_eq!(scene.scans().await, pages, "a page is one step among all keys");
        assert!(page.items.len() <= 2_000, "a page of {}", page.items.len());
        found += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(found >= 20_000, "{found} of 20,000 tenants");
    assert!(pages <= 60, "{pages} pages: one pass for keys, one for queues, and not one for each tenant");
}

#[tokio::test]
async fn queues_that_are_longer_than_a_page_are_checked_to_the_end() {
    let scene = Scene::new().await;
    for queue in ["other", "third"] {
        for number in 0..5 {
            scene
                .run(&format!("ZADD wf:queue:{{acme}}:{queue} 0 000000000000005/{queue}-{number}:a@1"))
                .await;
        }
    }
    let found = scene.look_for(Invariant::QueueEntryWithoutJob).await;
    let mut subjects: Vec<_> = found.into_iter().map(|finding| finding.subject).collect();
    subjects.sort();
    let named = ["other", "third"].map(|queue| (0..5).map(move |number| format!("{queue}-{number}:a@1")));
    assert_eq!(subjects, named.into_iter().flatten().collect::<Vec<_>>());
}
