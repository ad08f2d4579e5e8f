//! One database of a PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::postgres::{Postgres, USER};

const SCRIPT_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub struct PostgresDatabase {
    url: String,
    programs: PathBuf,
}

impl PostgresDatabase {
    /// Creates an empty database on a server that all tests of this process share.
    pub async fn create() -> Result<Self> {
        static SERVER: OnceCell<Postgres> = OnceCell::const_new();
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let server = SERVER.get_or_try_init(Postgres::start).await?;
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let first = server.database();
        first.script(&format!("CREATE DATABASE {name}")).await?;
        Ok(Self::new(server.port(), &name, &first.programs))
    }

    pub(crate) fn new(port: u16, name: &str, programs: &Path) -> Self {
        let url = format!("postgresql://{USER}@127.0.0.1:{port}/{name}");
        Self { url, programs: programs.to_owned() }
    }

    /// `postgresql://postgres@127.0.0.1:PORT/NAME`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of `psql`. The `psql` on the `PATH` is Debian's wrapper, which looks for a cluster first.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Runs a script and returns one line per row, with `|` between columns. The first error ends the script and is
    /// returned.
    pub async fn script(&self, script: &str) -> Result<String> {
        let mut client = tokio::process::Command::new(self.programs.join("psql"));
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        client.arg(&self.url).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.kill_on_drop(true).spawn().context("cannot run psql")?;
        let mut input = client.stdin.take().context("psql has no input")?;
        // At the same time: a long script and a long answer would wait for each other.
        let write = async {
            let written = input.write_all(script.as_bytes()).await;
            drop(input);
            written
        };
        let answer = timeout(SCRIPT_MAX, async { tokio::join!(write, client.wait_with_output()) }).await;
        let (_ended_early, answer) =
            answer.with_context(|| format!("no answer in {SCRIPT_MAX:?}: {script}"))?;
        let answer = answer?;
        let error = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "PostgreSQL answered {script}: {}", error.trim());
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }
}
