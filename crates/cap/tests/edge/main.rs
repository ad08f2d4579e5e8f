//! The edge against real servers: every rule on the oldest NATS that is supported and on the newest.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod dispatch;
mod python;
mod results;
mod scene;
mod scheduling;
mod silence;
mod streams;
mod worker;

/// Makes a test for each release of NATS out of each rule.
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
