//! Bounds on what clients may send, and on how long the gateway waits for them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use interlock_model::document;

use crate::tls::TlsFiles;

/// How the gateway behaves. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// TLS for all of it but the metrics' own address.
    pub tls: Option<TlsFiles>,
    /// Where the probes and metrics are served besides; the metrics then nowhere else.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether the API is served, or only the probes: `/healthz`, `/readyz` and `/metrics`.
    pub serves_api: bool,
    /// Connections that may be open at once. Further ones get a 503.
    pub connections_max: usize,
    /// And those of one client, by its address.
    pub connections_per_address_max: usize,
    /// Event streams that may be open at once.
    pub streams_max: usize,
    /// How long a connection may stay silent, before its first request and between two.
    pub idle_timeout: Duration,
    /// How long a request's header may take, from its first byte.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub write_timeout: Duration,
    /// How long a shutdown waits for requests in progress.
    pub shutdown_grace: Duration,
    /// A header may also have at most a hundred fields.
    pub header_bytes_max: usize,
    pub body_bytes_max: usize,
    /// How much of a body that is too large is read, so that the client gets the answer.
    pub body_bytes_discarded_max: usize,
    /// How many bytes of large bodies a tenant may bring per second. Further ones wait.
    pub tenant_bytes_per_sec: u64,
    /// Levels of arrays and objects in a body.
    pub nesting_max: usize,
    /// The shortest lease that a worker may request.
    pub lease_min: Duration,
    /// How often an event stream polls, in case a wake-up is lost.
    pub stream_poll: Duration,
    /// How often a silent event stream sends a comment.
    pub stream_keep_alive: Duration,
    /// Tenants that have their own label in metrics. The others share `other`.
    pub tenant_labels_max: usize,
    /// Names that this server answers to without API keys, besides those of loopback.
    pub host_names: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)),
            tls: None,
            metrics_listen: None,
            serves_api: true,
            connections_max: 10_000,
            connections_per_address_max: 5_000,
            streams_max: 1_000,
            idle_timeout: Duration::from_mins(1),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(10),
            header_bytes_max: 64 * 1024,
            body_bytes_max: document::BYTES_MAX,
            body_bytes_discarded_max: 16 * 1024 * 1024,
            tenant_bytes_per_sec: 8 << 20,
            nesting_max: document::LEVELS_MAX,
            lease_min: Duration::from_secs(1),
            stream_poll: Duration::from_secs(2),
            stream_keep_alive: Duration::from_secs(15),
            tenant_labels_max: 100,
            host_names: Vec::new(),
        }
    }
}
