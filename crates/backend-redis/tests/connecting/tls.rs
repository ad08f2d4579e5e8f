//! Redis behind TLS.

use std::time::Duration;

use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_servers::{Certificate, Port, Redis, RedisOptions};
use tempfile::TempDir;

use super::{get, refusal, set, settings};

/// A server whose second port speaks TLS, with a certificate that signs itself.
struct Guarded {
    server: Redis,
    port: Port,
    folder: TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Certificate::make(folder.path()).unwrap();
        let port = Port::reserve().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let arguments = vec![
            "--tls-port".to_owned(),
            port.number().to_string(),
            "--tls-cert-file".to_owned(),
            file("certificate.pem"),
            "--tls-key-file".to_owned(),
            file("key.pem"),
            "--tls-auth-clients".to_owned(),
            "no".to_owned(),
        ];
        let server = Redis::start(RedisOptions { arguments, ..RedisOptions::default() }).await.unwrap();
        Self { server, port, folder }
    }

    fn settings(&self, host: &str, port: u16) -> ConnectSettings {
        let ca_file = Some(self.folder.path().join("certificate.pem"));
        // A handshake takes its time on a busy machine.
        let connect_timeout = Duration::from_secs(30);
        ConnectSettings { ca_file, connect_timeout, ..settings(&format!("rediss://{host}:{port}")) }
    }
}

#[tokio::test]
async fn a_certificate_from_the_ca_file_is_trusted() {
    let guarded = Guarded::start().await;
    let connection = Connection::open(guarded.settings("localhost", guarded.port.number())).await.unwrap();
    set(&connection, "a", "1").await.unwrap();
    assert_eq!(get(&connection, "a").await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn what_cannot_be_trusted_is_refused() {
    let guarded = Guarded::start().await;
    let unknown = ConnectSettings { ca_file: None, ..guarded.settings("localhost", guarded.port.number()) };
    let other_name = guarded.settings("127.0.0.1", guarded.port.number());
    for settings in [unknown, other_name] {
        let refused = refusal(settings).await;
        assert!(refused.contains("the TLS connection to Redis"), "{refused}");
    }
    let mut plain_port = guarded.settings("localhost", guarded.server.port());
    plain_port.connect_timeout = Duration::from_millis(400);
    let plain_port = refusal(plain_port).await;
    assert!(plain_port.contains("perhaps this port does not speak TLS"), "{plain_port}");
    let mut missing = guarded.settings("localhost", guarded.port.number());
    missing.ca_file = Some(guarded.folder.path().join("nothing.pem"));
    assert!(refusal(missing).await.contains("nothing.pem cannot be used"));
    let mut key_only = guarded.settings("localhost", guarded.port.number());
    key_only.ca_file = Some(guarded.folder.path().join("key.pem"));
    assert!(refusal(key_only).await.contains("holds no certificate"));
}
