//! Real Redis, NATS and PostgreSQL servers for tests: each on a free port, in its own folder, stopped with its guard. And a
//! browser.
//!
//! A test that stops or configures a server starts its own. Others share one per test binary: [`Redis::shared`] with keys
//! of their own, [`PostgresDatabase::create`] with a database of their own.
//!
//! `cargo xtask test` installs the programs that are started here.

mod browser;
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

pub use browser::{Browser, BrowserPage};
pub use certificate::Certificate;
pub use cluster::RedisCluster;
pub use database::PostgresDatabase;
pub use nats::{Nats, NatsOptions, NatsRelease};
pub use port::Port;
pub use postgres::Postgres;
pub use programs::{promtool, python, python_program};
pub use redis::{AppendOnly, Redis, RedisOptions};
pub use sentinel::Sentinel;
