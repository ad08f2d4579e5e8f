//! How this process reaches Redis: one server, the master that Sentinels name, or a Cluster.
//!
//! One rule stands above all others here: a command that was handed to a socket and has no answer is *unknown*, never
//! failed ([`SendError::effect`]).

mod address;
mod checks;
mod cluster;
mod connection;
mod dialer;
mod error;
mod facts;
mod finder;
mod judgement;
mod lane;
mod live;
mod master;
mod persistence;
mod settings;

pub use address::{Address, AddressError};
pub use connection::Connection;
pub use error::{OpenError, SendError, SendErrorKind};
pub use settings::{ConnectSettings, Durability, DurabilityError, PREFIX_DEFAULT};
