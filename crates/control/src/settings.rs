//! Every wait, bound and period of the stages, read once and passed in.

use std::time::Duration;

use interlock_model::contention::{AdmissionStrategy, RunStrategy, Scope, Tuning};
use interlock_model::lock::{Inventory, LockLimits};
use interlock_model::scheduling::Pools;
use interlock_model::trace::SampleRatio;

use crate::dispatch_policy::DispatchPolicy;

/// How the stages behave. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Runs that the engine acquires in one step.
    pub take_max: usize,
    /// Acquires that the engine has in progress at once.
    pub engine_lanes: usize,
    /// The longest that a turn may compute before it is abandoned. None: it computes where it is, for as long as it takes.
    /// The simulation on its paused clock needs that.
    pub turn_time_max: Option<Duration>,
    /// Abandoned turns in a row after which a run is quarantined.
    pub turn_tries_max: u32,
    /// The longest that a turn waits for more results if it would only write those that it has.
    pub gather_max: Duration,
    /// How often the engine and the reconcilers poll, should a wake-up be lost.
    pub poll: Duration,
    /// How often a waiting claim polls, should a wake-up be lost.
    pub claim_poll: Duration,
    /// How often the runs that clients wait for are looked at, should a wake-up be lost.
    pub run_end_poll: Duration,
    /// Requests that may wait for the end of a run at once, in all and of one tenant.
    pub run_waiters_max: usize,
    pub tenant_run_waiters_max: usize,
    /// A worker's lease if it requests none.
    pub job_lease: Duration,
    /// How long a client that cancels waits for the run to have ended.
    pub cancel_wait: Duration,
    /// Compiled workflow versions kept in memory.
    pub definitions_max: usize,
    /// Whole runs kept in memory between two turns.
    pub cached_runs_max: usize,
    /// How often an admission whose answer was lost is repeated before its outcome counts as unknown.
    pub admission_repeats_max: u32,
    /// Bounds of the `Retry-After` of a refused client.
    pub retry_after_min: Duration,
    pub retry_after_max: Duration,
    /// What a tenant may have of locks.
    pub lock_limits: LockLimits,
    /// A waiter for a lock that has not polled for this long counts as dead. Waiters poll three times as often.
    pub lock_silence: Duration,
    /// How often the first in the queue polls, should a wake-up be lost.
    pub lock_poll: Duration,
    /// The lease and period of each of our own locks.
    pub locks: Inventory,
    /// Of the keys of locks, as people find them in the store.
    pub lock_prefix: String,
    pub admission_strategy: AdmissionStrategy,
    pub run_strategy: RunStrategy,
    /// How starts wait for the admission lock, until the store says otherwise.
    pub admission_tuning: Tuning,
    /// How results wait for a busy run, until the store says otherwise.
    pub lock_busy_tuning: Tuning,
    /// Deliveries of one result until it becomes a dead letter.
    pub deliveries_max: u32,
    /// Dead letters that a tenant may have; those of the oldest runs make room.
    pub dead_letters_max: u32,
    /// How long runs are kept after they have ended; absent means for ever.
    pub run_retention: Option<Duration>,
    /// A NATS worker that was not heard of for this long is offline.
    pub worker_silence: Duration,
    /// Which topics are for which workers.
    pub pools: Pools,
    /// How often tunings are read again, should a wake-up be lost.
    pub tuning_poll: Duration,
    /// Which jobs need a decision before they may go to a worker.
    pub dispatch_policy: DispatchPolicy,
    /// The share of runs that is traced. None: no spans are emitted.
    pub traces: Option<SampleRatio>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            take_max: 32,
            engine_lanes: 4,
            turn_time_max: Some(Duration::from_secs(10)),
            turn_tries_max: 5,
            gather_max: Duration::from_millis(50),
            poll: Duration::from_millis(500),
            claim_poll: Duration::from_secs(2),
            run_end_poll: Duration::from_secs(2),
            run_waiters_max: 4_000,
            tenant_run_waiters_max: 1_000,
            job_lease: Duration::from_secs(15),
            cancel_wait: Duration::from_secs(5),
            definitions_max: 1_024,
            cached_runs_max: 128,
            admission_repeats_max: 3,
            retry_after_min: Duration::from_secs(1),
            retry_after_max: Duration::from_mins(1),
            lock_limits: LockLimits::default(),
            lock_silence: Duration::from_secs(10),
            lock_poll: Duration::from_secs(1),
            locks: Inventory::default(),
            lock_prefix: "cordum".to_owned(),
            admission_strategy: AdmissionStrategy::default(),
            run_strategy: RunStrategy::default(),
            admission_tuning: Scope::Admission.tuning(),
            lock_busy_tuning: Scope::LockBusy.tuning(),
            deliveries_max: 100,
            dead_letters_max: 10_000,
            run_retention: None,
            worker_silence: Duration::from_secs(30),
            pools: Pools::default(),
            tuning_poll: Duration::from_millis(500),
            dispatch_policy: DispatchPolicy::default(),
            traces: None,
        }
    }
}
