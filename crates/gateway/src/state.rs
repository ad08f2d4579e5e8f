//! What all requests share.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use interlock_control::Control;
use interlock_control::keys::KeyRing;
use interlock_model::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Refusal;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// What the gateway stands on.
pub struct Foundation {
    pub control: Arc<Control>,
    pub keys: Arc<KeyRing>,
    /// Only to tell how long ago something was; the store decides every expiry.
    pub clock: Arc<dyn Clock>,
    pub deployment: Deployment,
}

/// What the process is made of, in words, for `GET /status`.
#[derive(Debug, Clone)]
pub struct Deployment {
    pub roles: Vec<String>,
    pub backend: String,
    pub durability: String,
    pub bus: String,
}

pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub control: Arc<Control>,
    pub keys: Arc<KeyRing>,
    pub clock: Arc<dyn Clock>,
    pub deployment: Deployment,
    pub settings: Settings,
    pub metrics: Metrics,
    /// Whether only this machine can reach us.
    pub is_loopback: bool,
    /// Places for event streams.
    pub streams: Arc<Semaphore>,
    /// No more waiting: long polls answer, streams end.
    pub closing: CancellationToken,
    /// Work that must not end half-way.
    in_hand: TaskTracker,
    pub started: Instant,
}

impl Shared {
    pub(crate) fn new(foundation: Foundation, settings: Settings, is_loopback: bool) -> App {
        let Foundation { control, keys, clock, deployment } = foundation;
        Arc::new(Self {
            metrics: Metrics::new(settings.tenant_labels_max),
            streams: Arc::new(Semaphore::new(settings.streams_max)),
            closing: CancellationToken::new(),
            in_hand: TaskTracker::new(),
            started: Instant::now(),
            control,
            keys,
            clock,
            deployment,
            settings,
            is_loopback,
        })
    }

    /// Does `work` to its end, even if the client hangs up meanwhile. For work that takes a run in several steps:
    /// stopped between two of them, it would hold the run until its lease ends. A start needs no such care: its
    /// admission is one step of the store, and a lost wake-up is made up for at the engine's next look.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        match self.in_hand.spawn(work).await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a request ended by a bug");
                Err(Refusal::bug())
            }
        }
    }

    /// Waits for what [`to_the_end`](Self::to_the_end) began.
    pub(crate) async fn finish(&self) {
        self.in_hand.close();
        self.in_hand.wait().await;
    }
}
