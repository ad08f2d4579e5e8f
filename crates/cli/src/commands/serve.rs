//! `interlock serve`: the server, until a signal stops it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::{Environment, ServeConfig, ServeFlags};
use crate::exit::{Exit, Failure, Result};
use crate::output;
use crate::telemetry::Telemetry;
use crate::wiring::Server;

pub(crate) async fn run(flags: &ServeFlags, environment: &Environment) -> Result<Exit> {
    if flags.print_config {
        return output::raw(ServeConfig::template().as_bytes()).map(|()| Exit::Done);
    }
    let config = ServeConfig::resolve(flags, environment)?;
    let telemetry = Telemetry::begin(&config)?;
    let ended = serve(&config).await;
    telemetry.end().await;
    ended
}

async fn serve(config: &ServeConfig) -> Result<Exit> {
    let mut stops = Stops::listen()?;
    let server = Server::build(config).await?;
    output::line(&format!("interlock is ready {}", server.place))?;
    let shutdown = CancellationToken::new();
    let mut serving = std::pin::pin!(server.run(shutdown.clone()));
    tokio::select! {
        () = &mut serving => return Ok(Exit::Done),
        () = stops.next() => shutdown.cancel(),
    }
    tracing::info!("stopping; a second signal stops at once");
    tokio::select! {
        () = serving => Ok(Exit::Done),
        () = stops.next() => abandon(),
    }
}

/// Everything that was acknowledged is in the store; the next start continues from there.
#[expect(clippy::exit, reason = "a second signal must not wait for threads to end")]
fn abandon() -> ! {
    std::process::exit(Exit::Refused.code().into())
}

/// The signals that ask us to stop.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    pub(super) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(Failure::local("listen for signals"));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
