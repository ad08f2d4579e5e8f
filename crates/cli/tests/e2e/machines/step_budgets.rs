//! Workers that spend while replicas on Redis are killed.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::Machines;
use crate::step_budgets::Spending;

const KILLS: usize = 5;

#[tokio::test]
async fn results_settle_once_while_replicas_are_killed() {
    let mut machines = Machines::start(2).await;
    let spending = Spending::begin(machines.replicas[0].caller("acme")).await;
    let mut random = ChaCha8Rng::seed_from_u64(32);
    spending
        .under(async {
            for _ in 0..KILLS {
                // The moment of the kill is the injected fault, not a wait.
                tokio::time::sleep(Duration::from_millis(random.random_range(50..500))).await;
                machines.replicas.remove(0).kill();
                spending.direct_to(machines.replicas[0].caller("acme"));
                let next = machines.replica();
                machines.replicas.push(next);
            }
        })
        .await;
    spending.adds_up().await;
}
