//! NATS workers on real servers: every rule on the oldest supported NATS and on the newest.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dispatch;
mod fixture;
mod lost_pushes;
mod permissions;
mod python;
mod results;
mod scheduling;
mod silence;
mod streams;
mod usage;
mod worker;

/// Makes a test of each rule for each release of NATS.
macro_rules! on_both_releases {
    ($($rule:ident),* $(,)?) => {
        mod debian {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                super::$rule(interlock_servers::NatsRelease::Debian).await;
            })*
        }
        mod newest {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                super::$rule(interlock_servers::NatsRelease::Newest).await;
            })*
        }
    };
}
use on_both_releases;
