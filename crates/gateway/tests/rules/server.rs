//! A gateway with its stages, on a free port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::{InProcessBus, Store, memory};
use interlock_control::identity::Identity;
use interlock_control::keys::KeyRing;
use interlock_control::service::{self, Roles};
use interlock_control::{Control, settings};
use interlock_gateway::{BindError, Deployment, Foundation, Gateway, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, Ask, PATIENCE};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    /// For what nothing over the wire brings about.
    pub(crate) store: Arc<dyn Store>,
    stages: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.stages.cancel();
    }
}

/// A workflow of one step, whose jobs wait in `build`.
pub(crate) fn one_step(id: &str) -> Value {
    json!({"id": id, "name": id, "steps": {"build": {"type": "worker", "topic": "build", "input": {"n": "${input.n}"}}}})
}

/// Nobody looks by themselves in time: whoever waits must be woken.
pub(crate) fn patient() -> settings::Settings {
    settings::Settings {
        claim_poll: PATIENCE * 3,
        lock_poll: PATIENCE * 3,
        lock_silence: PATIENCE * 9,
        ..settings::Settings::default()
    }
}

pub(crate) fn empty_store() -> Arc<dyn Store> {
    Arc::new(memory::store(Arc::new(SystemClock)))
}

pub(crate) async fn foundation(bootstrap: Option<&str>) -> Foundation {
    foundation_on(empty_store(), patient(), bootstrap).await
}

async fn foundation_on(
    store: Arc<dyn Store>,
    settings: settings::Settings,
    bootstrap: Option<&str>,
) -> Foundation {
    let clock = Arc::new(SystemClock);
    let parts = service::Foundation {
        store,
        bus: Arc::new(InProcessBus::default()),
        clock: clock.clone(),
        identity: Identity::unpredictable(),
        instance: "i-1".parse().expect("a name"),
        mailbox: None,
        probes: Vec::new(),
    };
    let control = Control::new(parts, settings);
    let keys = KeyRing::load(&control, bootstrap).await.unwrap();
    let deployment = Deployment {
        roles: vec!["gateway".to_owned()],
        backend: "memory".to_owned(),
        durability: "none".to_owned(),
        bus: "in process".to_owned(),
        prefix: "cordum".to_owned(),
    };
    Foundation { control, keys, clock, deployment }
}

pub(crate) fn local() -> Settings {
    Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        shutdown_grace: Duration::from_secs(5),
        stream_poll: PATIENCE * 3,
        ..Settings::default()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(local(), None).await.unwrap()
    }

    pub(crate) async fn with_key(key: &str) -> Self {
        Self::with(local(), Some(key)).await.unwrap()
    }

    pub(crate) async fn with(settings: Settings, bootstrap: Option<&str>) -> Result<Self, BindError> {
        Self::bound(settings, foundation(bootstrap).await)
    }

    /// On this store, with stages that behave like this.
    pub(crate) async fn on(store: Arc<dyn Store>, stages: settings::Settings) -> Self {
        Self::bound(local(), foundation_on(store, stages, None).await).unwrap()
    }

    /// Only the gateway: whatever waits for a stage waits.
    pub(crate) async fn without_stages() -> Self {
        let server = Self::bound_with(local(), foundation(None).await, false);
        server.unwrap()
    }

    fn bound(settings: Settings, foundation: Foundation) -> Result<Self, BindError> {
        Self::bound_with(settings, foundation, true)
    }

    fn bound_with(settings: Settings, foundation: Foundation, runs_stages: bool) -> Result<Self, BindError> {
        let (shutdown, stages) = (CancellationToken::new(), CancellationToken::new());
        let control = foundation.control.clone();
        let store = control.store().clone();
        let gateway = Gateway::bind(settings, foundation)?;
        if runs_stages {
            let roles = Roles { engine: true, scheduler: true };
            tokio::spawn(service::run_stages(control, roles, stages.clone()));
        }
        let address = gateway.local_address();
        let serving = tokio::spawn(gateway.serve(shutdown.clone()));
        Ok(Self { address, shutdown, serving, store, stages })
    }

    pub(crate) fn ask(&self, method: &'static str, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask("POST", path)
    }

    pub(crate) fn put(&self, path: &str) -> Ask {
        self.ask("PUT", path)
    }

    pub(crate) fn delete(&self, path: &str) -> Ask {
        self.ask("DELETE", path)
    }

    /// Saves a document, which must be good.
    pub(crate) async fn save(&self, document: &Value) {
        self.post("/api/v1/workflows").json(document).send().await.ok(201);
    }

    pub(crate) async fn cap(&self, tenant: &str, runs: u64) {
        let data = json!({"limits": {"max_concurrent_runs": runs}});
        let body = json!({"scope": "org", "scope_id": tenant, "data": data});
        self.put("/api/v1/config").json(&body).send().await.ok(204);
    }

    /// Starts a run, which must be admitted.
    pub(crate) async fn run(&self, workflow: &str, input: &Value) -> String {
        let answer = self.post(&format!("/api/v1/workflows/{workflow}/runs")).json(input).send().await;
        answer.ok(200)["run_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn view(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(200)
    }

    /// Claims one job of `build`, waiting for it.
    pub(crate) async fn claim_one(&self, worker: &str) -> Value {
        let body = json!({"topics": ["build"], "max_jobs": 1, "wait_ms": 15_000});
        let claimed = self.post(&format!("/api/v1/workers/{worker}/claim")).json(&body).send().await.ok(200);
        claimed["jobs"][0].clone()
    }

    pub(crate) async fn report(&self, job: &Value, verb: &str, body: Value) -> Answer {
        let (id, mut body) = (job["job_id"].as_str().unwrap(), body);
        body["fence"] = job["fence"].clone();
        self.post(&format!("/api/v1/jobs/{id}/{verb}")).json(&body).send().await
    }

    /// Follows the run's events to their end, and gives the run then.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        let ask = self.get(&format!("/api/v1/workflow-runs/{run}/events"));
        let stream = tokio::time::timeout(PATIENCE, ask.send()).await.expect("the run's end");
        assert_eq!(stream.status, 200);
        self.view(run).await
    }
}
