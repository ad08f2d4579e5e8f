//! Commands sent to Redis directly: what it does when nothing stands before it.
//!
//! Not by `redis-benchmark`, which takes a command as arguments of a program: packed numbers have zero bytes, and arguments
//! cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline};

use super::machines::Machines;
use super::monitor::Words;
use crate::load::{self, Measured, micros};

/// Replaced in a command by twelve digits, each time by others.
pub(crate) const UNIQUE: &[u8; 12] = b"__distinct__";

/// What was sent by this process.
static SENT: AtomicU64 = AtomicU64::new(0);

/// A command that makes one new thing each time it is sent, because something in it is unique.
#[derive(Debug)]
pub(crate) struct Creating {
    pub(crate) words: Words,
    /// The command that counts these things.
    pub(crate) counted_by: Vec<String>,
}

impl Creating {
    fn command(&self) -> Cmd {
        let number = format!("{:012}", SENT.fetch_add(1, Ordering::Relaxed)).into_bytes();
        let mut command = Cmd::new();
        for word in &self.words {
            command.arg(with(word, &number));
        }
        command
    }
}

fn with(word: &[u8], number: &[u8]) -> Vec<u8> {
    let mut word = word.to_vec();
    for place in 0..word.len().saturating_sub(UNIQUE.len() - 1) {
        if word[place..].starts_with(UNIQUE) {
            word[place..place + UNIQUE.len()].copy_from_slice(number);
        }
    }
    word
}

/// Sends it for this time, each client waiting for its answer, and checks that each request created one thing.
pub(crate) async fn measure(
    machines: &Machines,
    creating: &Arc<Creating>,
    time: Duration,
    clients: usize,
) -> Result<Measured> {
    let count: Vec<&str> = creating.counted_by.iter().map(String::as_str).collect();
    let before = (machines.count(&count).await?, SENT.load(Ordering::Relaxed));
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(connect(machines).await?);
    }
    let measured =
        load::run(clients, time, |client, until| ask(connections[client].clone(), creating.clone(), until));
    let measured = measured.await?;
    let made = machines.count(&count).await?.saturating_sub(before.0);
    let sent = SENT.load(Ordering::Relaxed) - before.1;
    ensure!(made >= sent, "of {sent} commands only {made} did what they should");
    Ok(measured)
}

async fn ask(
    mut connection: MultiplexedConnection,
    creating: Arc<Creating>,
    until: Instant,
) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let command = creating.command();
        let began = Instant::now();
        command.query_async::<redis::Value>(&mut connection).await?;
        times.push(micros(began));
    }
    Ok(times)
}

/// Sends it `requests` times at once, and checks that each created one thing.
pub(crate) async fn send(machines: &Machines, creating: &Creating, requests: u64) -> Result<()> {
    let count: Vec<&str> = creating.counted_by.iter().map(String::as_str).collect();
    let before = machines.count(&count).await?;
    let mut pipeline = Pipeline::new();
    for _ in 0..requests {
        pipeline.add_command(creating.command()).ignore();
    }
    pipeline.query_async::<()>(&mut connect(machines).await?).await?;
    let made = machines.count(&count).await?.saturating_sub(before);
    // The gateway may have made something meanwhile.
    ensure!(made >= requests, "of {requests} commands only {made} did what they should");
    Ok(())
}

async fn connect(machines: &Machines) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", machines.redis_port()))?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_number_in_every_place() {
        let words = vec![b"SET".to_vec(), b"x:\x00__distinct__ and __distinct__:y".to_vec()];
        let creating = Creating { words, counted_by: Vec::new() };
        let packed = || creating.command().get_packed_command();
        let (first, second) = (packed(), packed());
        assert_ne!(first, second);
        assert!(!first.windows(UNIQUE.len()).any(|part| part == UNIQUE));
        assert_eq!(first.len(), second.len());
    }
}
