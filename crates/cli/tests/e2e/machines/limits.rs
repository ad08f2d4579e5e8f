//! The rules of limits on Redis.

use super::Machines;
use crate::limits::{keyed, policies};

#[tokio::test]
async fn every_policy_answers_starts_and_their_repeats_on_redis() {
    let machines = Machines::start(1).await;
    policies::all(&machines.replicas[0]).await;
}

#[tokio::test]
async fn fifty_keys_of_twenty_starts_run_one_at_a_time_each_on_redis() {
    let machines = Machines::start(1).await;
    keyed::never_two_of_a_key_and_all_end(&machines.replicas[0]).await;
}
