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
    /// What the keys of locks begin with.
    pub prefix: String,
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
    /// Held while the metrics are put together.
    pub scrape: tokio::sync::Mutex<()>,
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
            scrape: tokio::sync::Mutex::default(),
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

#[cfg(test)]
pub(crate) mod tests {
    use interlock_backend::clock::SystemClock;
    use interlock_backend::{InProcessBus, memory};
    use interlock_control::identity::Identity;
    use interlock_control::service;

    use super::*;

    /// A gateway on an empty store, without its accept loop.
    pub(crate) async fn app() -> App {
        let clock = Arc::new(SystemClock);
        let parts = service::Foundation {
            store: Arc::new(memory::store(clock.clone())),
            bus: Arc::new(InProcessBus::default()),
            clock: clock.clone(),
            identity: Identity::from_seed(1),
            instance: "i-1".parse().expect("a name"),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(parts, interlock_control::Settings::default());
        let keys = KeyRing::load(&control, None).await.unwrap();
        let [backend, durability, bus, prefix] =
            ["memory", "none", "in process", "cordum"].map(str::to_owned);
        let deployment = Deployment { roles: Vec::new(), backend, durability, bus, prefix };
        Shared::new(Foundation { control, keys, clock, deployment }, Settings::default(), true)
    }

    #[tokio::test]
    async fn work_in_hand_outlives_whoever_asked_for_it() {
        let app = app().await;
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let asking = tokio::spawn({
            let app = app.clone();
            async move {
                app.to_the_end(async move {
                    began.send(()).unwrap();
                    released.await.unwrap();
                    done.send(()).unwrap();
                    Ok(())
                })
                .await
            }
        });
        has_begun.await.unwrap();
        asking.abort();
        release.send(()).unwrap();
        is_done.await.unwrap();
        app.finish().await;
    }
}
