//! A server of the drill's own, in the same process: whatever ends the drill ends the server.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser as _;
use interlock_api::client::Settings;
use tokio_util::sync::CancellationToken;

use super::{Drill, SHUTDOWN_LIMIT};
use crate::arguments::{Arguments, Command};
use crate::config::{Environment, ServeConfig};
use crate::exit::{Failure, Result};
use crate::wiring::Server;

pub(super) struct OwnServer {
    server: Server,
    gateway: String,
    /// Whether it stands on a store that may have keys.
    is_shared: bool,
}

impl OwnServer {
    /// As `serve` with these flags, and with nothing of the environment: its variables may be for another server.
    pub(super) async fn build(drill: &Drill, data: &Path) -> Result<Self> {
        let mut line: Vec<OsString> =
            ["interlock", "serve", "--listen", "127.0.0.1:0"].map(Into::into).into();
        line.extend(["--data".into(), data.into()]);
        for (flag, secret) in [("--redis", &drill.redis), ("--nats", &drill.nats)] {
            line.extend(secret.iter().flat_map(|secret| [flag.into(), secret.0.clone().into()]));
        }
        line.extend(drill.prefix.iter().flat_map(|prefix| ["--prefix".into(), prefix.into()]));
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

    /// Serves until `work` is done, then stops in order.
    pub(super) async fn serve_while<T>(self, work: impl Future<Output = T>) -> T {
        let shutdown = CancellationToken::new();
        let serving = self.server.run(shutdown.clone());
        let work = async {
            let end = work.await;
            shutdown.cancel();
            end
        };
        let stopped = async {
            shutdown.cancelled().await;
            tokio::time::sleep(SHUTDOWN_LIMIT).await;
        };
        let serving = async {
            tokio::select! {
                () = serving => {}
                () = stopped => {}
            }
        };
        tokio::join!(work, Box::pin(serving)).0
    }
}
