//! The settings of NATS workers.

use std::time::Duration;

use interlock_model::scheduling::DEFAULT_CAPACITY;

/// The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct CapSettings {
    /// A worker loses its jobs after this time without a heartbeat.
    pub silence: Duration,
    /// When the handshake of a silent worker is forgotten. Workers send it once, when they start: one that was
    /// disconnected for a shorter time continues without another.
    pub forget_after: Duration,
    /// The lease of a job whose step has no timeout.
    pub lease: Duration,
    /// How long a pushed job may be missing in the heartbeats of its worker before they count as not having it.
    pub settling: Duration,
    /// How often the dispatcher scans for waiting jobs, in case a wake-up was lost.
    pub poll: Duration,
    /// The maximum age of the view of the workers.
    pub registry_age_max: Duration,
    /// How long a result that could not be handled waits before its next delivery.
    pub redelivery_delay: Duration,
    /// How often a result is delivered before it becomes a dead letter.
    pub max_deliver: i64,
    /// Results that may be in progress or deferred, over all replicas.
    pub max_ack_pending: i64,
    /// Concurrent jobs of a worker whose heartbeat does not say.
    pub default_capacity: u32,
    /// The installation, where several share a NATS: part of the names that its replicas share.
    pub installation: String,
    pub stream_replicas: usize,
}

impl CapSettings {
    /// A name that the replicas of one installation share.
    pub(crate) fn shared_name(&self, name: &str) -> String {
        if self.installation.is_empty() {
            return name.to_owned();
        }
        // Names of consumers have no dots.
        format!("{name}-{}", self.installation.replace('.', "_"))
    }
}

impl Default for CapSettings {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(30),
            forget_after: Duration::from_hours(1),
            lease: Duration::from_mins(15),
            settling: Duration::from_secs(1),
            poll: Duration::from_secs(2),
            registry_age_max: Duration::from_millis(500),
            redelivery_delay: Duration::from_millis(500),
            max_deliver: 100,
            max_ack_pending: 1_024,
            default_capacity: DEFAULT_CAPACITY,
            installation: String::new(),
            stream_replicas: 1,
        }
    }
}
