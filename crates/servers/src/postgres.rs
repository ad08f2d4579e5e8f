//! One Postgres server: a cluster of its own, which shares nothing with the machine's.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::programs;
use crate::server::{Kind, Server, Started};

const SCRIPT_MAX: Duration = Duration::from_secs(15);
/// Whom Debian's package makes. Postgres refuses to run as root.
const USER: &str = "postgres";
const DATA: &str = "data";

/// Dropping it stops the server and removes its data.
#[must_use = "dropping it stops the server"]
pub struct Postgres {
    server: Server<Cluster>,
}

impl Postgres {
    pub async fn start() -> Result<Self> {
        Ok(Self { server: Server::start(Cluster::here()?).await? })
    }

    /// `postgresql://postgres@127.0.0.1:PORT/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Where its data and its `log` are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// Where its `psql` is: the one on the `PATH` is Debian's wrapper, which looks for a cluster first.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.server.kind().programs
    }

    /// What a script answers: a line a row, columns parted by `|`. The first error ends it and is an error here.
    pub async fn script(&self, script: &str) -> Result<String> {
        let mut client = tokio::process::Command::new(self.programs().join("psql"));
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        client.arg(self.url()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.kill_on_drop(true).spawn().context("cannot run psql")?;
        let mut input = client.stdin.take().context("psql has no input")?;
        // Not in turn: a long script and a long answer would wait for each other.
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

/// Which programs run it, and as whom.
pub(crate) struct Cluster {
    programs: PathBuf,
    is_root: bool,
}

impl Cluster {
    pub(crate) fn here() -> Result<Self> {
        let user = fs::metadata("/proc/self").context("cannot tell who runs the tests")?.uid();
        Ok(Self { programs: programs::newest_postgres()?, is_root: user == 0 })
    }

    /// A program of Postgres, run as a user whom it accepts.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(become_the_user()).arg(program);
        command
    }

    fn make(&self, folder: &Path) -> Result<()> {
        if self.is_root {
            let owned = Command::new("chown").arg(format!("{USER}:{USER}")).arg(folder).output();
            let owned = owned.context("cannot run chown")?;
            ensure!(owned.status.success(), "{}", String::from_utf8_lossy(&owned.stderr).trim());
        }
        let mut command = self.command("initdb");
        command.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", USER]);
        let made = command.arg("--pgdata").arg(folder.join(DATA)).current_dir(folder).output();
        let made = made.context("cannot run initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr).trim());
        Ok(())
    }
}

impl Kind for Cluster {
    /// An immediate shutdown. Killed, it would leave shared memory behind that nobody removes.
    const LAST_SIGNAL: &str = "QUIT";

    fn program(&self) -> Result<PathBuf> {
        if self.is_root { programs::installed("setpriv") } else { Ok(self.programs.join("postgres")) }
    }

    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>> {
        let data = folder.join(DATA);
        if !data.exists() {
            self.make(folder)?;
        }
        let mut arguments = Vec::new();
        if self.is_root {
            arguments.extend(become_the_user().map(str::to_owned));
            arguments.push(self.programs.join("postgres").display().to_string());
        }
        arguments.extend(["-D".to_owned(), data.display().to_string()]);
        for setting in
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "dynamic_shared_memory_type=mmap"]
        {
            arguments.extend(["-c".to_owned(), setting.to_owned()]);
        }
        arguments.extend(["-p".to_owned(), port.to_string()]);
        Ok(arguments)
    }

    /// It keeps a file that says who it is (first line) and whether it is ready (last line).
    async fn answers(&self, started: Started<'_>) -> Result<()> {
        let told = fs::read_to_string(started.folder.join(DATA).join("postmaster.pid"))?;
        let is_it = told.lines().next() == Some(&started.pid.to_string());
        let is_ready = told.lines().last().is_some_and(|line| line.trim_end() == "ready");
        ensure!(is_it && is_ready, "not yet: {told}");
        Ok(())
    }
}

/// `setpriv` becomes the program itself, so that the process is the one that was started.
fn become_the_user() -> [&'static str; 5] {
    ["--reuid", USER, "--regid", USER, "--init-groups"]
}
