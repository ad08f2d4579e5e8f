//! One NATS server.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::certificate::Certificate;
use crate::programs;
use crate::server::{Kind, Server, Started, connect};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NatsRelease {
    /// The release of Debian stable: the oldest that is supported.
    #[default]
    Debian,
    /// The release that `xtask/python-requirements.txt` pins.
    Newest,
}

#[derive(Debug, Clone)]
pub struct NatsOptions {
    pub release: NatsRelease,
    pub jet_stream: bool,
    /// The name and the password that clients must send.
    pub user: Option<(String, String)>,
    /// The text of a configuration file, which then says who may connect.
    pub config: Option<String>,
    /// Clients must then use TLS.
    pub certificate: Option<Certificate>,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            release: NatsRelease::default(),
            jet_stream: true,
            user: None,
            config: None,
            certificate: None,
        }
    }
}

/// Dropping it kills the server and removes its data.
#[must_use = "dropping it kills the server"]
pub struct Nats {
    server: Server<NatsOptions>,
    version: String,
}

impl Nats {
    pub async fn start(options: NatsOptions) -> Result<Self> {
        let server = Server::start(options).await?;
        let version = text_field(&greeting(server.port()).await?, "version")?.to_owned();
        Ok(Self { server, version })
    }

    /// `nats://127.0.0.1:PORT`, with the user and the password if there are any.
    pub fn url(&self) -> String {
        let user = self.server.kind().user.as_ref();
        let user = user.map(|(name, password)| format!("{name}:{password}@")).unwrap_or_default();
        format!("nats://{user}127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The running process, or the one that was killed last.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Holds its data and its `log`.
    pub fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// As the server reports it, such as `2.9.10`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Kills it as `kill -9` and returns when the process has ended.
    pub async fn kill(&mut self) -> Result<()> {
        self.server.kill().await
    }

    /// Starts it after [`kill`](Self::kill), on the same port and with the streams on disk.
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
}

impl Kind for NatsOptions {
    const LAST_SIGNAL: &str = "KILL";

    fn program(&self) -> Result<PathBuf> {
        match self.release {
            NatsRelease::Debian => programs::installed("nats-server"),
            NatsRelease::Newest => programs::newest_nats_server(),
        }
    }

    fn prepare(&self, port: u16, folder: &Path) -> Result<Vec<String>> {
        let mut arguments = vec!["--addr".to_owned(), "127.0.0.1".to_owned()];
        arguments.extend(["--port".to_owned(), port.to_string()]);
        if self.jet_stream {
            arguments.extend(["--jetstream".to_owned(), "--store_dir".to_owned()]);
            arguments.push(folder.join("streams").display().to_string());
        }
        if let Some(config) = &self.config {
            let file = folder.join("nats.conf");
            std::fs::write(&file, config)?;
            arguments.extend(["--config".to_owned(), file.display().to_string()]);
        } else if let Some((name, password)) = &self.user {
            arguments.extend(["--user", name, "--pass", password].map(str::to_owned));
        }
        if let Some(files) = &self.certificate {
            arguments.extend(["--tls", "--tlscert"].map(str::to_owned));
            arguments.push(files.certificate.display().to_string());
            arguments.extend(["--tlskey".to_owned(), files.key.display().to_string()]);
        }
        arguments.extend(["--name".to_owned(), server_name(folder)]);
        Ok(arguments)
    }

    async fn answers(&self, started: Started<'_>) -> Result<()> {
        let greeting = greeting(started.port).await?;
        let name = text_field(&greeting, "server_name")?;
        ensure!(name == server_name(started.folder), "another server has the port: {greeting}");
        ensure!(!self.jet_stream || greeting.contains("\"jetstream\":true"), "no JetStream yet: {greeting}");
        Ok(())
    }
}

/// The name of the folder, which is unique.
fn server_name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The line that a NATS server sends on each new connection.
async fn greeting(port: u16) -> Result<String> {
    let mut line = String::new();
    BufReader::new(connect(port).await?).read_line(&mut line).await?;
    ensure!(line.starts_with("INFO "), "the server on port {port} does not greet as NATS does: {line}");
    Ok(line)
}

fn text_field<'a>(greeting: &'a str, name: &str) -> Result<&'a str> {
    let value = greeting.split_once(&format!("\"{name}\":\"")).and_then(|(_, rest)| rest.split_once('"'));
    value.map(|(value, _)| value).with_context(|| format!("the greeting has no {name}: {greeting}"))
}
