//! One connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Refusal;
use crate::pace::{Pace, Turns};
use crate::state::App;
use crate::wire::Wire;

/// The connections that are open.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    /// Cancelled to close them at once.
    pub abandon: CancellationToken,
    pub places: Arc<Semaphore>,
    pub places_max: usize,
    pub tasks: TaskTracker,
}

impl Connections {
    pub(crate) fn new(places_max: usize) -> Self {
        let (abandon, tasks) = (CancellationToken::new(), TaskTracker::new());
        Self { abandon, places: Arc::new(Semaphore::new(places_max)), places_max, tasks }
    }

    /// These connections with other places: they end together.
    pub(crate) fn with_places(&self, places_max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places_max)), places_max, ..self.clone() }
    }
}

/// Serves requests until the client leaves, takes too long, or the gateway closes.
pub(crate) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    app: &App,
    router: Router,
    abandon: CancellationToken,
) {
    if !speaks(&stream, app).await {
        return;
    }
    let Some(tls) = tls else { return converse(stream, app, router, abandon).await };
    match tokio::time::timeout(app.settings.header_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => Box::pin(converse(stream, app, router, abandon)).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn converse<S>(stream: S, app: &App, router: Router, abandon: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let settings = &app.settings;
    let turns = Turns::default();
    let pace = Pace::new(turns.clone(), settings.header_timeout);
    let wire = Wire::new(TokioIo::new(stream), pace, settings.write_timeout);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        turns.change();
        let (answer, turns) = (router.call(request), turns.clone());
        async move {
            let answer = answer.await;
            turns.change();
            answer
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // It counts from the previous answer, so it ends idle connections.
        .header_read_timeout(settings.idle_timeout)
        .max_header_size(settings.header_bytes_max);
    let mut connection = pin!(builder.serve_connection(wire, service));
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = app.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            abandon.run_until_cancelled(connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Whether the client sends anything in time. Peeks only: hyper reads it from the start.
async fn speaks(stream: &TcpStream, app: &App) -> bool {
    let mut byte = [0];
    let heard = tokio::time::timeout(app.settings.idle_timeout, stream.peek(&mut byte));
    matches!(app.closing.run_until_cancelled(heard).await, Some(Ok(Ok(1..))))
}

/// Connections beyond the bound that get a 503. Still more are just closed.
const TURNED_AWAY_MAX: usize = 64;

/// How long that may take.
const TURNING_AWAY_MAX: Duration = Duration::from_secs(1);

/// Answers 503: too many connections.
pub(crate) fn turn_away(stream: TcpStream, connections: &Connections) {
    let open = connections.tasks.len();
    if open.saturating_sub(connections.places_max) < TURNED_AWAY_MAX {
        connections.tasks.spawn(async move {
            let _ = tokio::time::timeout(TURNING_AWAY_MAX, say_no_room(stream)).await;
        });
    }
}

async fn say_no_room(mut stream: TcpStream) -> std::io::Result<()> {
    let refusal = Refusal::too_many_connections();
    stream.write_all(&refusal.to_http()).await?;
    stream.shutdown().await?;
    // Closing with an unread request would reset the connection and lose the answer.
    let mut unread = [0; 4_096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
