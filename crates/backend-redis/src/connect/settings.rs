//! What an operator chooses about the connection.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::address::Address;

/// With this prefix, keys other than locks stand as they are: data of an earlier installation is found again.
pub const PREFIX_DEFAULT: &str = "cordum";

const REPLICAS_MAX: u32 = 10;

#[derive(Debug, Clone)]
pub struct ConnectSettings {
    pub address: Address,
    pub prefix: String,
    pub durability: Durability,
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
    /// How long a command waits for a connection that is being made again.
    pub connection_wait: Duration,
    pub reconnect_base: Duration,
    pub reconnect_cap: Duration,
    /// The certificates to trust instead of those of the machine, as PEM.
    pub ca_file: Option<PathBuf>,
}

impl ConnectSettings {
    pub fn new(address: Address) -> Self {
        Self {
            address,
            prefix: PREFIX_DEFAULT.to_owned(),
            durability: Durability::AsConfigured,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(2),
            connection_wait: Duration::from_millis(300),
            reconnect_base: Duration::from_millis(20),
            reconnect_cap: Duration::from_secs(1),
            ca_file: None,
        }
    }

    /// How long WAIT may block. Less than the response timeout, so that a missing replica is distinguished from a
    /// missing answer.
    pub(super) fn replica_wait(&self) -> Duration {
        self.response_timeout / 2
    }
}

/// What must be true before a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// What the server's own settings give; nothing is checked.
    AsConfigured,
    /// On the master's disk: the server must run with `appendonly yes` and `appendfsync always`.
    Fsync,
    /// In the memory of this number of replicas.
    Replicas(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("durability must be as-configured, fsync, or replicas:N with N from 1 to {REPLICAS_MAX}")]
pub struct DurabilityError;

impl FromStr for Durability {
    type Err = DurabilityError;

    fn from_str(text: &str) -> Result<Self, DurabilityError> {
        match text {
            "as-configured" => Ok(Self::AsConfigured),
            "fsync" => Ok(Self::Fsync),
            _ => text
                .strip_prefix("replicas:")
                .and_then(|number| number.parse().ok())
                .filter(|number| (1..=REPLICAS_MAX).contains(number))
                .map(Self::Replicas)
                .ok_or(DurabilityError),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsConfigured => formatter.write_str("as-configured"),
            Self::Fsync => formatter.write_str("fsync"),
            Self::Replicas(number) => write!(formatter, "replicas:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_reads_what_it_writes_and_refuses_the_rest() {
        for durability in
            [Durability::AsConfigured, Durability::Fsync, Durability::Replicas(1), Durability::Replicas(10)]
        {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for wrong in ["", "always", "replicas", "replicas:", "replicas:0", "replicas:11", "replicas:-1"] {
            assert_eq!(wrong.parse::<Durability>(), Err(DurabilityError), "{wrong}");
        }
    }
}
