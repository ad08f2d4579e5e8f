//! The workers that can get jobs now.

use std::collections::HashMap;
use std::time::Duration;

use interlock_backend::registry::{RegisteredWorker, Registry};
use interlock_model::scheduling::{Edge, Pools};
use interlock_model::{TenantId, Timestamp, Topic};
use tokio::time::Instant;

use crate::settings::CapSettings;

/// The online workers with a handshake, as the store knew them a moment ago.
#[derive(Debug)]
pub(crate) struct WorkerView {
    requested_at: Instant,
    now: Timestamp,
    workers: Vec<RegisteredWorker>,
    by_topic: HashMap<Topic, Vec<usize>>,
}

impl WorkerView {
    /// `requested_at` is when the registry was requested: a slow answer is not younger. `connected` is how long the
    /// connection to NATS has lasted, if it was lost before: workers without a heartbeat since then are not back yet.
    pub(crate) fn new(
        registry: Registry,
        requested_at: Instant,
        connected: Option<Duration>,
        settings: &CapSettings,
        pools: &Pools,
    ) -> Self {
        let now = registry.now;
        // Half of the silence that costs a worker its jobs, so that no replica pushes to it at that time.
        let trusted = settings.silence / 2;
        let heard_within = connected.map_or(trusted, |connected| connected.min(trusted));
        let mut workers = registry.workers;
        for known in &mut workers {
            keep_admitted(known, pools);
        }
        workers.retain(|known| {
            let is_online = now.since(known.last_seen_at) <= heard_within;
            is_online && !known.is_draining && !topics(known).is_empty()
        });
        let mut by_topic: HashMap<Topic, Vec<usize>> = HashMap::new();
        for (position, known) in workers.iter().enumerate() {
            for topic in topics(known) {
                by_topic.entry(topic.clone()).or_default().push(position);
            }
        }
        Self { requested_at, now, workers, by_topic }
    }

    pub(crate) fn age(&self) -> Duration {
        self.requested_at.elapsed()
    }

    /// An estimate of the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.now + self.age()
    }

    /// The workers for this tenant's jobs of this topic.
    pub(crate) fn serving(&self, tenant: &TenantId, topic: &Topic) -> Vec<&RegisteredWorker> {
        let positions = self.by_topic.get(topic).into_iter().flatten();
        positions.map(|&position| &self.workers[position]).filter(|known| may_serve(known, tenant)).collect()
    }

    /// All workers for jobs of this tenant.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<&RegisteredWorker> {
        self.workers.iter().filter(|known| may_serve(known, tenant)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
}

pub(crate) fn topics(known: &RegisteredWorker) -> &[Topic] {
    known.handshake.as_ref().map_or(&[], |handshake| &handshake.topics)
}

pub(crate) fn capabilities(known: &RegisteredWorker) -> &[String] {
    known.beat.as_ref().map_or(&[], |beat| &beat.capabilities)
}

/// Removes the topics that the worker's pool does not admit.
fn keep_admitted(known: &mut RegisteredWorker, pools: &Pools) {
    let beat = known.beat.clone().unwrap_or_default();
    if let Some(handshake) = &mut known.handshake {
        let pool = beat.pool.as_deref();
        handshake.topics.retain(|topic| pools.admit(topic, Edge::Nats, pool, &beat.capabilities));
    }
}

fn may_serve(known: &RegisteredWorker, tenant: &TenantId) -> bool {
    let only = known.beat.as_ref().and_then(|beat| beat.tenant.as_ref());
    only.is_none_or(|only| only == tenant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_backend::registry::{Beat, Handshake};

    fn worker(name: &str, topics: Option<&[&str]>, tenant: Option<&str>, silent: u64) -> RegisteredWorker {
        let topics = topics.map(|topics| topics.iter().map(|topic| topic.parse().unwrap()).collect());
        RegisteredWorker {
            worker: name.parse().unwrap(),
            handshake: topics.map(|topics| Handshake { topics }),
            beat: Some(Beat { tenant: tenant.map(|tenant| tenant.parse().unwrap()), ..Beat::default() }),
            last_seen_at: Timestamp::from_millis(1_000_000 - silent * 1_000),
            is_draining: false,
        }
    }

    #[tokio::test]
    async fn after_a_reconnect_a_worker_needs_another_heartbeat() {
        let now = Timestamp::from_millis(1_000_000);
        let workers = vec![worker("back", Some(&["a"]), None, 1), worker("not-back", Some(&["a"]), None, 4)];
        let registry = Registry { now, workers };
        let connected = Some(Duration::from_secs(2));
        let view =
            WorkerView::new(registry, Instant::now(), connected, &CapSettings::default(), &Pools::default());
        let found = view.serving(&"acme".parse().unwrap(), &"a".parse().unwrap());
        assert_eq!(found.iter().map(|known| known.worker.as_str()).collect::<Vec<_>>(), ["back"]);
    }

    #[tokio::test]
    async fn only_online_workers_with_a_handshake_are_in_the_view_and_only_for_their_tenant() {
        let registry = Registry {
            now: Timestamp::from_millis(1_000_000),
            workers: vec![
                worker("general", Some(&["a", "b"]), None, 15),
                worker("silent", Some(&["a"]), None, 16),
                worker("stranger", None, None, 0),
                worker("acmes", Some(&["a"]), Some("acme"), 0),
                RegisteredWorker { is_draining: true, ..worker("draining", Some(&["a"]), None, 0) },
            ],
        };
        let view =
            WorkerView::new(registry, Instant::now(), None, &CapSettings::default(), &Pools::default());
        let names = |tenant: &str, topic: &str| {
            let found = view.serving(&tenant.parse().unwrap(), &topic.parse().unwrap());
            found.iter().map(|known| known.worker.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("acme", "a"), ["general", "acmes"]);
        assert_eq!(names("globex", "a"), ["general"]);
        assert_eq!(names("acme", "b"), ["general"]);
        assert_eq!(names("acme", "c"), Vec::<String>::new());
        let others = view.of_tenant(&"globex".parse().unwrap());
        assert_eq!((others.len(), topics(others[0]).len()), (1, 2));
    }
}
