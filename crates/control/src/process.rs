//! What every stage of one process shares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::locks::Turn;
use interlock_backend::{Bus, Store, StoreError, StoreReader, Verb, Wake};
use interlock_model::job::JobLease;
use interlock_model::lock::LockName;
use interlock_model::scheduling::Edge;
use interlock_model::time::millis;
use interlock_model::{Clock, InstanceId, TenantId, Timestamp, Topic};
use tokio::time::Instant;

use crate::appointments::Appointments;
use crate::counts::{Counted, Counts};
use crate::identity::Identity;
use crate::installation::Installation;
use crate::settings::Settings;
use crate::traces::Traces;
use crate::wakeups::Wakeups;

/// The store, the bus and the clock of one process, and what its stages count and wait by.
pub struct Process {
    pub(crate) store: Store,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity: Identity,
    /// Unique to this start of this process.
    pub(crate) instance: InstanceId,
    pub(crate) settings: Settings,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) counts: Counts,
    pub(crate) traces: Traces,
    pub(crate) installation: Installation,
    pub(crate) appointments: Appointments,
}

impl Process {
    /// The store, for reading. Only stages write.
    pub fn reader(&self) -> StoreReader {
        self.store.reader()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// How the processes wake each other.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    pub fn wakeups(&self) -> &Arc<Wakeups> {
        &self.wakeups
    }

    pub fn traces(&self) -> Traces {
        self.traces
    }

    /// What the stages have counted.
    pub fn counted(&self) -> Counted {
        let counted = self.counts.counted();
        Counted { orphans_replayed: counted.orphans_replayed + self.wakeups.orphans.count(), ..counted }
    }

    /// For ids and for timestamps in messages; the store has its own clock for everything that expires.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The wall clock, as far as this process knows. The store decides which window of a budget it is; this says which
    /// one to ask for first.
    pub(crate) fn wall(&self) -> Timestamp {
        let (now, lead) = (self.now(), self.clock.wall_lead());
        let size = Duration::from_millis(lead.unsigned_abs());
        if lead >= 0 { now + size } else { now - size }
    }

    /// Between half and all of `longest`, so that replicas that fail together do not return together.
    pub fn jittered(&self, longest: Duration) -> Duration {
        Duration::from_millis(self.identity.between(millis(longest / 2), millis(longest)))
    }

    /// Whether the worker is not known to have the job that was pushed to it: the lease is still that of the dispatch.
    pub fn is_unconfirmed(&self, lease: &JobLease) -> bool {
        lease.edge == Some(Edge::Nats) && lease.ttl == self.settings.locks.job().ttl
    }

    pub(crate) fn call<V: Verb>(
        &self,
        verb: V,
    ) -> impl Future<Output = Result<V::Answer, StoreError>> + Send + '_ {
        self.store.call(verb)
    }

    pub(crate) fn wake(&self, wake: Wake) {
        self.bus.wake(wake);
    }

    /// Something that this process wrote is due then. What is due after the next poll is found by that.
    pub(crate) fn due_in(&self, delay: Duration) {
        if delay < self.settings.poll {
            self.appointments.make(Instant::now() + delay);
        }
    }

    /// Wakes one worker per job, topic by topic.
    pub(crate) fn announce_jobs(&self, tenant: &TenantId, dispatched: impl IntoIterator<Item = Topic>) {
        let mut waiting: BTreeMap<Topic, u32> = BTreeMap::new();
        for topic in dispatched {
            *waiting.entry(topic).or_default() += 1;
        }
        for (topic, jobs) in waiting {
            self.wake(Wake::JobsReady { tenant: tenant.clone(), topic, jobs });
        }
    }

    /// Wakes the waiter whose turn it is, and no other.
    pub(crate) fn pass_on_turn<T>(&self, lock: &LockName, turn: Turn<T>) -> T {
        if let Some(request) = turn.next {
            self.wake(Wake::LockTurn { lock: lock.clone(), request });
        }
        turn.answer
    }
}
