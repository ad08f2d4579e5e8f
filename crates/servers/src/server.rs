//! What all servers have in common: a port, a folder, and a process that can be killed and started again.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::process::{Process, log_tail};
use crate::waiting::{Look, until};

/// Below the ports that the kernel gives to clients. A client that retries while its server is down could otherwise
/// be given the server's own port, connect to itself, and keep the server from coming back. The bus of a Redis
/// cluster, 10,000 higher, stays below them too.
const PORTS: Range<u16> = 10_000..20_000;
const PORT_CHOICES_MAX: usize = 100;
const STARTS_MAX: usize = 5;
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// One kind of server: how to start it, and how to tell that it is ready.
pub(crate) trait Kind: Send + Sync {
    /// What ends it, by name.
    const LAST_SIGNAL: &str;

    fn program(&self) -> Result<PathBuf>;

    /// Writes into `folder` what the server reads when it starts, and gives its arguments.
    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>>;

    /// Succeeds when the server is ready and is the one that was started, not somebody else's on the same port.
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
    // Before the folder: fields are dropped in this order.
    process: Option<Process>,
    pid: u32,
    kind: K,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    folder: TempDir,
}

impl<K: Kind> Server<K> {
    /// Starts on a port that is free; on another one if somebody takes it in between.
    pub(crate) async fn start(kind: K) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for a server")?;
        let program = kind.program()?;
        let mut server =
            Self { process: None, pid: 0, kind, program, arguments: Vec::new(), port: 0, folder };
        for _ in 1..STARTS_MAX {
            match server.start_on(free_port()?).await {
                Err(error) if is_about_a_taken_port(&error) => {}
                started => return started.map(|()| server),
            }
        }
        server.start_on(free_port()?).await?;
        Ok(server)
    }

    pub(crate) async fn start_again(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the server on port {} was not killed", self.port);
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
        self.port
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

    async fn start_on(&mut self, port: u16) -> Result<()> {
        self.port = port;
        self.arguments = self.kind.prepare(port, self.folder.path())?;
        self.launch().await
    }

    /// Starts the process, and keeps it only if it becomes ready.
    async fn launch(&mut self) -> Result<()> {
        let folder = self.folder.path();
        let mut process = Process::spawn(&self.program, &self.arguments, folder, K::LAST_SIGNAL)?;
        let started = Started { port: self.port, pid: process.pid(), folder };
        let kind = &self.kind;
        let ready = until("the server is ready", || {
            let exit = process.exit();
            async move {
                if let Some(status) = exit? {
                    bail!("the server ended: {status}");
                }
                Ok(match timeout(ANSWER_MAX, kind.answers(started)).await {
                    Ok(Ok(())) => Look::Seen(()),
                    Ok(Err(error)) => Look::NotYet(format!("{error:#}")),
                    Err(_) => Look::NotYet("no answer".to_owned()),
                })
            }
        });
        ready.await.with_context(|| {
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

/// A port at random: tests of several processes choose at the same time.
fn free_port() -> Result<u16> {
    let chosen = (0..PORT_CHOICES_MAX).map(|attempt| {
        let random = RandomState::new().hash_one(attempt) % u64::from(PORTS.end - PORTS.start);
        PORTS.start + u16::try_from(random).expect("the range of ports is one of u16")
    });
    let mut free = chosen.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.next().with_context(|| format!("none of {PORT_CHOICES_MAX} ports in {PORTS:?} is free"))
}

/// All of them end with this in their log, which the error quotes, when they cannot bind.
fn is_about_a_taken_port(error: &anyhow::Error) -> bool {
    format!("{error:#}").to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::NatsOptions;
    use crate::postgres::Cluster;
    use crate::redis::{Mode, RedisOptions, Settings};

    /// What comes of starting a server on the port of another one.
    async fn start_twice<K: Kind>(kinds: [K; 2]) -> Result<()> {
        let [first, second] = kinds;
        let first = Server::start(first).await?;
        let mut second = Server::start(second).await?;
        second.kill().await?;
        second.start_on(first.port()).await
    }

    #[tokio::test]
    async fn a_server_of_the_same_kind_on_the_port_is_not_taken_for_the_started_one() {
        let settings = || Settings { options: RedisOptions::default(), mode: Mode::Store, lines: Vec::new() };
        let error = start_twice([settings(), settings()]).await.unwrap_err();
        assert!(is_about_a_taken_port(&error), "{error:#}");
        let error = start_twice([NatsOptions::default(), NatsOptions::default()]).await.unwrap_err();
        assert!(is_about_a_taken_port(&error), "{error:#}");
        let error = start_twice([Cluster::here().unwrap(), Cluster::here().unwrap()]).await.unwrap_err();
        assert!(is_about_a_taken_port(&error), "{error:#}");
    }
}
