//! Opens one socket to one server: TCP, TLS, login.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
};

use super::address::{Address, Host};
use super::error::OpenError;
use super::settings::ConnectSettings;

const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);

pub(super) struct Dialer {
    address: Address,
    certificates: Option<TlsCertificates>,
    connect_timeout: Duration,
    response_timeout: Duration,
}

/// Who we say we are, and whether there are databases to choose from: a Sentinel has none, and often no login either.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    User,
    SentinelUser,
    Anonymous,
}

impl Dialer {
    pub(super) async fn new(settings: &ConnectSettings) -> Result<Self, OpenError> {
        if settings.address.uses_tls() {
            // Err: the process has chosen one already. Without any, rustls would panic.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let certificates = match &settings.ca_file {
            Some(path) if settings.address.uses_tls() => {
                let refused = |reason: String| OpenError::CaFile { path: path.display().to_string(), reason };
                let pem = tokio::fs::read(path).await.map_err(|error| refused(error.to_string()))?;
                if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                    return Err(refused("it holds no certificate".to_owned()));
                }
                Some(TlsCertificates { client_tls: None, root_cert: Some(pem) })
            }
            Some(_) | None => None,
        };
        Ok(Self {
            address: settings.address.clone(),
            certificates,
            connect_timeout: settings.connect_timeout,
            response_timeout: settings.response_timeout,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Connects. `closed` is called once when the connection has ended, without anybody having to send on it.
    pub(super) async fn dial(
        &self,
        host: &Host,
        login: As,
        closed: impl Fn() + Send + Sync + 'static,
    ) -> RedisResult<MultiplexedConnection> {
        let information = self.information(host, login)?;
        let client = match &self.certificates {
            Some(certificates) => Client::build_with_tls(information, certificates.clone())?,
            None => Client::open(information)?,
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    closed();
                }
                Ok::<(), redis::aio::SendError>(())
            });
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A client for the Cluster that these hosts belong to. It never sends a command twice by itself: a second
    /// answer would hide that the first was lost.
    pub(super) fn cluster_client(&self) -> RedisResult<ClusterClient> {
        let seeds = self.address.hosts().iter().map(|host| self.information(host, As::User));
        let mut builder = ClusterClientBuilder::new(seeds.collect::<RedisResult<Vec<_>>>()?)
            .retries(0)
            .connection_timeout(self.connect_timeout)
            .response_timeout(self.response_timeout)
            .use_protocol(ProtocolVersion::RESP3)
            .tcp_settings(self.tcp_settings());
        if let Some(certificates) = &self.certificates {
            builder = builder.certs(certificates.clone());
        }
        builder.build()
    }

    /// Says why `host` could not be connected to.
    pub(super) fn explain(&self, host: &Host, error: &RedisError) -> OpenError {
        let address = host.to_string();
        let reason = self.address.hide_password(&error.to_string());
        let code = error.code().unwrap_or_default();
        let is_refused_login = matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM")
            || matches!(error.kind(), ErrorKind::AuthenticationFailed)
            || (code == "ERR" && reason.contains("AUTH"));
        if error.kind() == ErrorKind::RESP3NotSupported {
            OpenError::TooOld { address, found: "older than 6 (it does not know HELLO 3)".to_owned() }
        } else if code == "LOADING" {
            OpenError::Loading { address }
        } else if is_refused_login {
            OpenError::NotAllowed { address, reason }
        } else if self.address.uses_tls() && is_tls_failure(error) {
            OpenError::Tls { address, reason }
        } else if self.address.uses_tls() && error.is_timeout() {
            // A plain port waits for the end of what it takes for a very long line.
            OpenError::NotThere { address, reason: format!("{reason}; perhaps this port does not speak TLS") }
        } else {
            OpenError::NotThere { address, reason }
        }
    }

    fn information(&self, host: &Host, login: As) -> RedisResult<ConnectionInfo> {
        let Host { name, port } = host.clone();
        let address = if self.address.uses_tls() {
            ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(name, port)
        };
        // RESP3, because only there redis-rs reports a closed connection at once.
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("interlock", env!("CARGO_PKG_VERSION"));
        if login == As::User {
            redis = redis.set_db(self.address.database());
        }
        if let Some(login) = self.address.login().filter(|_| login != As::Anonymous) {
            redis = redis.set_password(&login.password);
            if let Some(user) = &login.user {
                redis = redis.set_username(user);
            }
        }
        Ok(address.into_connection_info()?.set_redis_settings(redis).set_tcp_settings(self.tcp_settings()))
    }

    fn tcp_settings(&self) -> TcpSettings {
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
        let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        // What was sent and not acknowledged by the other machine for so long ends the connection.
        #[cfg(target_os = "linux")]
        let settings = settings.set_user_timeout(self.response_timeout * 3);
        settings
    }
}

/// rustls reports a failed handshake as an I/O error of a kind of its own, or as an end of file that names TLS.
fn is_tls_failure(error: &RedisError) -> bool {
    let text = error.to_string();
    let elsewhere = error.is_timeout() || error.is_connection_refusal() || text.contains("lookup");
    let handshake = !error.is_connection_dropped() || text.contains("tls") || text.contains("TLS");
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Client) && handshake && !elsewhere
}
