//! One gateway in all its roles, on a Redis and a NATS of its own.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use interlock_servers::{AppendOnly, Nats, NatsOptions, Redis, RedisOptions};
use serde_json::Value;

use crate::server::{Server, prepare};
use crate::starts::{INPUT, Question};

/// Dropping it stops all three processes.
pub(crate) struct Machines {
    // Before what it stands on: fields are dropped in this order.
    gateway: Server,
    redis: Redis,
    _nats: Nats,
}

impl Machines {
    pub(crate) async fn start(binary: &Path) -> Result<Self> {
        let redis = Redis::start(RedisOptions {
            append_only: AppendOnly::EverySecond,
            password: None,
            // A rewrite of the file takes a processor for a while, at an arbitrary moment: in one round and not
            // in the next.
            arguments: ["--auto-aof-rewrite-percentage", "0"].map(str::to_owned).to_vec(),
        })
        .await?;
        let nats = Nats::start(NatsOptions::default()).await?;
        let gateway = Server::distributed(binary, (&redis.url(), &nats.url()), &[]).await?;
        Ok(Self { gateway, redis, _nats: nats })
    }

    pub(crate) fn redis_port(&self) -> u16 {
        self.redis.port()
    }

    /// Gives the tenant the workflow and this many slots.
    pub(crate) async fn prepare(&self, tenant: &'static str, runs_max: u32) -> Result<()> {
        let mut connection = self.gateway.connect().await?.of_tenant(tenant)?;
        prepare(&mut connection, tenant, runs_max).await
    }

    /// Starts of this tenant, all admitted.
    pub(crate) fn question(&self, tenant: &'static str) -> Question {
        Question { tenant: Some(tenant), ..Question::start(&self.gateway.address) }
    }

    /// The id of a run that was just started.
    pub(crate) async fn start_run(&self, tenant: &'static str, key: Option<&'static str>) -> Result<String> {
        let mut connection = self.gateway.connect().await?.of_tenant(tenant)?;
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert("idempotency-key", HeaderValue::from_static(key));
        }
        let path = self.question(tenant).path;
        let input = Bytes::from_static(INPUT.as_bytes());
        let (status, _, body) = connection.send_with(Method::POST, &path, headers, input).await?;
        if status != StatusCode::OK {
            bail!("a start answered {status}: {}", String::from_utf8_lossy(&body));
        }
        let answer: Value = serde_json::from_slice(&body)?;
        let run = answer["run_id"].as_str();
        Ok(run.with_context(|| format!("the answer to a start names no run: {answer}"))?.to_owned())
    }

    pub(crate) async fn command(&self, words: &[&str]) -> Result<String> {
        self.redis.command(words).await
    }

    /// The answer to a command that counts.
    pub(crate) async fn count(&self, words: &[&str]) -> Result<u64> {
        let answer = self.command(words).await?;
        answer.parse().with_context(|| format!("Redis answered {words:?} with {answer}, which is no number"))
    }

    pub(crate) async fn runs_active(&self, tenant: &str) -> Result<u64> {
        self.count(&["SCARD", &active_runs(tenant)]).await
    }

    /// As Redis tells it to people, such as `1.21G`.
    pub(crate) async fn memory_used(&self) -> Result<String> {
        let info = self.command(&["INFO", "memory"]).await?;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory_human:"));
        Ok(used.with_context(|| format!("Redis does not report its memory: {info}"))?.trim().to_owned())
    }

    /// Returns when all that was written is on the disk: the next measurement should not pay for it.
    pub(crate) async fn settle(&self) -> Result<()> {
        let folder = self.redis.folder().join("appendonlydir");
        tokio::task::spawn_blocking(move || sync_files(&folder)).await?
    }
}

/// The key of the set of runs that hold a slot.
pub(crate) fn active_runs(tenant: &str) -> String {
    format!("wf:runs:active:{{{tenant}}}")
}

fn sync_files(folder: &Path) -> Result<()> {
    let context = || format!("cannot sync the files in {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        File::open(entry?.path()).and_then(|file| file.sync_all()).with_context(context)?;
    }
    Ok(())
}
