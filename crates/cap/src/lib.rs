//! The worker protocol on NATS.
