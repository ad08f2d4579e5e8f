//! Why there is no connection, and why a command has no answer.

use interlock_backend::Effect;

/// Why [`Connection::open`](super::Connection::open) refused to start: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("Redis at {address} cannot be reached: {reason}. Start it, or correct the address.")]
    NotThere { address: String, reason: String },
    #[error(
        "Redis at {address} refuses the user or the password: {reason}. Correct them in the address, or the ACL of \
         the server."
    )]
    NotAllowed { address: String, reason: String },
    #[error(
        "the TLS connection to Redis at {address} failed: {reason}. Check that the port speaks TLS, that the \
         certificate names this host, and that ca_file holds the certificate that signed it."
    )]
    Tls { address: String, reason: String },
    #[error(
        "ca_file {path} cannot be used: {reason}. It must be a readable file of certificates in PEM form."
    )]
    CaFile { path: String, reason: String },
    #[error("the key prefix must be 1 to 64 letters, digits, dots, dashes or underscores")]
    Prefix,
    #[error("Redis at {address} is version {found}; at least 6.2 is needed. Upgrade the server.")]
    TooOld { address: String, found: String },
    #[error(
        "Redis at {address} evicts keys when its memory is full (maxmemory-policy {policy}), and runs with \
         them. Set maxmemory-policy noeviction."
    )]
    Evicts { address: String, policy: String },
    #[error(
        "Redis at {address} is a replica and takes no writes. Give the address of its master, or of the Sentinels."
    )]
    Replica { address: String },
    #[error("Redis at {address} is still loading its data. Start again when it has finished.")]
    Loading { address: String },
    #[error(
        "several hosts mean a Redis Cluster, but {address} is not in cluster mode. Name one host, or use \
         redis+sentinel://."
    )]
    NotCluster { address: String },
    #[error(
        "the Sentinel at {address} does not know a master named {master}. Correct the name in the address, or run \
         SENTINEL MONITOR."
    )]
    UnknownMaster { address: String, master: String },
    #[error("durability = \"fsync\" cannot be kept: {reason}")]
    NotFsync { reason: String },
    #[error(
        "durability = \"replicas:N\" is not offered on a Redis Cluster. Use \"fsync\" or \"as-configured\", or a \
         master with Sentinels."
    )]
    NoReplicasOnCluster,
    #[error(
        "the data in Redis was written by a newer release (schema {found}, this release knows {known}). Start that \
         release, or use another prefix or database."
    )]
    NewerData { found: u64, known: u64 },
    #[error(
        "the key {key} should hold the number of the data's schema, but cannot be read as one: {reason}. Another \
         program may use this database: choose another prefix or database."
    )]
    Schema { key: String, reason: String },
    #[error("Redis at {address} did not let us check it ({action}): {reason}")]
    Check { address: String, action: &'static str, reason: String },
}

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendError {
    pub effect: Effect,
    pub kind: SendErrorKind,
    pub reason: String,
}

impl SendError {
    /// What an answer names is not there any more.
    pub(crate) fn gone() -> Self {
        let reason = "a document that the answer names was deleted meanwhile".to_owned();
        Self { effect: Effect::Unknown, kind: SendErrorKind::Lost, reason }
    }

    /// The pieces of a large document take too long.
    pub(crate) fn too_slow() -> Self {
        let reason = "a large document took too long to send".to_owned();
        Self { effect: Effect::NotDone, kind: SendErrorKind::Lost, reason }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendErrorKind {
    /// The server does not have the script: load it and ask again.
    NoScript,
    /// The server answered with an error.
    Refused,
    /// The answer was lost, or came too late, or is not enough for the durability that was chosen.
    Lost,
    /// There was no connection to send it on.
    NotConnected,
}
