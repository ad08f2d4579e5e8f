//! `kill -9` at random moments under load: nothing acknowledged is lost, and no cap is exceeded.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::load::Load;
use super::server::Server;

fn kills() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak asks the same test for more")]
    let asked = std::env::var("INTERLOCK_SOAK_KILLS");
    asked.ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_no_cap_is_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let load = Load::begin(vec![server.caller("acme")]).await;
    let mut random = ChaCha8Rng::seed_from_u64(4_711);
    for _ in 0..kills() {
        // The moment of the kill is the fault that is injected, not a wait for something.
        tokio::time::sleep(Duration::from_millis(random.random_range(20..400))).await;
        server.kill();
        server = Server::start(folder.path());
        load.direct_to(vec![server.caller("acme")]);
    }
    load.check().await;
}
