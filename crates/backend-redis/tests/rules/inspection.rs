//! What is wrong among the keys is found, named and mended, by whatever way it came there.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::inspection::{Inspection, Repair};
use interlock_backend::{PageRequest, Store};
use interlock_model::doctor::{Finding, Invariant, Mending, Realm};
use interlock_model::{JobId, RunId};
use interlock_servers::Redis;

use super::asking::{DOOR, ask, door, granted, waiting};
use super::{acme, claim, open, request, server, started};

const GRACE: Duration = Duration::from_secs(5);

/// One of each: a run whose job waits, one whose job a worker has, one that has not begun, and a lock with a line.
struct Scene {
    server: Redis,
    store: Arc<dyn Store>,
    queued: RunId,
    leased: RunId,
    fresh: RunId,
}

impl Scene {
    async fn new() -> Self {
        let server = server().await;
        let store = open(&server.url()).await;
        let leased = started(&*store, 1, true).await;
        assert_eq!(claim(&*store, "worker-1").await[0].job.id.run, leased);
        let queued = started(&*store, 2, true).await;
        let fresh = started(&*store, 3, false).await;
        granted(&*store, &ask(&door(), "alice")).await;
        let _ = store.acquire(&waiting(&door(), "bob")).await.unwrap();
        Self { server, store, queued, leased, fresh }
    }

    fn job(run: RunId) -> JobId {
        format!("{run}:build@1").parse().unwrap()
    }

    async fn all_findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for invariant in Invariant::ALL.iter().filter(|known| known.realm() == Realm::Tenant) {
            findings.extend(self.findings(*invariant).await);
        }
        findings
    }

    /// Two rows a page, so that every cursor is used.
    async fn findings(&self, invariant: Invariant) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut after = None;
        for _ in 0..1_000 {
            let page = PageRequest { limit: 2, after };
            let inspection = Inspection { tenant: acme(), invariant, grace: GRACE, page };
            let page = self.store.inspect(&inspection).await.unwrap();
            findings.extend(page.items);
            after = page.next;
            if after.is_none() {
                return findings;
            }
        }
        panic!("{invariant} is looked for without end");
    }
}

#[tokio::test]
async fn a_healthy_store_has_no_findings() {
    let scene = Scene::new().await;
    assert_eq!(scene.all_findings().await, []);
}
