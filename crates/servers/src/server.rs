//! What all servers have: a port, a folder, and a process that can be killed and started again.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use interlock_poll::try_until;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::port::Port;
use crate::process::{Process, log_tail};

const STARTS_MAX: usize = 5;
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A kind of server: how to start it, and how to check that it is ready.
pub(crate) trait Kind: Send + Sync {
    /// The name of the signal that ends it.
    const LAST_SIGNAL: &str;

    fn program(&self) -> Result<PathBuf>;

    /// Writes the server's files into `folder` and returns its arguments.
    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>>;

    /// Succeeds when the server is ready and is the started process, not another one on the same port.
    fn answers(&self, started: Started<'_>) -> impl Future<Output = Result<()>> + Send;
}

/// A process that may not be ready yet.
#[derive(Clone, Copy)]
pub(crate) struct Started<'a> {
    pub(crate) port: u16,
    pub(crate) pid: u32,
    pub(crate) folder: &'a Path,
}

/// Dropping it kills the process and removes the folder.
pub(crate) struct Server<K> {
    // Fields are dropped in order: the process before its folder.
    process: Option<Process>,
    pid: u32,
    kind: K,
    program: PathBuf,
    arguments: Vec<String>,
    port: Port,
    folder: TempDir,
}

impl<K: Kind> Server<K> {
    /// Starts on a free port, and on another one if that is taken meanwhile.
    pub(crate) async fn start(kind: K) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for a server")?;
        let program = kind.program()?;
        let port = Port::reserve()?;
        let mut server = Self { process: None, pid: 0, kind, program, arguments: Vec::new(), port, folder };
        for _ in 1..STARTS_MAX {
            match server.prepare_and_launch().await {
                // By a program that is no test.
                Err(error) if is_port_taken(&error) => server.port = Port::reserve()?,
                started => return started.map(|()| server),
            }
        }
        server.prepare_and_launch().await?;
        Ok(server)
    }

    pub(crate) async fn start_again(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the server on port {} was not killed", self.port());
        self.launch().await
    }

    pub(crate) async fn kill(&mut self) -> Result<()> {
        let process = self.process.take();
        tokio::task::spawn_blocking(move || drop(process)).await.context("cannot wait for a killed server")
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        self.process.as_ref().context("the server was killed")?.signal(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kind(&self) -> &K {
        &self.kind
    }

    async fn prepare_and_launch(&mut self) -> Result<()> {
        self.arguments = self.kind.prepare(self.port(), self.folder.path())?;
        self.launch().await
    }

    /// Starts the process and keeps it only if it becomes ready.
    async fn launch(&mut self) -> Result<()> {
        let folder = self.folder.path();
        let mut process = Process::spawn(&self.program, &self.arguments, folder, K::LAST_SIGNAL)?;
        let started = Started { port: self.port(), pid: process.pid(), folder };
        let kind = &self.kind;
        let look = || {
            let exit = process.exit();
            async move {
                match exit {
                    Err(error) => Ok(Err(error)),
                    Ok(Some(status)) => Ok(Err(anyhow!("the server ended: {status}"))),
                    Ok(None) => match timeout(ANSWER_MAX, kind.answers(started)).await {
                        Ok(Ok(())) => Ok(Ok(())),
                        Ok(Err(error)) => Err(format!("{error:#}")),
                        Err(_) => Err("no answer".to_owned()),
                    },
                }
            }
        };
        let ready = try_until("the server is ready", look).await.map_err(anyhow::Error::from).flatten();
        ready.with_context(|| {
            let (program, log) = (self.program.display(), log_tail(folder));
            format!("{program} on port {} did not start; its log:\n{log}", started.port)
        })?;
        self.pid = started.pid;
        self.process = Some(process);
        Ok(())
    }
}

pub(crate) async fn connect(port: u16) -> Result<TcpStream> {
    Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?)
}

/// Every kind of server logs this when it cannot bind, and the error quotes the log.
fn is_port_taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::NatsOptions;
    use crate::postgres::PostgresCluster;
    use crate::redis::{Mode, RedisOptions, RedisSettings};

    /// Starts a server on the port of another one.
    async fn start_twice<K: Kind>(kinds: [K; 2]) -> Result<()> {
        let [first, second] = kinds;
        let first = Server::start(first).await?;
        let mut second = Server::start(second).await?;
        second.kill().await?;
        second.port = first.port;
        second.prepare_and_launch().await
    }

    #[tokio::test]
    async fn another_server_on_the_port_is_not_mistaken_for_the_started_one() {
        let settings =
            || RedisSettings { options: RedisOptions::default(), mode: Mode::Store, lines: Vec::new() };
        let error = start_twice([settings(), settings()]).await.unwrap_err();
        assert!(is_port_taken(&error), "{error:#}");
        let error = start_twice([NatsOptions::default(), NatsOptions::default()]).await.unwrap_err();
        assert!(is_port_taken(&error), "{error:#}");
        let error = start_twice([PostgresCluster::here().unwrap(), PostgresCluster::here().unwrap()])
            .await
            .unwrap_err();
        assert!(is_port_taken(&error), "{error:#}");
    }
}
