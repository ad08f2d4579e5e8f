//! Retry delays as pure functions of a policy, the attempt and a recorded seed.

mod backoff;
mod policy;
mod seed;
mod text;

pub use backoff::{Backoff, Jitter};
pub use policy::{DELAY_MAX, InvalidPolicy, RetryPolicy};
pub use seed::Seed;
