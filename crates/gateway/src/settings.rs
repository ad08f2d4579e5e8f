//! Every bound that a client can reach, and every wait that it can cause.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How the gateway behaves. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Whether the API is served, or only what watches the process: `/healthz`, `/readyz` and `/metrics`.
    pub serves_api: bool,
    /// Connections that may be open at once. Further ones are told to come back.
    pub connections_max: usize,
    /// Event streams that may be open at once.
    pub streams_max: usize,
    /// How long a connection may stay silent, before its first request and between two.
    pub idle_timeout: Duration,
    /// How long a request's header may take, from its first byte.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// How long a client may not take what is sent to it.
    pub write_timeout: Duration,
    /// How long a shutdown waits for what is in hand.
    pub shutdown_grace: Duration,
    /// A header may also have at most a hundred fields.
    pub header_bytes_max: usize,
    pub body_bytes_max: usize,
    /// How much of a body that is too large is read, so that the client hears the refusal.
    pub body_bytes_discarded_max: usize,
    /// Levels of arrays and objects in a body.
    pub nesting_max: usize,
    /// The shortest lease that a worker may ask for.
    pub lease_min: Duration,
    /// How often an event stream looks by itself, should a wake-up be lost.
    pub stream_poll: Duration,
    /// How often a silent event stream says that it lives.
    pub stream_keep_alive: Duration,
    /// Tenants that metrics know by name. The others are `other`.
    pub tenant_labels_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)),
            serves_api: true,
            connections_max: 10_000,
            streams_max: 1_000,
            idle_timeout: Duration::from_mins(1),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(10),
            header_bytes_max: 64 * 1024,
            body_bytes_max: 2 * 1024 * 1024,
            body_bytes_discarded_max: 16 * 1024 * 1024,
            nesting_max: 64,
            lease_min: Duration::from_secs(1),
            stream_poll: Duration::from_secs(2),
            stream_keep_alive: Duration::from_secs(15),
            tenant_labels_max: 100,
        }
    }
}
