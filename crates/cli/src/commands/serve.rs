//! `interlock serve`: the server, until it is told to stop.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, ServeConfig};
use crate::exit::{Exit, Failure, Result};
use crate::output;
use crate::wiring::Server;

pub(crate) async fn run(config: ServeConfig) -> Result<Exit> {
    begin_log(&config)?;
    let mut stops = Stops::listen()?;
    let server = Server::build(&config).await?;
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

fn begin_log(config: &ServeConfig) -> Result<()> {
    let filter = EnvFilter::try_new(&config.log_level)
        .map_err(|error| Failure::Usage(format!("--log-level {}: {error}", config.log_level)))?;
    // Standard output is for the line that says that we are ready.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.log_format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
    }
    Ok(())
}
