//! The servers and programs that tests use start, answer, and end with their guards.

mod browser;
mod nats;
mod postgres;
mod programs;
mod redis;
