//! A server with what no request makes in a short time: dead letters.

use std::process::Command;
use std::sync::Arc;

use interlock_backend::Store;
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_servers::Redis;
use serde_json::json;

use crate::dead_letters::{bury, embedded_store};
use crate::machines::Machines;
use crate::server::{BINARY, Caller, Server};

/// The key of the operator.
pub(super) const ADMIN: &str = "the-admin-key-of-a-documented-server";

/// The tenant of requests that name none.
const TENANT: &str = "default";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackendKind {
    Embedded,
    Redis,
}

pub(super) struct Seeded {
    pub(super) server: Server,
    /// What the server uses, which ends after it.
    _machines: Option<Machines>,
    _data: tempfile::TempDir,
}

impl Seeded {
    /// Starts a server with a key and this many dead letters of live runs.
    pub(super) async fn start(backend: BackendKind, dead_letters: usize) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(BINARY);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"])
            .env("INTERLOCK_ADMIN_KEY", ADMIN);
        let machines = match backend {
            BackendKind::Embedded => {
                // A folder has one process at a time, so the runs come from a server before.
                let server = Server::start(data.path());
                let jobs = jobs_of_runs(&server.caller(TENANT), dead_letters).await;
                assert_eq!(server.stop(), Some(0));
                bury_all(&embedded_store(data.path()), &jobs).await;
                command.arg("--data").arg(data.path());
                None
            }
            BackendKind::Redis => {
                let mut machines = Machines::start(1).await;
                let jobs = jobs_of_runs(&machines.callers(TENANT)[0], dead_letters).await;
                // From now on the server has a key.
                machines.replicas.clear();
                bury_all(&redis_store(&machines.redis).await, &jobs).await;
                command.args(["--redis", &machines.redis.url(), "--nats", &machines.nats.url()]);
                Some(machines)
            }
        };
        Self { server: Server::of(command), _machines: machines, _data: data }
    }
}

/// The jobs of runs that do not end by themselves.
async fn jobs_of_runs(caller: &Caller, runs: usize) -> Vec<String> {
    caller.limit(u32::try_from(runs).unwrap()).await;
    caller.workflow("seeded", json!({"pause": {"type": "delay", "delay_sec": 86_400}})).await;
    let mut jobs = Vec::new();
    for _ in 0..runs {
        let run = caller.start("seeded", None, &json!({})).await.expect(200).text("run_id");
        jobs.push(format!("{run}:pause@1"));
    }
    jobs
}

async fn bury_all(store: &Store, jobs: &[String]) {
    for job in jobs {
        bury(store, TENANT, job).await;
    }
}

async fn redis_store(redis: &Redis) -> Store {
    let connection = Connection::open(ConnectSettings::new(redis.url().parse().unwrap())).await.unwrap();
    let store = RedisStore::open(connection, "i-seeding".parse().unwrap()).await.unwrap();
    Store::new(Arc::new(store))
}
