//! Real Redis, NATS and Postgres servers for tests: each on a free port, in a folder of its own, gone with its guard.
//!
//! `cargo xtask test` installs the programs that are started here.

mod certificate;
mod cluster;
mod nats;
mod postgres;
mod process;
mod programs;
mod redis;
mod sentinel;
mod server;
mod waiting;

pub use certificate::Certificate;
pub use cluster::RedisCluster;
pub use nats::{Nats, NatsOptions, NatsRelease};
pub use postgres::Postgres;
pub use programs::{promtool, python, python_program};
pub use redis::{AppendOnly, Redis, RedisOptions};
pub use sentinel::Sentinel;
