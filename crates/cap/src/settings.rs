//! Every wait, bound and period of the edge.

use std::time::Duration;

use interlock_model::scheduling::DEFAULT_CAPACITY;

/// How the edge behaves. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct CapSettings {
    /// A worker that was not heard of for so long has lost its jobs.
    pub silence: Duration,
    /// How long a worker may be silent before its introduction is forgotten. Workers introduce themselves once, when
    /// they start: one that was cut off for a while goes on where it was.
    pub forget_after: Duration,
    /// How long a job stays with its worker where its step has no time-out.
    pub lease: Duration,
    /// How often the edge looks for waiting jobs by itself, should a wake-up be lost.
    pub poll: Duration,
    /// How long a view of the workers is good enough to choose by.
    pub registry_age_max: Duration,
    /// How long a result that could not be handled waits before it is delivered again.
    pub redelivery_delay: Duration,
    /// How often a result is delivered before it becomes a dead letter.
    pub max_deliver: i64,
    /// How long a result may be in hand without a word before NATS gives it to another replica.
    pub ack_wait: Duration,
    /// Results that may be in hand, or wait for another delivery, over all replicas.
    pub max_ack_pending: i64,
    /// Results that this replica handles at once.
    pub results_at_once: usize,
    /// Jobs that a worker takes at once, where it does not say.
    pub default_capacity: u32,
    /// Whether a worker gets jobs before its first heartbeat. It then serves every tenant until the heartbeat's label
    /// names one, so installations with workers of one tenant may want to wait.
    pub push_before_beat: bool,
    /// How long NATS has to take a dispatch.
    pub publish_wait: Duration,
    /// Whose workers these are, where several installations share a NATS: part of the names of what replicas share.
    pub installation: String,
    pub stream_replicas: usize,
    /// How large each stream may become; the oldest messages make room.
    pub stream_bytes_max: i64,
    pub stream_age_max: Duration,
}

impl CapSettings {
    /// The name of something that the replicas of one installation share.
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
            poll: Duration::from_secs(2),
            registry_age_max: Duration::from_millis(500),
            redelivery_delay: Duration::from_millis(500),
            max_deliver: 100,
            ack_wait: Duration::from_secs(30),
            max_ack_pending: 1_024,
            results_at_once: 64,
            default_capacity: DEFAULT_CAPACITY,
            push_before_beat: true,
            publish_wait: Duration::from_secs(5),
            installation: String::new(),
            stream_replicas: 1,
            stream_bytes_max: 1 << 30,
            stream_age_max: Duration::from_hours(7 * 24),
        }
    }
}
