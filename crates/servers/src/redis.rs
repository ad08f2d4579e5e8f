//! One Redis server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::programs;
use crate::server::{Kind, Server, Started, connect};

const COMMAND_MAX: Duration = Duration::from_mins(1);
const INFORMATION_LINES_MAX: usize = 100;

/// When a write reaches the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AppendOnly {
    /// Before it is answered.
    #[default]
    Always,
    /// Within about a second.
    EverySecond,
    /// Never: a killed server comes back empty.
    Off,
}

#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    pub append_only: AppendOnly,
    /// Letters and digits only: it is not escaped in the configuration and the URL.
    pub password: Option<String>,
    /// Further arguments of `redis-server`: `--name`, then its value.
    pub arguments: Vec<String>,
}

/// Dropping it kills the server and removes its data.
#[must_use = "dropping it kills the server"]
pub struct Redis {
    server: Server<RedisSettings>,
}

impl Redis {
    pub async fn start(options: RedisOptions) -> Result<Self> {
        Self::start_with(RedisSettings { options, mode: Mode::Store, lines: Vec::new() }).await
    }

    /// A server without durability that all tests of this process share. Each test uses keys of its own.
    pub async fn shared() -> Result<&'static Self> {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
        SERVER.get_or_try_init(async || Self::start(options).await).await
    }

    pub(crate) async fn start_with(settings: RedisSettings) -> Result<Self> {
        Ok(Self { server: Server::start(settings).await? })
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// `redis://127.0.0.1:PORT`, with the password if there is one.
    pub fn url(&self) -> String {
        let password = self.password().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}", self.port())
    }

    /// The running process, or the one that was killed last.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Holds its data and its `log`.
    pub fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// Kills it as `kill -9` and returns when the process has ended.
    pub async fn kill(&mut self) -> Result<()> {
        self.server.kill().await
    }

    /// Starts it after [`kill`](Self::kill), on the same port and with the data on disk. Returns when it is loaded.
    pub async fn start_again(&mut self) -> Result<()> {
        self.server.start_again().await
    }

    /// Stops the process. The kernel still accepts connections and bytes for it, which it reads when it is resumed.
    pub fn pause(&self) -> Result<()> {
        self.server.signal("STOP")
    }

    pub fn resume(&self) -> Result<()> {
        self.server.signal("CONT")
    }

    /// The answer to a command, as `redis-cli` prints it. An error that Redis answers is returned as an error.
    pub async fn command(&self, arguments: &[&str]) -> Result<String> {
        let mut client = tokio::process::Command::new(programs::installed("redis-cli")?);
        client.args(["-e", "-p", &self.port().to_string()]);
        if let Some(password) = self.password() {
            client.args(["-a", password, "--no-auth-warning"]);
        }
        client.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let answer = timeout(COMMAND_MAX, client.output()).await;
        let answer = answer.with_context(|| format!("no answer to {arguments:?} in {COMMAND_MAX:?}"))?;
        let answer = answer.context("cannot run redis-cli")?;
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        let error = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "Redis answered {arguments:?}: {text}{}", error.trim());
        Ok(text)
    }

    fn password(&self) -> Option<&str> {
        self.server.kind().options.password.as_deref()
    }
}

/// The options of the caller, and what the kind of server adds.
pub(crate) struct RedisSettings {
    pub(crate) options: RedisOptions,
    pub(crate) mode: Mode,
    /// Further lines of its configuration.
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Store,
    Sentinel,
}

impl Kind for RedisSettings {
    const LAST_SIGNAL: &str = "KILL";

    fn program(&self) -> Result<PathBuf> {
        programs::installed("redis-server")
    }

    /// A file instead of arguments: sentinels write their decisions into the files of the servers.
    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>> {
        let mut lines = vec!["bind 127.0.0.1".to_owned(), format!("port {port}")];
        lines.push(format!("dir {}", folder.display()));
        if self.mode == Mode::Store {
            lines.extend(["save \"\"", "repl-diskless-sync-delay 0"].map(str::to_owned));
            lines.extend(append_only_lines(self.options.append_only).map(str::to_owned));
        }
        lines.extend(self.options.password.iter().map(|password| format!("requirepass \"{password}\"")));
        lines.extend(self.lines.iter().cloned());
        let file = folder.join("redis.conf");
        fs::write(&file, lines.join("\n") + "\n").context("cannot write a server's configuration")?;
        let mode = (self.mode == Mode::Sentinel).then(|| "--sentinel".to_owned());
        let arguments = [file.display().to_string()].into_iter().chain(mode);
        Ok(arguments.chain(self.options.arguments.iter().cloned()).collect())
    }

    async fn answers(&self, started: Started<'_>) -> Result<()> {
        let mut stream = BufReader::new(connect(started.port).await?);
        if let Some(password) = &self.options.password {
            ask(&mut stream, &["AUTH", password], "+OK").await?;
        }
        ask(&mut stream, &["PING"], "+PONG").await?;
        stream.write_all(&request(&["INFO", "server"])).await?;
        let wanted = format!("process_id:{}", started.pid);
        for _ in 0..INFORMATION_LINES_MAX {
            let line = line(&mut stream).await?;
            if line.starts_with("process_id:") {
                ensure!(line == wanted, "another server has the port: {line}, not {wanted}");
                return Ok(());
            }
        }
        bail!("the server does not report its process id")
    }
}

fn append_only_lines(append_only: AppendOnly) -> [&'static str; 2] {
    match append_only {
        AppendOnly::Always => ["appendonly yes", "appendfsync always"],
        AppendOnly::EverySecond => ["appendonly yes", "appendfsync everysec"],
        AppendOnly::Off => ["appendonly no", "appendfsync no"],
    }
}

async fn ask(stream: &mut BufReader<TcpStream>, words: &[&str], wanted: &str) -> Result<()> {
    stream.write_all(&request(words)).await?;
    let answer = line(stream).await?;
    ensure!(answer == wanted, "the answer to {} is {answer}", words[0]);
    Ok(())
}

async fn line(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    ensure!(stream.read_line(&mut line).await? > 0, "the server closed the connection");
    Ok(line.trim_end().to_owned())
}

/// A command in the protocol of Redis: an array of strings with their lengths.
fn request(words: &[&str]) -> Vec<u8> {
    let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    [format!("*{}\r\n", words.len())].into_iter().chain(parts).collect::<String>().into_bytes()
}
