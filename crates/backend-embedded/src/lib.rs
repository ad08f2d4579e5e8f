//! One node: one `SQLite` file, group commit, in-process wake-ups.
//!
//! The verbs are decisions over ordered tables, shared with the in-memory backend; this crate keeps the tables. One
//! thread writes: it takes the requests that came during the last commit, decides them in order in one transaction, and
//! answers when that is on the disk. A few threads read, each from its own snapshot. What almost every start reads
//! is also in memory, so that a refusal costs neither.

mod connection;
mod damage;
mod error;
mod folder;
mod hot_rows;
mod log;
mod readers;
mod row_cache;
mod schema;
mod statements;
mod tables;
mod threads;
mod time_mark;
mod write_request;
mod writer;

pub use error::OpenError;
pub use tables::{EmbeddedStore, EmbeddedTables, open};
