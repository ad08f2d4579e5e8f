//! The processes under measurement, each on a free port and in a folder of its own, stopped with their guard.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use http::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::connection::Connection;

pub(crate) const WORKFLOW: &str = "bench";

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    _data: Option<TempDir>,
}

impl Server {
    /// The binary, embedded, with a one-step workflow and `runs_max` slots.
    pub(crate) async fn interlock(binary: &Path, runs_max: u32) -> Result<Self> {
        let server = Self::embedded(binary, &[]).await?;
        prepare(&mut server.connect().await?, "default", runs_max).await?;
        Ok(server)
    }

    /// The binary, embedded, with these arguments.
    pub(crate) async fn embedded(binary: &Path, arguments: &[&str]) -> Result<Self> {
        let data = TempDir::new()?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).args(arguments);
        command.stderr(Stdio::null());
        Self::start(command, Some(data)).await
    }

    /// The binary on these servers, in all its roles. Its warnings are shown: the server cannot be inspected afterwards.
    pub(crate) async fn distributed(
        binary: &Path,
        (redis, nats): (&str, &str),
        arguments: &[&str],
    ) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--redis", redis, "--nats", nats]);
        command.args(["--log-level", "warn"]).args(arguments);
        Self::start(command, None).await
    }

    pub(crate) async fn empty() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--empty-server").stderr(Stdio::null());
        Self::start(command, None).await
    }

    async fn start(mut command: Command, data: Option<TempDir>) -> Result<Self> {
        command.stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let output = child.stdout.take().context("the output is piped")?;
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, rest)) = line.split_once("http://") {
                let address = rest.split_whitespace().next().unwrap_or(rest).to_owned();
                return Ok(Self { child, address, _data: data });
            }
        }
        bail!("{command:?} ended before it was ready")
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address).await
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the server runs")
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(&self) -> Result<u64> {
        self.memory_kib("VmRSS:")
    }

    /// The most resident memory that it has had, in KiB.
    pub(crate) fn peak_kib(&self) -> Result<u64> {
        self.memory_kib("VmHWM:")
    }

    fn memory_kib(&self, figure: &str) -> Result<u64> {
        let pid = self.pid()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let found = status.lines().find_map(|line| line.strip_prefix(figure));
        let value = found.with_context(|| format!("the process has no {figure} It has ended"))?;
        Ok(value.trim().trim_end_matches("kB").trim().parse()?)
    }
}

/// Gives the connection's tenant a one-step workflow and `runs_max` slots.
pub(crate) async fn prepare(connection: &mut Connection, tenant: &str, runs_max: u32) -> Result<()> {
    let limits = json!({"limits": {"max_concurrent_runs": runs_max}});
    let limits = json!({"scope": "org", "scope_id": tenant, "data": limits});
    connection.call(Method::PUT, "/api/v1/config", &limits).await?;
    let steps = json!({"work": {"type": "worker", "topic": "bench"}});
    let workflow = json!({"id": WORKFLOW, "name": "bench", "steps": steps});
    connection.call(Method::POST, "/api/v1/workflows", &workflow).await?;
    Ok(())
}

/// The binary beside this program, unless another is named.
pub(crate) fn binary(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("interlock"),
    };
    if !path.exists() {
        bail!("there is no binary at {}; build it first", path.display());
    }
    Ok(path)
}
