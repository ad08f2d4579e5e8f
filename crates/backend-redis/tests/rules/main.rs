//! What only Redis can get wrong: names that others read, replies that are lost, stores that come back empty.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission_locks;
mod asking;
mod batches;
mod broken_starts;
mod cutting;
mod damage;
mod deliveries;
mod fences;
mod holds;
mod inspection;
mod job_locks;
mod large_documents;
mod limit_replies;
mod lock_damage;
mod lock_quotas;
mod lock_replies;
mod lost_replies;
mod mending;
mod names;
mod old_queues;
mod probes;
mod run_locks;
mod stage_locks;
mod suspects;
mod user_locks;

use interlock_backend::verbs::{Admit, ReadWorkflow, SaveWorkflow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::jobs::{Claim, Claimed, LeaseTerm};
use interlock_backend::runs::{AcquiredRun, Commit};
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_model::admission::{FirstTurn, IdempotentIntent, RunRequest, StartOutcome, StartPlan};
use interlock_model::child::ChildEffects;
use interlock_model::event::WaitEffects;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::limit::place::StartPriority;
use interlock_model::run::StartedFrom;
use interlock_model::scheduling::Edge;
use interlock_model::workflow::{Workflow, WorkflowDocument};
use interlock_model::{Clock, InstanceId, RunId, TenantId, Timestamp, WorkflowId};
use interlock_servers::{AppendOnly, Redis, RedisOptions};
use serde_json::json;

const LEASE: Duration = Duration::from_mins(1);

async fn server() -> Redis {
    let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
    Redis::start(options).await.unwrap()
}

async fn connect(url: &str) -> Connection {
    Connection::open(ConnectSettings::new(url.parse().unwrap())).await.unwrap()
}

/// A store on the server's own clock, as in production.
async fn open(url: &str) -> Store {
    Store::new(Arc::new(RedisStore::open(connect(url).await, name("instance-1")).await.unwrap()))
}

/// One that waits for no answer longer than a moment.
async fn open_impatient(url: &str) -> Store {
    let settings = ConnectSettings::new(url.parse().unwrap());
    let settings = ConnectSettings { response_timeout: Duration::from_millis(150), ..settings };
    let connection = Connection::open(settings).await.unwrap();
    Store::new(Arc::new(RedisStore::open(connection, name("instance-1")).await.unwrap()))
}

async fn open_on(url: &str, instance: &str, clock: Arc<dyn Clock>) -> Store {
    let instance: InstanceId = name(instance);
    Store::new(Arc::new(RedisStore::on_clock(connect(url).await, instance, clock).await.unwrap()))
}

fn name<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn acme() -> TenantId {
    name("acme")
}

fn deploy() -> WorkflowId {
    name("deploy")
}

fn document(title: &str) -> WorkflowDocument {
    let document = json!({"name": title, "steps": {"build": {"type": "worker", "topic": "build"}}});
    serde_json::from_value(document).unwrap()
}

/// A start with the key `key-<number>`. Its job waits from the start, unless the first turn is left to the engine.
fn request(number: u64, is_begun: bool) -> Admit {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    let now = Timestamp::from_millis(1_794_700_800_000 + number);
    let input = json!({"n": number});
    let request = RunRequest {
        run: RunId::new(now, random),
        tenant: acme(),
        workflow: deploy(),
        intent: Some(IdempotentIntent {
            key: name(&format!("key-{number}")),
            fingerprint: Fingerprint::of_start(&deploy(), &input),
        }),
        input,
        origin: StartedFrom::Request,
        labels: BTreeMap::new(),
        priority: StartPriority::default(),
        trace: None,
    };
    let mut plan = StartPlan::unlimited(1);
    let workflow = Workflow::compile(deploy(), 1, &document("deploy")).unwrap();
    if is_begun {
        plan.first_turn = FirstTurn::of(&workflow, &request, &plan, now, 0).unwrap();
    }
    let (request, plan) = (Arc::new(request), Some(Arc::new(plan)));
    Admit { request, plan, admission_fence: None, is_repeat: false }
}

/// The same start of another tenant.
fn in_tenant(tenant: &TenantId, mut start: Admit) -> Admit {
    Arc::make_mut(&mut start.request).tenant = tenant.clone();
    start
}

/// Saves the workflow and starts a run of it.
async fn started(store: &Store, number: u64, is_begun: bool) -> RunId {
    if store.call(ReadWorkflow { tenant: acme(), id: deploy() }).await.unwrap().is_none() {
        store
            .call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("deploy") })
            .await
            .unwrap();
    }
    let admission = store.call(request(number, is_begun)).await.unwrap();
    let StartOutcome::Admitted { run, .. } = admission else {
        panic!("expected an admission, got {admission:?}")
    };
    run
}

/// A turn that changes nothing.
fn idle(taken: &AcquiredRun) -> Commit {
    Commit {
        tenant: taken.start.tenant.clone(),
        run: taken.start.run,
        fence: taken.fence,
        version: taken.head.version,
        head: taken.head.clone(),
        steps: Vec::new(),
        inbox_end: taken.inbox_end,
        events: Vec::new(),
        dispatched: Vec::new(),
        held: Vec::new(),
        revoked: Vec::new(),
        approvals_opened: Vec::new(),
        approvals_withdrawn: Vec::new(),
        buried: Vec::new(),
        children: ChildEffects::default(),
        waits: WaitEffects::default(),
        dead_letters_max: 1_000,
        continues: false,
    }
}

async fn claim(store: &Store, worker: &str) -> Vec<Claimed> {
    let claim = Claim {
        tenant: acme(),
        worker: name(worker),
        topics: vec![name("build")],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(LEASE),
        edge: Edge::Nats,
    };
    store.call(claim).await.unwrap()
}
