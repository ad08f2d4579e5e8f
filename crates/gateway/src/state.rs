//! What all requests share: the stages, and the state of the gateway itself.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use interlock_backend::StoreReader;
use interlock_control::Control;
use interlock_control::api_keys::ApiKeys;
use interlock_model::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Refusal;
use crate::ingest::Ingest;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// What the gateway is built from.
pub struct Foundation {
    pub control: Arc<Control>,
    pub keys: Arc<ApiKeys>,
    /// Only to show how long ago something was; the store decides every expiry.
    pub clock: Arc<dyn Clock>,
    pub deployment: Deployment,
}

/// The parts of the process, as `GET /status` shows them.
#[derive(Debug, Clone)]
pub struct Deployment {
    pub roles: Vec<String>,
    pub backend: String,
    pub durability: String,
    pub bus: String,
    /// The prefix of the keys of locks.
    pub prefix: String,
}

pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    /// For reading. Only stages write.
    pub store: StoreReader,
    pub stages: Arc<Control>,
    pub keys: Arc<ApiKeys>,
    pub clock: Arc<dyn Clock>,
    pub deployment: Deployment,
    pub settings: Settings,
    pub metrics: Metrics,
    /// Whether only this machine can reach the gateway.
    pub is_loopback: bool,
    pub ingest: Ingest,
    /// Permits for event streams.
    pub streams: Arc<Semaphore>,
    /// Held during a scrape of the metrics.
    pub scrape: tokio::sync::Mutex<()>,
    /// Cancelled on shutdown: long polls answer, streams end.
    pub closing: CancellationToken,
    /// Work that must not be cancelled.
    in_progress: TaskTracker,
    pub started: Instant,
}

impl Shared {
    pub(crate) fn new(foundation: Foundation, settings: Settings, is_loopback: bool) -> App {
        let Foundation { control, keys, clock, deployment } = foundation;
        Arc::new(Self {
            metrics: Metrics::new(settings.tenant_labels_max),
            ingest: Ingest::new(settings.tenant_bytes_per_sec),
            streams: Arc::new(Semaphore::new(settings.streams_max)),
            scrape: tokio::sync::Mutex::default(),
            closing: CancellationToken::new(),
            in_progress: TaskTracker::new(),
            started: Instant::now(),
            store: control.process.reader(),
            stages: control,
            keys,
            clock,
            deployment,
            settings,
            is_loopback,
        })
    }

    /// Does `work` to its end, even if the client disconnects meanwhile. For work that acquires a run in several steps:
    /// stopped between two of them, it would hold the run until its lease expires. A start needs no such care: its
    /// admission is one step of the store, and the engine's next poll makes up for a lost wake-up.
    pub(crate) async fn to_the_end<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        E: Into<Refusal> + Send + 'static,
    {
        match self.in_progress.spawn(work).await {
            Ok(done) => done.map_err(Into::into),
            Err(error) => {
                tracing::error!(%error, "request panicked");
                Err(Refusal::bug())
            }
        }
    }

    /// Waits for what [`to_the_end`](Self::to_the_end) began.
    pub(crate) async fn finish(&self) {
        self.in_progress.close();
        self.in_progress.wait().await;
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
            store: interlock_backend::Store::new(Arc::new(memory::store(clock.clone()))),
            bus: Arc::new(InProcessBus::default()),
            clock: clock.clone(),
            identity: Identity::from_seed(1),
            instance: "i-1".parse().expect("a name"),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(parts, interlock_control::Settings::default());
        let keys = ApiKeys::load(control.process.clone(), None, None).await.unwrap();
        let [backend, durability, bus, prefix] =
            ["memory", "none", "in process", "cordum"].map(str::to_owned);
        let deployment = Deployment { roles: Vec::new(), backend, durability, bus, prefix };
        Shared::new(Foundation { control, keys, clock, deployment }, Settings::default(), true)
    }

    #[tokio::test]
    async fn work_in_progress_outlives_its_request() {
        let app = app().await;
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let request = tokio::spawn({
            let app = app.clone();
            async move {
                app.to_the_end(async move {
                    began.send(()).unwrap();
                    released.await.unwrap();
                    done.send(()).unwrap();
                    Ok::<(), Refusal>(())
                })
                .await
            }
        });
        has_begun.await.unwrap();
        request.abort();
        release.send(()).unwrap();
        is_done.await.unwrap();
        app.finish().await;
    }
}
