//! `interlock serve`: the server, until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::ServeConfig;
use crate::exit::{Exit, Failure, Result};
use crate::output;
use crate::telemetry::Telemetry;
use crate::wiring::Server;

pub(crate) async fn run(config: ServeConfig) -> Result<Exit> {
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

/// Everything that was answered is on the disk; whatever is not is for the next start to find.
#[expect(clippy::exit, reason = "whoever asks twice does not want to wait for threads to end")]
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
