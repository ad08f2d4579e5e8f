//! What limits cost: processor time of starts and refusals under one limit and under three, among few groups and many, and
//! how long a queue takes beside workers without a limit.
//!
//! Processor time adds up over processes and does not depend on what else the machine does, as rates do.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use comfy_table::Table;
use http::{Method, StatusCode};
use interlock_servers::{AppendOnly, Nats, NatsOptions, Redis, RedisOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::server::{Server, WORKFLOW};
use crate::{Arguments, Kind, progress};

/// Starts of one measurement, and the connections that they come over.
const STARTS: u32 = 6_000;
const CONNECTIONS: u32 = 16;
const CONNECTIONS_TO_FILL: u32 = 64;

/// Between the groups of one start and the next: a prime, so that every group has its turn.
const STRIDE: u64 = 7_919;

/// Jobs that pass through a queue, and how long each takes.
const JOBS: usize = 200;
const JOB_TIME: Duration = Duration::from_millis(20);

/// What the design of limits allows.
const THREE_TO_ONE_MAX: f64 = 1.3;
const REFUSALS_MAX: f64 = 1.1;
const FLAT_MAX: f64 = 1.2;
const QUEUE_MAX: f64 = 1.05;

pub(crate) async fn measure(arguments: &Arguments, binary: &Path) -> Result<()> {
    let kinds = arguments.kinds();
    let progress = progress::bar(kinds.len() as u64 * (arguments.rounds as u64 + 3))?;
    let mut broken = Vec::new();
    for kind in kinds {
        let mut costs = Costs::default();
        let installation = Installation::start(kind, binary).await?;
        let kind = kind.name();
        for round in 0..arguments.rounds {
            progress.set_message(format!("{kind}: starts"));
            installation.round(round, &mut costs).await?;
            progress.inc(1);
        }
        progress.set_message(format!("{kind}: through a queue"));
        let queue = installation.queue_ratio(arguments.rounds).await?;
        progress.inc(1);
        // Each on an empty store: a million runs take gigabytes.
        let installation = installation.emptied(binary).await?;
        progress.set_message(format!("{kind}: many groups"));
        installation.many_groups(arguments.groups_many, &mut costs).await?;
        progress.inc(1);
        let installation = installation.emptied(binary).await?;
        progress.set_message(format!("{kind}: many queued runs"));
        installation.many_queued(arguments.queued_many, &mut costs).await?;
        progress.inc(1);
        let targets = costs.targets(queue);
        progress.suspend(|| writeln!(std::io::stdout(), "{}", costs.table(kind, &targets)))?;
        broken.extend(targets.iter().filter(|it| !it.is_met()).map(|it| format!("{kind}: {}", it.name)));
    }
    progress.finish_and_clear();
    if broken.is_empty() { Ok(()) } else { bail!("not met: {}", broken.join("; ")) }
}

/// A server, and what it stands on. Fields are dropped in this order.
struct Installation {
    kind: Kind,
    server: Server,
    redis: Option<Redis>,
    _nats: Option<Nats>,
}

/// Processor time per start in µs, of the server and of Redis together, for each measurement of each kind.
#[derive(Default)]
struct Costs(Vec<(&'static str, Vec<f64>)>);

struct Target {
    name: &'static str,
    value: f64,
    most: f64,
}

impl Target {
    fn is_met(&self) -> bool {
        self.value <= self.most
    }
}

const NO_LIMIT: &str = "start, no named limit";
const ONE_LIMIT: &str = "start, one limit";
const THREE_LIMITS: &str = "start, three limits";
const ONE_REFUSAL: &str = "refusal, one limit";
const THREE_REFUSALS: &str = "refusal, three limits";
const FEW_GROUPS: &str = "start, few groups";
const MANY_GROUPS: &str = "start, many groups";
const FEW_QUEUED: &str = "queued start, none before it";
const MANY_QUEUED: &str = "queued start, many before it";

impl Costs {
    fn add(&mut self, name: &'static str, micros: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(micros),
            None => self.0.push((name, vec![micros])),
        }
    }

    /// The middle of all rounds; not a number if it was not measured.
    fn median(&self, name: &str) -> f64 {
        let Some((_, all)) = self.0.iter().find(|(known, _)| *known == name) else { return f64::NAN };
        let mut all = all.clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    fn targets(&self, queue: f64) -> Vec<Target> {
        let ratio = |over: &str, under: &str| self.median(over) / self.median(under);
        let target = |name, value, most| Target { name, value, most };
        vec![
            target("a start under three limits to one", ratio(THREE_LIMITS, ONE_LIMIT), THREE_TO_ONE_MAX),
            target("a refusal under three limits to one", ratio(THREE_REFUSALS, ONE_REFUSAL), REFUSALS_MAX),
            target("a start among many groups to few", ratio(MANY_GROUPS, FEW_GROUPS), FLAT_MAX),
            target("a queued start behind many to none", ratio(MANY_QUEUED, FEW_QUEUED), FLAT_MAX),
            target("jobs through a queue to two workers without", queue, QUEUE_MAX),
        ]
    }

    fn table(&self, kind: &str, targets: &[Target]) -> String {
        let mut costs = Table::new();
        costs.set_header([kind, "processor time, µs (median)", "of rounds"]);
        for (name, all) in &self.0 {
            costs.add_row([(*name).to_owned(), format!("{:.1}", self.median(name)), all.len().to_string()]);
        }
        let mut ratios = Table::new();
        ratios.set_header(["target", "value", "at most", "met"]);
        for it in targets {
            let met = if it.is_met() { "yes" } else { "no" };
            ratios.add_row([
                it.name.to_owned(),
                format!("{:.2}", it.value),
                it.most.to_string(),
                met.to_owned(),
            ]);
        }
        format!("{costs}\n{ratios}")
    }
}

/// A keyed or unkeyed limit, as a document.
fn limit(key: Option<&str>, runs: u32, on_full: &str) -> Value {
    let mut document = json!({"max_runs": runs, "on_full": on_full});
    if let Some(key) = key {
        document["key"] = json!(key);
    }
    if on_full == "queue" {
        document["queue"] = json!({"max": 1_000_000});
    }
    document
}

impl Installation {
    async fn start(kind: Kind, binary: &Path) -> Result<Self> {
        if kind == Kind::Embedded {
            let server = Server::embedded(binary, &[]).await?;
            return Ok(Self { kind, server, redis: None, _nats: None });
        }
        let redis = Redis::start(RedisOptions {
            append_only: AppendOnly::EverySecond,
            password: None,
            // A rewrite of the file would cost one measurement and not the next.
            arguments: ["--auto-aof-rewrite-percentage", "0"].map(str::to_owned).to_vec(),
        })
        .await?;
        let nats = Nats::start(NatsOptions::default()).await?;
        let urls = (redis.url(), nats.url());
        let server = Server::distributed(binary, (&urls.0, &urls.1), &[]).await?;
        Ok(Self { kind, server, redis: Some(redis), _nats: Some(nats) })
    }

    async fn emptied(self, binary: &Path) -> Result<Self> {
        let kind = self.kind;
        drop(self);
        Self::start(kind, binary).await
    }

    /// A tenant with a workflow, room for everything, and these limits.
    async fn tenant(&self, tenant: &str, limits: &[(&str, Value)]) -> Result<()> {
        let mut connection = self.server.connect().await?.of_tenant(tenant)?;
        crate::server::prepare(&mut connection, tenant, 1_000_000_000).await?;
        for (name, document) in limits {
            connection.call(Method::PUT, &format!("/api/v1/limits/{name}"), document).await?;
        }
        Ok(())
    }

    async fn round(&self, round: usize, costs: &mut Costs) -> Result<()> {
        let wide = || ("wide", limit(None, 1_000_000, "reject"));
        let three = || {
            let by_user = ("by-user", limit(Some("input.user"), 1_000_000, "reject"));
            vec![wide(), by_user, ("by-repo", limit(Some("input.repo"), 1_000_000, "reject"))]
        };
        let mut full = three();
        full[2].1["max_runs"] = json!(0);
        let full_one = vec![("wide", limit(None, 0, "reject"))];
        let mut kinds = [
            (NO_LIMIT, "none", Vec::new(), StatusCode::OK),
            (ONE_LIMIT, "one", vec![wide()], StatusCode::OK),
            (THREE_LIMITS, "three", three(), StatusCode::OK),
            (ONE_REFUSAL, "full-one", full_one, StatusCode::TOO_MANY_REQUESTS),
            (THREE_REFUSALS, "full-three", full, StatusCode::TOO_MANY_REQUESTS),
        ];
        // None is always the first.
        kinds.rotate_left(round % 5);
        for (name, tenant, limits, expected) in kinds {
            let tenant = format!("{tenant}-{round}");
            self.tenant(&tenant, &limits).await?;
            costs.add(name, self.cost(&tenant, STARTS, 50, expected).await?);
        }
        Ok(())
    }

    async fn many_groups(&self, many: u32, costs: &mut Costs) -> Result<()> {
        let limits = [("by-repo", limit(Some("input.repo"), 1_000_000, "reject"))];
        for (name, tenant, groups) in [(FEW_GROUPS, "few-groups", 10), (MANY_GROUPS, "many-groups", many)] {
            self.tenant(tenant, &limits).await?;
            self.fill(tenant, groups.max(STARTS), groups, StatusCode::OK).await?;
            costs.add(name, self.cost(tenant, STARTS, groups, StatusCode::OK).await?);
        }
        Ok(())
    }

    async fn many_queued(&self, many: u32, costs: &mut Costs) -> Result<()> {
        let limits = [("all", limit(None, 0, "queue"))];
        self.tenant("queue", &limits).await?;
        costs.add(FEW_QUEUED, self.cost("queue", STARTS, 1, StatusCode::ACCEPTED).await?);
        // The last one fills the queue.
        self.fill("queue", many.saturating_sub(2 * STARTS), 1, StatusCode::ACCEPTED).await?;
        costs.add(MANY_QUEUED, self.cost("queue", STARTS, 1, StatusCode::ACCEPTED).await?);
        Ok(())
    }

    /// Processor time in µs per start.
    async fn cost(&self, tenant: &str, starts: u32, groups: u32, expected: StatusCode) -> Result<f64> {
        let before = self.processor_time()?;
        self.start_runs(tenant, (CONNECTIONS, starts), groups, expected).await?;
        let took = self.processor_time()?.saturating_sub(before);
        Ok(took.as_secs_f64() * 1e6 / f64::from(starts))
    }

    /// The same over more connections, which is sooner done.
    async fn fill(&self, tenant: &str, starts: u32, groups: u32, expected: StatusCode) -> Result<()> {
        self.start_runs(tenant, (CONNECTIONS_TO_FILL, starts), groups, expected).await
    }

    async fn start_runs(
        &self,
        tenant: &str,
        (connections, starts): (u32, u32),
        groups: u32,
        expected: StatusCode,
    ) -> Result<()> {
        let mut clients = JoinSet::new();
        for client in 0..connections {
            let connection = self.server.connect().await?.of_tenant(tenant)?;
            let numbers = (client..starts).step_by(connections as usize);
            clients.spawn(start_many(connection, numbers, groups, expected));
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }

    fn processor_time(&self) -> Result<Duration> {
        let redis = self.redis.as_ref().map(|redis| processor_time(redis.pid())).transpose()?;
        Ok(processor_time(self.server.pid()?)? + redis.unwrap_or_default())
    }

    /// The time of jobs that pass through a queue under a cap of two, to that of the same jobs on two workers without one.
    async fn queue_ratio(&self, rounds: usize) -> Result<f64> {
        let mut ratios = Vec::new();
        for round in 0..rounds {
            let free = self.through(&format!("free-{round}"), None).await?;
            let queued = self.through(&format!("capped-{round}"), Some(2)).await?;
            ratios.push(queued.as_secs_f64() / free.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().context("there was a round")
    }

    async fn through(&self, tenant: &str, cap: Option<u32>) -> Result<Duration> {
        let limits: Vec<_> = cap.map(|cap| ("cap", limit(None, cap, "queue"))).into_iter().collect();
        self.tenant(tenant, &limits).await?;
        let began = Instant::now();
        let mut starting = self.server.connect().await?.of_tenant(tenant)?;
        let path = format!("/api/v1/workflows/{WORKFLOW}/runs");
        for _ in 0..JOBS {
            starting.send(Method::POST, &path, Bytes::from_static(b"{}")).await?;
        }
        let mut workers = JoinSet::new();
        for number in 0..2 {
            let connection = self.server.connect().await?.of_tenant(tenant)?;
            workers.spawn(work(connection, number));
        }
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        Ok(began.elapsed())
    }
}

/// Does half of the jobs, one at a time.
async fn work(mut connection: Connection, number: usize) -> Result<()> {
    let path = format!("/api/v1/workers/bench-{number}/claim");
    let claim = json!({"topics": ["bench"], "max_jobs": 1, "wait_ms": 5_000});
    let mut done = 0;
    while done < JOBS / 2 {
        let answer = connection.call(Method::POST, &path, &claim).await?;
        for job in answer["jobs"].as_array().unwrap_or(&Vec::new()) {
            tokio::time::sleep(JOB_TIME).await;
            let id = job["job_id"].as_str().context("a job has an id")?;
            let result = json!({"fence": job["fence"], "output": {}});
            connection.call(Method::POST, &format!("/api/v1/jobs/{id}/complete"), &result).await?;
            done += 1;
        }
    }
    Ok(())
}

/// This client's share of the starts, over all of the groups.
async fn start_many(
    mut connection: Connection,
    numbers: impl Iterator<Item = u32>,
    groups: u32,
    expected: StatusCode,
) -> Result<()> {
    let path = format!("/api/v1/workflows/{WORKFLOW}/runs");
    let mut input = String::new();
    for number in numbers {
        let group = u64::from(number) * STRIDE % u64::from(groups.max(1));
        input.clear();
        write!(input, r#"{{"repo":"r{group}","user":"u{}"}}"#, group % 7)?;
        let body = Bytes::copy_from_slice(input.as_bytes());
        let (status, body) = connection.send(Method::POST, &path, body).await?;
        if status != expected {
            bail!("expected {expected}, got {status}: {}", String::from_utf8_lossy(&body));
        }
    }
    Ok(())
}

/// Of all threads of a process so far, in user and system mode.
fn processor_time(pid: u32) -> Result<Duration> {
    /// Of the kernel, on every machine that Linux runs on today.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')').context("the process has a name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}
