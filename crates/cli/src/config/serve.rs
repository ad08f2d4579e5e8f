//! Settings of `serve`: one list of flags, which is also the list of variables (`INTERLOCK_<FLAG>`) and of the keys of
//! the file, so that the three cannot differ.

mod dispatch_policy;
mod flags;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use interlock_model::contention::{AdmissionStrategy, RunStrategy, Scope, Tuning};
use interlock_model::scheduling::Pools;
use serde::Deserialize;

use super::Environment;
use crate::exit::{Failure, Result};
pub(crate) use dispatch_policy::{DispatchPolicyChoices, PolicyServiceChoices};
use flags::PolicyText;
pub(crate) use flags::ServeFlags;

/// Every reconnect of NATS is told by us already.
const LOG_LEVEL_DEFAULT: &str = "info,async_nats=warn";

/// What a process can do. All of it, or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Gateway,
    Engine,
    Scheduler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A text that must not reach a log.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(secret)")
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// What `serve` goes by. A time that is absent is the default of whoever uses it.
#[derive(Debug, Clone)]
pub(crate) struct ServeConfig {
    pub(crate) listen: SocketAddr,
    /// Whether the address was asked for: then a process without a gateway can be watched there.
    pub(crate) listen_is_chosen: bool,
    pub(crate) data: PathBuf,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) admin_key: Option<Secret>,
    /// None: everything is in the folder.
    pub(crate) machines: Option<Machines>,
    /// Which topics are for which workers.
    pub(crate) pools: Pools,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
    pub(crate) poll: Option<Duration>,
    pub(crate) job_lease: Option<Duration>,
    pub(crate) run_lease: Option<Duration>,
    pub(crate) body_timeout: Option<Duration>,
    pub(crate) header_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) shutdown_grace: Option<Duration>,
    pub(crate) locks: LockChoices,
    pub(crate) contention: ContentionChoices,
    pub(crate) dispatch_policy: DispatchPolicyChoices,
    pub(crate) keeping: KeepingChoices,
}

/// What is chosen about how much is kept, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct KeepingChoices {
    pub(crate) dead_letters_max: Option<NonZeroU32>,
    pub(crate) run_retention: Option<Duration>,
}

/// What is chosen about locks.
#[derive(Debug, Clone)]
pub(crate) struct LockChoices {
    pub(crate) held_max: Option<NonZeroU32>,
    pub(crate) waiting_max: Option<NonZeroU32>,
    pub(crate) line_max: Option<NonZeroU32>,
    pub(crate) silence: Option<Duration>,
    pub(crate) poll: Option<Duration>,
    pub(crate) job_lease: Option<Duration>,
    pub(crate) reconcile_every: Option<Duration>,
    pub(crate) snapshot_every: Option<Duration>,
}

/// What is chosen about contention, all of it in bounds.
#[derive(Debug, Clone)]
pub(crate) struct ContentionChoices {
    pub(crate) admission_strategy: AdmissionStrategy,
    pub(crate) run_strategy: RunStrategy,
    pub(crate) admission: Tuning,
    pub(crate) lock_busy: Tuning,
    pub(crate) gather_max: Option<Duration>,
    pub(crate) deliveries_max: Option<NonZeroU32>,
}

/// Redis and NATS, and what is chosen about them.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) redis: Secret,
    pub(crate) nats: Secret,
    pub(crate) blob_redis: Option<Secret>,
    pub(crate) prefix: Option<String>,
    pub(crate) durability: Option<String>,
    pub(crate) redis_ca_file: Option<PathBuf>,
    pub(crate) nats_ca_file: Option<PathBuf>,
    pub(crate) stream_replicas: Option<NonZeroUsize>,
    pub(crate) store_timeout: Option<Duration>,
    pub(crate) worker_silence: Option<Duration>,
    pub(crate) worker_lease: Option<Duration>,
    pub(crate) redelivery_delay: Option<Duration>,
}

impl ServeConfig {
    /// Flags over environment over file over defaults.
    pub(crate) fn resolve(flags: ServeFlags, environment: &Environment) -> Result<Self> {
        let given = flags.over(ServeFlags::of_environment(environment)?);
        let file = match &given.config {
            None => ServeFlags::default(),
            Some(path) => {
                let named = |error: &dyn fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
                ServeFlags::of_file(&text).map_err(|error| named(&error))?
            }
        };
        let mut config = given.over(file).with_defaults()?;
        if let Some(service) = &mut config.dispatch_policy.service {
            service.bearer = environment.first(&["INTERLOCK_DISPATCH_POLICY_BEARER"]).map(Secret);
        }
        Ok(config)
    }
}

impl ServeFlags {
    fn with_defaults(self) -> Result<ServeConfig> {
        Ok(ServeConfig {
            machines: self.machines()?,
            locks: self.locks(),
            contention: self.contention()?,
            keeping: KeepingChoices {
                dead_letters_max: self.dead_letters_max,
                run_retention: self.run_retention_ms.map(duration),
            },
            listen_is_chosen: self.listen.is_some(),
            listen: self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8081))),
            data: self.data.unwrap_or_else(|| PathBuf::from("./interlock-data")),
            roles: self.roles.map_or_else(
                || BTreeSet::from([Role::Gateway, Role::Engine, Role::Scheduler]),
                BTreeSet::from_iter,
            ),
            admin_key: self.admin_key,
            pools: self.pools.unwrap_or_default(),
            log_format: self.log_format.unwrap_or(LogFormat::Text),
            log_level: self.log_level.unwrap_or_else(|| LOG_LEVEL_DEFAULT.to_owned()),
            poll: self.poll_ms.map(duration),
            job_lease: self.job_lease_ms.map(duration),
            run_lease: self.run_lease_ms.map(duration),
            body_timeout: self.body_timeout_ms.map(duration),
            header_timeout: self.header_timeout_ms.map(duration),
            idle_timeout: self.idle_timeout_ms.map(duration),
            shutdown_grace: self.shutdown_grace_ms.map(Duration::from_millis),
            dispatch_policy: self.dispatch_policy.unwrap_or_default(),
        })
    }

    fn locks(&self) -> LockChoices {
        LockChoices {
            held_max: self.locks_per_tenant_max,
            waiting_max: self.lock_waiters_per_tenant_max,
            line_max: self.lock_line_max,
            silence: self.lock_silence_ms.map(duration),
            poll: self.lock_poll_ms.map(duration),
            job_lease: self.job_lock_ms.map(duration),
            reconcile_every: self.reconcile_ms.map(duration),
            snapshot_every: self.snapshot_ms.map(duration),
        }
    }

    fn contention(&self) -> Result<ContentionChoices> {
        let checked = |flag: &str, tuning: Tuning| {
            tuning.checked().map_err(|error| Failure::Usage(format!("--{flag}: {error}")))
        };
        let policy =
            |text: Option<PolicyText>, scope: Scope| text.map_or(scope.tuning().policy, |text| text.0);
        let (admission, lock_busy) = (Scope::Admission.tuning(), Scope::LockBusy.tuning());
        let admission = Tuning {
            policy: policy(self.admission_retry, Scope::Admission),
            max_wait_ms: self.admission_max_wait_ms.unwrap_or(admission.max_wait_ms),
            lock_ttl_ms: self.admission_lock_ttl_ms.unwrap_or(admission.lock_ttl_ms),
        };
        let lock_busy = Tuning {
            policy: policy(self.lock_busy_retry, Scope::LockBusy),
            max_wait_ms: self.lock_busy_max_wait_ms.unwrap_or(lock_busy.max_wait_ms),
            lock_ttl_ms: self.run_lease_ms.map_or(lock_busy.lock_ttl_ms, NonZeroU64::get),
        };
        Ok(ContentionChoices {
            admission_strategy: self.admission_strategy.map(Into::into).unwrap_or_default(),
            run_strategy: self.run_strategy.map(Into::into).unwrap_or_default(),
            admission: checked("admission-…", admission)?,
            lock_busy: checked("lock-busy-… or --run-lease", lock_busy)?,
            gather_max: self.gather_max_ms.map(Duration::from_millis),
            deliveries_max: self.deliveries_max,
        })
    }

    fn machines(&self) -> Result<Option<Machines>> {
        let (redis, nats) = match (&self.redis, &self.nats) {
            (None, None) => return Ok(None),
            (Some(redis), Some(nats)) => (redis.clone(), nats.clone()),
            (Some(_), None) => return Err(Failure::Usage("--redis also needs --nats".to_owned())),
            (None, Some(_)) => return Err(Failure::Usage("--nats also needs --redis".to_owned())),
        };
        Ok(Some(Machines {
            redis,
            nats,
            blob_redis: self.blob_redis.clone(),
            prefix: self.prefix.clone(),
            durability: self.durability.clone(),
            redis_ca_file: self.redis_ca_file.clone(),
            nats_ca_file: self.nats_ca_file.clone(),
            stream_replicas: self.stream_replicas,
            store_timeout: self.store_timeout_ms.map(duration),
            worker_silence: self.worker_silence_ms.map(duration),
            worker_lease: self.worker_lease_ms.map(duration),
            redelivery_delay: self.redelivery_delay_ms.map(duration),
        }))
    }
}

fn duration(milliseconds: NonZeroU64) -> Duration {
    Duration::from_millis(milliseconds.get())
}

#[cfg(test)]
mod tests;
