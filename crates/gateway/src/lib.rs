//! HTTP in, HTTP out: the only place that knows paths, headers and status codes.
//!
//! A request passes the accept loop (`server`), a connection with timeouts and bounds,
//! the router, the caller's identity and role, and then one handler per endpoint: it reads through the store and
//! changes through the stages of `control`. Every error becomes a problem document in one place, `error`.

mod addresses;
mod auth;
mod body;
mod bounds;
mod certificate;
mod connection;
mod cursor;
mod error;
#[cfg(test)]
mod fuzz;
mod idempotency;
mod ingest;
mod metrics;
mod observe;
mod openapi;
mod origin;
mod pace;
mod path;
mod query;
mod router;
mod routes;
mod server;
mod settings;
mod start_headers;
mod state;
mod tls;
mod wire;

pub use openapi::document as openapi_document;
pub use server::{BindError, Gateway};
pub use settings::Settings;
pub use state::{Deployment, Foundation};
pub use tls::{TlsError, TlsFiles};
