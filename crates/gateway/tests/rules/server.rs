//! A gateway with its stages, on a free port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::{Backend, InProcessBus, Store, memory};
use interlock_control::api_keys::ApiKeys;
use interlock_control::identity::Identity;
use interlock_control::service::{self, Roles};
use interlock_control::{Control, settings};
use interlock_gateway::{BindError, Deployment, Foundation, Gateway, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use interlock_poll::LIMIT;

use crate::client::{Answer, Request};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    /// For states that no request brings about.
    pub(crate) store: Store,
    pub(crate) control: Arc<Control>,
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

/// Polls are so rare that a waiting request must be woken.
pub(crate) fn patient() -> settings::Settings {
    settings::Settings {
        claim_poll: LIMIT * 3,
        lock_poll: LIMIT * 3,
        lock_silence: LIMIT * 9,
        ..settings::Settings::default()
    }
}

pub(crate) fn empty_store() -> Arc<dyn Backend> {
    Arc::new(memory::store(Arc::new(SystemClock)))
}

pub(crate) async fn foundation_on(
    store: Store,
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
    let keys = ApiKeys::load(control.process.clone(), bootstrap, None).await.unwrap();
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
        stream_poll: LIMIT * 3,
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
        let store = Store::new(empty_store());
        let foundation = foundation_on(store.clone(), patient(), bootstrap).await;
        Self::bound_with(settings, store, foundation, true)
    }

    /// Starts on this store, with these settings of the stages.
    pub(crate) async fn on(backend: Arc<dyn Backend>, stages: settings::Settings) -> Self {
        let store = Store::new(backend);
        let foundation = foundation_on(store.clone(), stages, None).await;
        Self::bound_with(local(), store, foundation, true).unwrap()
    }

    /// Starts the gateway without stages.
    pub(crate) async fn without_stages() -> Self {
        let store = Store::new(empty_store());
        let foundation = foundation_on(store.clone(), patient(), None).await;
        Self::bound_with(local(), store, foundation, false).unwrap()
    }

    fn bound_with(
        settings: Settings,
        store: Store,
        foundation: Foundation,
        runs_stages: bool,
    ) -> Result<Self, BindError> {
        let (shutdown, stages) = (CancellationToken::new(), CancellationToken::new());
        let control = foundation.control.clone();
        let gateway = Gateway::bind(settings, foundation)?;
        if runs_stages {
            let roles = Roles { engine: true, scheduler: true };
            tokio::spawn(service::run_stages(control.clone(), roles, stages.clone()));
        }
        let address = gateway.local_address();
        let serving = tokio::spawn(gateway.serve(shutdown.clone()));
        Ok(Self { address, shutdown, serving, store, control, stages })
    }

    pub(crate) fn request(&self, method: &'static str, path: &str) -> Request {
        Request::new(self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    pub(crate) fn put(&self, path: &str) -> Request {
        self.request("PUT", path)
    }

    pub(crate) fn delete(&self, path: &str) -> Request {
        self.request("DELETE", path)
    }

    /// Saves a document. Asserts that it is accepted.
    pub(crate) async fn save(&self, document: &Value) {
        self.post("/api/v1/workflows").json(document).send().await.ok(201);
    }

    pub(crate) async fn cap(&self, tenant: &str, runs: u64) {
        let data = json!({"limits": {"max_concurrent_runs": runs}});
        let body = json!({"scope": "org", "scope_id": tenant, "data": data});
        self.put("/api/v1/config").json(&body).send().await.ok(204);
    }

    /// Starts a run. Asserts that it is admitted.
    pub(crate) async fn run(&self, workflow: &str, input: &Value) -> String {
        let answer = self.post(&format!("/api/v1/workflows/{workflow}/runs")).json(input).send().await;
        answer.ok(200)["run_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn view(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(200)
    }

    /// Claims one job of `build` and waits until there is one.
    pub(crate) async fn claim_one(&self, worker: &str) -> Value {
        let body = json!({"topics": ["build"], "max_jobs": 1, "wait_ms": 60_000});
        let claimed = self.post(&format!("/api/v1/workers/{worker}/claim")).json(&body).send().await.ok(200);
        claimed["jobs"][0].clone()
    }

    pub(crate) async fn report(&self, job: &Value, verb: &str, body: Value) -> Answer {
        let (id, mut body) = (job["job_id"].as_str().unwrap(), body);
        body["fence"] = job["fence"].clone();
        self.post(&format!("/api/v1/jobs/{id}/{verb}")).json(&body).send().await
    }

    /// Follows the run's events to their end and returns the ended run.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        let ask = self.get(&format!("/api/v1/workflow-runs/{run}/events"));
        let stream = tokio::time::timeout(LIMIT, ask.send()).await.expect("the run's end");
        assert_eq!(stream.status, 200);
        self.view(run).await
    }
}
