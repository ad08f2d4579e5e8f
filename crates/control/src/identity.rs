//! New names. Randomness comes in here, so that a simulation can replay it.

use std::sync::{Mutex, PoisonError};

use interlock_model::{EventId, InstanceId, LockRequest, LockToken, PermitId, RolloutId, RunId, Timestamp};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

/// Where new ids and jitter come from.
#[derive(Debug)]
pub struct Identity {
    random: Mutex<ChaCha8Rng>,
}

impl Identity {
    /// From the operating system's randomness.
    pub fn unpredictable() -> Self {
        let mut seed = [0; 32];
        rand::rng().fill_bytes(&mut seed);
        Self { random: Mutex::new(ChaCha8Rng::from_seed(seed)) }
    }

    /// The same ids for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) }
    }

    pub fn run_id(&self, now: Timestamp) -> RunId {
        RunId::new(now, self.draw(RngExt::random))
    }

    /// A name for one start of one process.
    pub fn instance_id(&self) -> InstanceId {
        let number: u64 = self.draw(RngExt::random);
        format!("i-{number:016x}").parse().expect("hexadecimal digits make a name")
    }

    /// A name for a roll-out; sorts by the time of its start.
    pub fn rollout_id(&self, now: Timestamp) -> RolloutId {
        let number: u32 = self.draw(RngExt::random);
        let id = format!("ro-{:011x}-{number:08x}", now.as_millis());
        id.parse().expect("hexadecimal digits make a name")
    }

    /// The name of one call for a lock, which is its token if it is granted.
    pub fn lock_token(&self) -> LockToken {
        format!("t-{}", self.unguessable()).parse().expect("hexadecimal digits make a token")
    }

    /// A request for a lock that its client did not name.
    pub fn lock_request(&self) -> LockRequest {
        format!("r-{}", self.unguessable()).parse().expect("hexadecimal digits make a request id")
    }

    /// A name for an adjustment of a budget that its client did not name.
    pub fn adjustment(&self) -> PermitId {
        self.unguessable().parse().expect("hexadecimal digits make a name")
    }

    /// An event that its sender did not name.
    pub fn event_id(&self) -> EventId {
        format!("e-{}", self.unguessable()).parse().expect("hexadecimal digits make an id")
    }

    fn unguessable(&self) -> String {
        let number: u128 = self.draw(RngExt::random);
        format!("{number:032x}")
    }

    /// A name for a store, given at its first start.
    pub fn epoch(&self) -> String {
        self.unguessable()
    }

    /// Secret bytes of a new key.
    pub fn secret(&self) -> [u8; 32] {
        self.draw(RngExt::random)
    }

    /// Somewhere between the two, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        self.draw(|random| random.random_range(low..=high.max(low)))
    }

    fn draw<T>(&self, from: impl FnOnce(&mut ChaCha8Rng) -> T) -> T {
        from(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
