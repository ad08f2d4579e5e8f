//! How a process reaches Redis, tried on real servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod breaking;
mod cluster;
mod durability;
mod opening;
mod sentinel;
mod tls;

use std::time::Duration;

use interlock_backend_redis::connect::{ConnectSettings, Connection, SendError};
use redis::Value;

/// Settings with short waits, so that a test of a time-out is over soon.
fn settings(url: &str) -> ConnectSettings {
    ConnectSettings {
        response_timeout: Duration::from_millis(400),
        connect_timeout: Duration::from_millis(400),
        ..ConnectSettings::new(url.parse().unwrap())
    }
}

async fn open(url: &str) -> Connection {
    Connection::open(settings(url)).await.unwrap()
}

/// Why the store at `settings` is refused.
async fn refusal(settings: ConnectSettings) -> String {
    Connection::open(settings).await.unwrap_err().to_string()
}

async fn set(connection: &Connection, key: &str, value: &str) -> Result<Value, SendError> {
    connection.send(redis::cmd("SET").arg(key).arg(value), true).await
}

async fn get(connection: &Connection, key: &str) -> Result<Option<String>, SendError> {
    let value = connection.send(redis::cmd("GET").arg(key), false).await?;
    Ok(redis::from_redis_value(value).unwrap())
}
