//! A command's own server, in the same process: whatever ends the command ends the server.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Parser as _};
use interlock_api::client::ClientSettings;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Arguments, Command, ConnectionFlags};
use crate::config::{self, Environment, Secret, ServeConfig};
use crate::exit::{Failure, Result};
use crate::wiring::Server;

/// How long the command waits for its server to stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// The backend of the command's own server; embedded by default.
#[derive(Debug, Clone, Args)]
pub(crate) struct Standing {
    /// Start its own server on this Redis, as `serve --redis`
    #[arg(long, value_name = "URL", requires = "nats")]
    pub(super) redis: Option<Secret>,
    /// Start its own server on this NATS, as `serve --nats`
    #[arg(long, value_name = "URL", requires = "redis")]
    pub(super) nats: Option<Secret>,
    /// Prefix of its lock keys, as `serve --prefix`
    #[arg(long, value_name = "NAME", requires = "redis")]
    pub(super) prefix: Option<String>,
}

/// The gateway that flags or environment name, if any.
pub(crate) struct Way {
    pub(super) connection: ClientSettings,
    is_typed: bool,
    is_named: bool,
}

impl Way {
    pub(super) fn new(flags: &ConnectionFlags, environment: &Environment) -> Self {
        Self {
            connection: config::connection(flags, environment),
            is_typed: flags.gateway.is_some(),
            is_named: config::gateway(flags, environment).is_some(),
        }
    }

    /// Whether a server has to be started. Flags override the environment.
    pub(super) fn needs_server(&self, standing: &Standing) -> Result<bool> {
        if standing.redis.is_some() && self.is_typed {
            let sentence = "--gateway uses a running server and --redis starts one: give only one of them";
            return Err(Failure::Usage(sentence.to_owned()));
        }
        Ok(standing.redis.is_some() || !self.is_named)
    }
}

pub(super) struct OwnServer {
    server: Server,
    gateway: String,
    /// Whether its store outlives it, and may have API keys.
    is_shared: bool,
}

impl OwnServer {
    /// As `serve` with these flags, without the environment: its variables may be for another server.
    pub(super) async fn build(standing: &Standing, data: &Path, flags: &[String]) -> Result<Self> {
        let mut line: Vec<OsString> =
            ["interlock", "serve", "--listen", "127.0.0.1:0"].map(Into::into).into();
        line.extend(["--data".into(), data.into()]);
        for (flag, secret) in [("--redis", &standing.redis), ("--nats", &standing.nats)] {
            line.extend(secret.iter().flat_map(|secret| [flag.into(), secret.0.clone().into()]));
        }
        line.extend(standing.prefix.iter().flat_map(|prefix| ["--prefix".into(), prefix.into()]));
        line.extend(flags.iter().map(Into::into));
        let parsed = Arguments::try_parse_from(line).map_err(|error| Failure::Usage(error.to_string()))?;
        let Command::Serve(flags) = parsed.command else { unreachable!("the line begins with serve") };
        let config = ServeConfig::resolve(&flags, &Environment::default())?;
        let server = Server::build(&config).await?;
        let address = server.address().expect("without --roles it has a gateway");
        Ok(Self { server, gateway: format!("http://{address}"), is_shared: config.redis.is_some() })
    }

    /// How to reach this server, with the key of `given` if the server may have keys.
    pub(super) fn connection(&self, given: ClientSettings) -> ClientSettings {
        let api_key = given.api_key.clone().filter(|_| self.is_shared);
        ClientSettings { gateway: self.gateway.clone(), api_key, ..given }
    }

    /// Serves until `stop`, then shuts down.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let stopped = async {
            stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_LIMIT).await;
        };
        tokio::select! {
            () = self.server.run(stop.clone()) => {}
            () = stopped => {}
        }
    }

    /// Serves until `work` is done, then shuts down.
    pub(super) async fn serve_while<T>(self, work: impl Future<Output = T>) -> T {
        let stop = CancellationToken::new();
        let work = async {
            let end = work.await;
            stop.cancel();
            end
        };
        tokio::join!(work, Box::pin(self.serve(stop.clone()))).0
    }
}
