//! A server of a command's own, in the same process: whatever ends the command ends the server.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Parser as _};
use interlock_api::client::Settings;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Arguments, Command, ConnectionFlags};
use crate::config::{self, Environment, Secret, ServeConfig};
use crate::exit::{Failure, Result};
use crate::wiring::Server;

/// The server comes to its end without the command's help after this.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// On what the server stands; in a folder, if nothing is said.
#[derive(Debug, Clone, Args)]
pub(crate) struct Standing {
    /// Start a server of its own on this Redis; as for `serve`
    #[arg(long, value_name = "URL", requires = "nats")]
    pub(super) redis: Option<Secret>,
    /// Start a server of its own on this NATS; as for `serve`
    #[arg(long, value_name = "URL", requires = "redis")]
    pub(super) nats: Option<Secret>,
    /// What the names of that installation's locks begin with; as for `serve`
    #[arg(long, value_name = "NAME", requires = "redis")]
    pub(super) prefix: Option<String>,
}

/// The way to a server that is there, if one was named.
pub(crate) struct Way {
    pub(super) connection: Settings,
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

    /// Whether a server has to be started. What was typed wins over what the environment says.
    pub(super) fn needs_server(&self, standing: &Standing) -> Result<bool> {
        if standing.redis.is_some() && self.is_typed {
            let sentence = "--gateway takes a server that is there, and --redis starts one: name one of them";
            return Err(Failure::Usage(sentence.to_owned()));
        }
        Ok(standing.redis.is_some() || !self.is_named)
    }
}

pub(super) struct OwnServer {
    server: Server,
    gateway: String,
    /// Whether it stands on a store that may have keys.
    is_shared: bool,
}

impl OwnServer {
    /// As `serve` with these flags, and with nothing of the environment: its variables may be for another server.
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
        let Command::Serve(flags) = parsed.command else { unreachable!("serve was typed") };
        let config = ServeConfig::resolve(*flags, &Environment::default())?;
        let server = Server::build(&config).await?;
        let address = server.address().expect("without --roles it has all of them");
        Ok(Self { server, gateway: format!("http://{address}"), is_shared: config.machines.is_some() })
    }

    /// The way to this server, with the key of `given` where there may be a lock for it.
    pub(super) fn connection(&self, given: Settings) -> Settings {
        let api_key = given.api_key.clone().filter(|_| self.is_shared);
        Settings { gateway: self.gateway.clone(), api_key, ..given }
    }

    /// Serves until it is told to stop, then stops in order.
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

    /// Serves until `work` is done, then stops in order.
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
