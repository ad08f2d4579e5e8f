//! The accept loop. Our own, because `axum::serve` bounds neither how long a client may take nor how many there are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use interlock_control::api_keys::ApiKeys;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::addresses::Addresses;
use crate::connection::{self, Connections};
use crate::settings::Settings;
use crate::state::{App, Foundation, Shared};
use crate::tls::{Tls, TlsError};
use crate::{router, routes};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 4_096;

/// The pause after a failed accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections to the metrics' own address.
const METRICS_CONNECTIONS_MAX: usize = 100;

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
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A gateway that is bound to its address and not serving yet.
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    /// Bound to the metrics' own address.
    metrics: Option<TcpListener>,
    app: App,
}

impl Gateway {
    /// Binds the address. Connections wait until [`serve`](Self::serve).
    pub fn bind(settings: Settings, foundation: Foundation) -> Result<Self, BindError> {
        if settings.serves_api {
            refuse_open_door(settings.listen, &foundation.keys)?;
        }
        let tls = settings.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
        let (listener, address) = listen(settings.listen)?;
        let metrics = settings.metrics_listen.map(listen).transpose()?.map(|(listener, _)| listener);
        let app = Shared::new(foundation, settings, address.ip().is_loopback());
        Ok(Self { listener, address, tls, metrics, app })
    }

    /// Where it listens, with the real port if port 0 was configured.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Where the metrics are served, if they have an address of their own.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves until `shutdown`, then finishes requests in progress within the grace period.
    pub fn serve(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(async move {
            let Self { listener, address: _, tls, metrics, app } = self;
            let door = Door {
                router: router::router(&app, routes::served(&app.settings)),
                connections: Connections::new(app.settings.connections_max),
                addresses: Addresses::new(app.settings.connections_per_address_max),
                app: app.clone(),
                tls: tls.clone(),
            };
            let connections = door.connections.clone();
            // It has places of its own, so that a server without a free place can still be watched.
            let metrics = metrics.map(|listener| {
                let router = router::router(&app, routes::probes());
                let connections = connections.with_places(METRICS_CONNECTIONS_MAX);
                let addresses = Addresses::new(METRICS_CONNECTIONS_MAX);
                (listener, Door { router, connections, addresses, app: app.clone(), tls: None })
            });
            let open = async {
                let follow_files = async {
                    if let Some(tls) = &tls {
                        tls.follow().await;
                    }
                };
                let show_metrics = async {
                    if let Some((listener, door)) = &metrics {
                        door.accept(listener).await;
                    }
                };
                tokio::join!(door.accept(&listener), show_metrics, follow_files)
            };
            shutdown.run_until_cancelled(open).await;
            drop((listener, metrics));
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

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restart must not wait for the last connections of the process before.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    open().map_err(|source| BindError::Listen { address, source })
}

/// Where connections come in.
struct Door {
    app: App,
    router: Router,
    tls: Option<Arc<Tls>>,
    connections: Connections,
    addresses: Arc<Addresses>,
}

impl Door {
    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, client)) => self.begin(stream, client),
                Err(error) => {
                    tracing::warn!(%error, "accept failed; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, client: SocketAddr) {
        // Answers are written whole: waiting for more to send only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch Nagle's algorithm off");
        }
        let Some(address) = self.addresses.enter(client.ip()) else {
            tracing::warn!(client = %client.ip(), "a client has too many connections");
            return self.turn_away(stream);
        };
        let Ok(place) = self.connections.places.clone().try_acquire_owned() else {
            tracing::warn!(open = self.connections.tasks.len(), "connection limit reached");
            return self.turn_away(stream);
        };
        let (app, router, abandon) =
            (self.app.clone(), self.router.clone(), self.connections.abandon.clone());
        let tls = self.tls.as_ref().map(|tls| tls.acceptor());
        self.connections.tasks.spawn(async move {
            connection::serve(stream, tls, &app, router, abandon).await;
            drop((place, address));
        });
    }

    fn turn_away(&self, stream: TcpStream) {
        // A client that begins TLS could not read the answer.
        if self.tls.is_none() {
            connection::turn_away(stream, &self.connections);
        }
    }
}
