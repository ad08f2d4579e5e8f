//! The accept loop. Our own, because `axum::serve` bounds neither how long a client may take nor how many there are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use interlock_control::api_keys::ApiKeys;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{self, Connections};
use crate::router;
use crate::settings::Settings;
use crate::state::{App, Foundation, Shared};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 4_096;

/// The pause after a failed accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the gateway cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "refusing to listen on {0}: no API keys are configured, so every client would be admin. \
         Listen on a loopback address such as 127.0.0.1:8081, or configure a key"
    )]
    NoKeys(SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// A gateway that is bound to its address and not serving yet.
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
}

impl Gateway {
    /// Binds the address. Connections wait until [`serve`](Self::serve).
    pub fn bind(settings: Settings, foundation: Foundation) -> Result<Self, BindError> {
        let address = settings.listen;
        if settings.serves_api {
            refuse_open_door(address, &foundation.keys)?;
        }
        let failed = |source| BindError::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let app = Shared::new(foundation, settings, address.ip().is_loopback());
        Ok(Self { listener, address, app })
    }

    /// Where it listens, with the real port if port 0 was configured.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, then finishes requests in progress within the grace period.
    pub fn serve(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(async move {
            let Self { listener, address: _, app } = self;
            let router = router::router(&app);
            let connections = Connections {
                abandon: CancellationToken::new(),
                places: Arc::new(Semaphore::new(app.settings.connections_max)),
                places_max: app.settings.connections_max,
                tasks: TaskTracker::new(),
            };
            let accepting = accept(&listener, &app, &router, &connections);
            shutdown.run_until_cancelled(accepting).await;
            drop(listener);
            app.closing.cancel();
            connections.tasks.close();
            let in_progress = async {
                connections.tasks.wait().await;
                app.finish().await;
            };
            if tokio::time::timeout(app.settings.shutdown_grace, in_progress).await.is_err() {
                tracing::warn!(
                    open = connections.tasks.len(),
                    "closing connections that did not end in time"
                );
                connections.abandon.cancel();
                connections.tasks.wait().await;
            }
        })
    }
}

/// Without keys every caller is admin, so only this machine may reach the gateway.
fn refuse_open_door(address: SocketAddr, keys: &ApiKeys) -> Result<(), BindError> {
    if keys.are_needed() || address.ip().is_loopback() { Ok(()) } else { Err(BindError::NoKeys(address)) }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for the last connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: &TcpListener, app: &App, router: &Router, connections: &Connections) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(stream, app, router, connections),
            Err(error) => {
                tracing::warn!(%error, "accept failed; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn begin(stream: TcpStream, app: &App, router: &Router, connections: &Connections) {
    // Answers are written whole: waiting for more to send only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch Nagle's algorithm off");
    }
    let abandon = connections.abandon.clone();
    match connections.places.clone().try_acquire_owned() {
        Ok(place) => {
            let (app, router) = (app.clone(), router.clone());
            connections.tasks.spawn(async move {
                connection::serve(stream, &app, router, abandon).await;
                drop(place);
            });
        }
        Err(_) => connection::turn_away(stream, connections),
    }
}
