//! How this process reaches NATS.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use futures_util::future::BoxFuture;
use rand::RngExt;

/// Where NATS is: `nats://[user:password@]host:port`, `tls://` for TLS, several servers with commas.
#[derive(Clone)]
pub struct NatsSettings {
    pub url: String,
    /// The certificates to trust instead of those of the machine, as PEM.
    pub ca_file: Option<PathBuf>,
    pub connect_timeout: Duration,
    pub reconnect_base: Duration,
    pub reconnect_cap: Duration,
}

impl NatsSettings {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_file: None,
            connect_timeout: Duration::from_secs(2),
            reconnect_base: Duration::from_millis(20),
            reconnect_cap: Duration::from_secs(1),
        }
    }
}

/// Why there is no connection to NATS: what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("the address of NATS cannot be read: {0}. It looks like nats://[user:password@]host:port.")]
    Address(String),
    #[error("NATS at {address} cannot be reached: {reason}. Start it, or correct the address.")]
    NotThere { address: String, reason: String },
    #[error("NATS at {address} refuses the user or the password. Correct them in the address.")]
    NotAllowed { address: String },
    #[error(
        "the TLS connection to NATS at {address} failed: {reason}. Check that the server offers TLS and that \
         nats_ca_file holds the certificate that signed its own."
    )]
    Tls { address: String, reason: String },
}

/// Connects once; from then on the connection is made again whenever it breaks.
pub fn connect(settings: &NatsSettings) -> BoxFuture<'_, Result<Client, NatsError>> {
    // Boxed, so that it is compiled here and not wherever it is awaited.
    Box::pin(async move {
        let hosts = shown(&settings.url);
        let parse = |server: &str| server.parse().map_err(|_| NatsError::Address(hosts.clone()));
        let given = || settings.url.split(',').map(str::trim);
        let logins: Vec<ServerAddr> = given().map(parse).collect::<Result<_, _>>()?;
        // The client logs the addresses that it connects to.
        let servers: Vec<ServerAddr> =
            given().map(|server| parse(&without_login(server))).collect::<Result<_, _>>()?;
        let (base, cap) = (settings.reconnect_base, settings.reconnect_cap);
        let mut options = ConnectOptions::new()
            .name("interlock")
            .connection_timeout(settings.connect_timeout)
            // A server that is reached and never answers is noticed by this.
            .ping_interval(Duration::from_secs(10))
            .reconnect_delay_callback(move |attempts| full_jitter(base, cap, attempts))
            .event_callback(async |event| match event {
                Event::Connected => tracing::info!("connected to NATS"),
                Event::Disconnected => {
                    tracing::warn!(
                        "NATS unreachable: wake-ups wait for the poll, and results until it is back"
                    );
                }
                Event::LameDuckMode
                | Event::Draining
                | Event::Closed
                | Event::SlowConsumer(_)
                | Event::ServerError(_)
                | Event::ClientError(_) => tracing::debug!(%event, "NATS"),
            });
        if let Some(user) = logins.iter().find_map(|server| server.username().map(str::to_owned)) {
            let password = logins.iter().find_map(|server| server.password().map(str::to_owned));
            options = options.user_and_password(user, password.unwrap_or_default());
        }
        if settings.url.contains("tls://") {
            options = options.require_tls(true);
        }
        if let Some(path) = &settings.ca_file {
            options = options.add_root_certificates(path.clone());
        }
        options.connect(servers).await.map_err(|error| match error.kind() {
            ConnectErrorKind::ServerParse => NatsError::Address(hosts),
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                NatsError::NotAllowed { address: hosts }
            }
            ConnectErrorKind::Tls => NatsError::Tls { address: hosts, reason: error.to_string() },
            ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => {
                NatsError::NotThere { address: hosts, reason: error.to_string() }
            }
        })
    })
}

/// The address without what must not reach a log.
pub fn shown(url: &str) -> String {
    let hosts = url.split(',').map(|server| server.rsplit(['@', '/']).next().unwrap_or(server).trim());
    hosts.collect::<Vec<_>>().join(",")
}

/// Anywhere between nothing and a bound that doubles: replicas that lost NATS together do not come back together.
/// The address of one server without the user and the password.
fn without_login(server: &str) -> String {
    let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

fn full_jitter(base: Duration, cap: Duration, attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.min(16)).unwrap_or(16);
    let bound = base.saturating_mul(2u32.saturating_pow(doublings)).min(cap);
    rand::rng().random_range(Duration::ZERO..=bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        assert_eq!(shown("nats://ada:secret@one:4222, nats://two:4222"), "one:4222,two:4222");
        for (given, expected) in [
            ("nats://ada:secret@one:4222", "nats://one:4222"),
            ("tls://ada@one", "tls://one"),
            ("one:4222", "nats://one:4222"),
            ("ada:se@cret@one", "nats://one"),
        ] {
            assert_eq!(without_login(given), expected);
        }
    }

    #[test]
    fn the_pause_before_a_reconnect_never_exceeds_its_cap() {
        let (base, cap) = (Duration::from_millis(20), Duration::from_secs(1));
        for attempts in 0..100 {
            assert!(full_jitter(base, cap, attempts) <= cap);
        }
        assert!(full_jitter(base, cap, 0) <= base);
    }
}
