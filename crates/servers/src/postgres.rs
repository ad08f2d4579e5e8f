//! One PostgreSQL server with its own cluster, separate from the machine's.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::database::PostgresDatabase;
use crate::programs;
use crate::server::{Kind, Server, Started};

/// The user of Debian's package. PostgreSQL refuses to run as root.
pub(crate) const USER: &str = "postgres";
const DATA: &str = "data";

/// Dropping it stops the server and removes its data.
#[must_use = "dropping it stops the server"]
pub struct Postgres {
    server: Server<PostgresCluster>,
}

impl Postgres {
    pub async fn start() -> Result<Self> {
        Ok(Self { server: Server::start(PostgresCluster::here()?).await? })
    }

    /// The database that every server has.
    pub fn database(&self) -> PostgresDatabase {
        PostgresDatabase::new(self.port(), "postgres", &self.server.kind().programs)
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Holds its data and its `log`.
    pub fn folder(&self) -> &Path {
        self.server.folder()
    }
}

/// The folder of the programs, and whether they must run as another user.
pub(crate) struct PostgresCluster {
    programs: PathBuf,
    is_root: bool,
}

impl PostgresCluster {
    pub(crate) fn here() -> Result<Self> {
        let user = fs::metadata("/proc/self").context("cannot find out which user runs the tests")?.uid();
        Ok(Self { programs: programs::newest_postgres()?, is_root: user == 0 })
    }

    /// A program of PostgreSQL, run as a user that it accepts.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(user_arguments()).arg(program);
        command
    }

    fn create(&self, folder: &Path) -> Result<()> {
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

impl Kind for PostgresCluster {
    /// An immediate shutdown. A killed server would leave shared memory behind.
    const LAST_SIGNAL: &str = "QUIT";

    fn program(&self) -> Result<PathBuf> {
        if self.is_root { programs::installed("setpriv") } else { Ok(self.programs.join("postgres")) }
    }

    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>> {
        let data = folder.join(DATA);
        if !data.exists() {
            self.create(folder)?;
        }
        let mut arguments = Vec::new();
        if self.is_root {
            arguments.extend(user_arguments().map(str::to_owned));
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

    /// Its file `postmaster.pid` has the process id in the first line and the state in the last.
    async fn answers(&self, started: Started<'_>) -> Result<()> {
        let state = fs::read_to_string(started.folder.join(DATA).join("postmaster.pid"))?;
        let is_it = state.lines().next() == Some(&started.pid.to_string());
        let is_ready = state.lines().last().is_some_and(|line| line.trim_end() == "ready");
        ensure!(is_it && is_ready, "not ready: {state}");
        Ok(())
    }
}

/// `setpriv` replaces itself by the program, so the process id stays the same.
fn user_arguments() -> [&'static str; 5] {
    ["--reuid", USER, "--regid", USER, "--init-groups"]
}
