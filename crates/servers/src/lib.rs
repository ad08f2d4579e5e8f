//! Real Redis, NATS and PostgreSQL servers for tests: each on a free port, in its own folder, stopped with its guard.
//!
//! A test that stops or configures a server starts its own. Others share one per test binary: [`Redis::shared`] with keys
//! of their own, [`PostgresDatabase::create`] with a database of their own.
//!
//! `cargo xtask test` installs the programs that are started here.

mod certificate;
mod cluster;
mod database;
mod nats;
mod port;
mod postgres;
mod process;
mod programs;
mod redis;
mod sentinel;
mod server;

pub use certificate::Certificate;
pub use cluster::RedisCluster;
pub use database::PostgresDatabase;
pub use nats::{Nats, NatsOptions, NatsRelease};
pub use port::Port;
pub use postgres::Postgres;
pub use programs::{promtool, python, python_program};
pub use redis::{AppendOnly, Redis, RedisOptions};
pub use sentinel::Sentinel;
