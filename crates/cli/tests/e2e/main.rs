//! Black box: through the binary and the wire, as a user would.

mod caps;
mod commands;
mod folder;
mod idempotency;
mod kills;
mod paused_worker;
mod server;
mod story;
mod walk_through;
