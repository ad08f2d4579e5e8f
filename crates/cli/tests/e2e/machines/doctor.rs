//! The doctor on many machines, and with half of them gone.

use super::Machines;
use crate::doctor::{doctor, names};

#[tokio::test]
async fn fresh_replicas_are_well_and_without_redis_the_doctor_says_what_it_could_not_see() {
    let mut machines = Machines::start(1).await;
    let base = machines.replicas[0].base.clone();
    let (code, told) = doctor(&base, &[]);
    assert_eq!((code, names(&told["findings"])), (Some(0), Vec::new()), "{told:#}");
    machines.redis.kill().await.unwrap();
    let (code, told) = doctor(&base, &[]);
    assert_eq!((code, names(&told["findings"])), (Some(3), Vec::new()), "{told:#}");
    let unseen = told["unseen"].to_string();
    assert!(unseen.contains("the rows of the tenants") && unseen.contains("loop_not_ticking"), "{told:#}");
}
