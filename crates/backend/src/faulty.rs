//! Fault injection: a backend that loses requests and replies and takes its time, the same way for the same seed.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::admission::StartOutcome;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::verbs::{Admit, Answer, Request};
use crate::{Backend, Effect, StoreError};

/// How often things go wrong, in calls of a thousand.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// The call never reaches the store.
    pub requests_lost: u32,
    /// The call is done, and its answer never arrives.
    pub replies_lost: u32,
    /// The call waits before it reaches the store, and its answer again, up to [`delay_max`](Self::delay_max) each.
    pub delayed: u32,
    pub delay_max: Duration,
}

impl Faults {
    pub const NONE: Self = Self { requests_lost: 0, replies_lost: 0, delayed: 0, delay_max: Duration::ZERO };
}

/// How many times as long as other calls one that cannot be taken back may be on its way.
const HELD_UP: u32 = 8;

/// A backend behind a bad network.
pub struct FaultyStore {
    backend: Arc<dyn Backend>,
    random: Mutex<ChaCha8Rng>,
    faults: Mutex<Faults>,
}

/// What happens to one call.
struct Fate {
    before: Option<Duration>,
    loss: Option<Loss>,
    after: Option<Duration>,
}

enum Loss {
    Request(Effect),
    Reply,
}

impl FaultyStore {
    pub fn new(backend: Arc<dyn Backend>, seed: u64, faults: Faults) -> Self {
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
        Self { backend, random, faults: Mutex::new(faults) }
    }

    /// From now on things go wrong this often.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    fn fate(&self) -> Fate {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut happens = |per_thousand: u32| random.random_range(0..1_000) < per_thousand;
        let (before, after) = (happens(faults.delayed), happens(faults.delayed));
        let (request, reply, is_known) =
            (happens(faults.requests_lost), happens(faults.replies_lost), happens(500));
        let mut wait =
            |delayed: bool| delayed.then(|| random.random_range(Duration::ZERO..=faults.delay_max));
        let loss = match (request, reply) {
            // A client sometimes knows that its request never left, and mostly does not.
            (true, _) => Some(Loss::Request(if is_known { Effect::NotDone } else { Effect::Unknown })),
            (false, true) => Some(Loss::Reply),
            (false, false) => None,
        };
        Fate { before: wait(before), loss, after: wait(after) }
    }
}

impl Fate {
    async fn befall(
        self,
        action: &'static str,
        call: impl Future<Output = Result<Answer, StoreError>>,
    ) -> Result<Answer, StoreError> {
        let unavailable =
            |effect, reason: &str| Err(StoreError::Unavailable { action, effect, reason: reason.to_owned() });
        if let Some(wait) = self.before {
            tokio::time::sleep(wait).await;
        }
        if let Some(Loss::Request(effect)) = self.loss {
            return unavailable(effect, "the request was lost");
        }
        let answer = call.await;
        if let Some(wait) = self.after {
            tokio::time::sleep(wait).await;
        }
        if let Some(Loss::Reply) = self.loss {
            return unavailable(Effect::Unknown, "the reply was lost");
        }
        answer
    }
}

#[async_trait]
impl Backend for FaultyStore {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let (fate, action, backend) = (self.fate(), request.action(), self.backend.clone());
        if !matches!(request, Request::Commit(_)) {
            return fate.befall(action, backend.ask(request)).await;
        }
        // A commit cannot be taken back: once sent it arrives, even if its caller no longer waits for the answer. It may be
        // delayed for longer, as by a process that stops after its last look at the clock.
        let fate = Fate { before: fate.before.map(|wait| wait * HELD_UP), ..fate };
        let sent = tokio::spawn(async move { fate.befall(action, backend.ask(request)).await });
        sent.await.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }

    /// Behind a bad network nothing is certain at once.
    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }
}
