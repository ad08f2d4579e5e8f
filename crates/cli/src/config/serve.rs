//! Settings of `serve`: one list of flags, which is also the list of variables (`INTERLOCK_<FLAG>`) and of the keys of
//! the file, so that the three cannot differ.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches, ValueEnum};
use serde::Deserialize;

use super::Environment;
use crate::exit::{Failure, Result};

/// Every reconnect of NATS is told by us already.
const LOG_LEVEL_DEFAULT: &str = "info,async_nats=warn";

/// One layer of settings: the flags, the environment or the file. What is absent is left to the layer below.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeFlags {
    /// The address to listen on [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The folder to keep everything in [default: ./interlock-data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// What this process does [default: all of it]
    #[arg(long, value_delimiter = ',', value_name = "ROLE,…")]
    roles: Option<Vec<Role>>,
    /// A TOML file; each of its keys is the name of a flag with underscores
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// A first admin key, for a server that has none yet; better given by `INTERLOCK_ADMIN_KEY`
    #[arg(long, value_name = "KEY")]
    admin_key: Option<Secret>,
    /// Where Redis is: `redis://[user:password@]host:port`, `rediss://` for TLS, `redis+sentinel://host:port,…/master`, or
    /// several hosts of a Cluster with commas
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    redis: Option<Secret>,
    /// Where NATS is, with `JetStream`: `nats://[user:password@]host:port`, or `tls://`
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    nats: Option<Secret>,
    /// A plain Redis for the inputs and results of workers on NATS [default: --redis]
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    blob_redis: Option<Secret>,
    /// What the names of locks, and with another value than the default all keys, begin with [default: cordum]
    #[arg(long, value_name = "NAME", help_heading = "Many machines")]
    prefix: Option<String>,
    /// What must be true before a start is acknowledged: as-configured, fsync or replicas:N [default: as-configured]
    #[arg(long, value_name = "WHAT", help_heading = "Many machines")]
    durability: Option<String>,
    /// Certificates to trust for Redis instead of the machine's own
    #[arg(long, value_name = "FILE", help_heading = "Many machines")]
    redis_ca_file: Option<PathBuf>,
    /// Certificates to trust for NATS instead of the machine's own
    #[arg(long, value_name = "FILE", help_heading = "Many machines")]
    nats_ca_file: Option<PathBuf>,
    /// How many copies NATS keeps of its streams [default: 1]
    #[arg(long, value_name = "NUMBER", help_heading = "Many machines")]
    stream_replicas: Option<NonZeroUsize>,
    /// [default: text]
    #[arg(long)]
    log_format: Option<LogFormat>,
    /// Such as `info` or `warn,interlock_control=debug` [default: info]
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
    /// How often to look for work, should a wake-up be lost
    #[arg(long, value_name = "MS", help_heading = "Times")]
    poll_ms: Option<NonZeroU64>,
    /// A worker's lease where it asks for none
    #[arg(long, value_name = "MS", help_heading = "Times")]
    job_lease_ms: Option<NonZeroU64>,
    /// How long a run stays with an engine that has died
    #[arg(long, value_name = "MS", help_heading = "Times")]
    run_lease_ms: Option<NonZeroU64>,
    /// How long Redis may take to answer
    #[arg(long, value_name = "MS", help_heading = "Times")]
    store_timeout_ms: Option<NonZeroU64>,
    /// How long a worker on NATS may be silent before its jobs go to others
    #[arg(long, value_name = "MS", help_heading = "Times")]
    worker_silence_ms: Option<NonZeroU64>,
    /// How long a job stays with a worker on NATS where its step has no time-out
    #[arg(long, value_name = "MS", help_heading = "Times")]
    worker_lease_ms: Option<NonZeroU64>,
    /// How long a result that could not be handled waits for its next delivery
    #[arg(long, value_name = "MS", help_heading = "Times")]
    redelivery_delay_ms: Option<NonZeroU64>,
    /// How long a request's body may take
    #[arg(long, value_name = "MS", help_heading = "Times")]
    body_timeout_ms: Option<NonZeroU64>,
    /// How long a request's header may take
    #[arg(long, value_name = "MS", help_heading = "Times")]
    header_timeout_ms: Option<NonZeroU64>,
    /// How long a connection may stay silent
    #[arg(long, value_name = "MS", help_heading = "Times")]
    idle_timeout_ms: Option<NonZeroU64>,
    /// How long a shutdown waits for what is in hand
    #[arg(long, value_name = "MS", help_heading = "Times")]
    shutdown_grace_ms: Option<u64>,
    /// Locks that one tenant may hold at once [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    locks_per_tenant_max: Option<NonZeroU32>,
    /// Requests of one tenant that may stand in line for locks [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    lock_waiters_per_tenant_max: Option<NonZeroU32>,
    /// Requests that may stand in the line of one lock [default: 2000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    lock_line_max: Option<NonZeroU32>,
    /// A request in line whose process was not heard of for so long is gone
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    lock_silence_ms: Option<NonZeroU64>,
    /// How often the first in line looks by itself, should a wake-up be lost
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    lock_poll_ms: Option<NonZeroU64>,
    /// How long the scheduler has a job in hand before it is with a worker on NATS [default: 60000]
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    job_lock_ms: Option<NonZeroU64>,
    /// How often each reconciling loop ticks; its lock holds twice as long
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    reconcile_ms: Option<NonZeroU64>,
    /// How often the snapshot of the workers is written; its lock holds twice as long
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    snapshot_ms: Option<NonZeroU64>,
}

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
    pub(crate) data: PathBuf,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) admin_key: Option<Secret>,
    /// None: everything is in the folder.
    pub(crate) machines: Option<Machines>,
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
        given.over(file).with_defaults()
    }
}

impl ServeFlags {
    /// Reads the variables as if they had been typed as flags, so that both are checked by the same rules.
    fn of_environment(environment: &Environment) -> Result<Self> {
        let command = Self::augment_args(Command::new("serve").no_binary_name(true).disable_help_flag(true));
        let names: Vec<String> =
            command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect();
        let mut layer = Self::default();
        for name in names {
            let variable = format!("INTERLOCK_{}", name.replace('-', "_").to_uppercase());
            let Some(value) = environment.first(&[&variable]) else { continue };
            let read = command.clone().try_get_matches_from([format!("--{name}={value}")]);
            let read = read.and_then(|matches| Self::from_arg_matches(&matches));
            // The parser's own message repeats the value, which may be a secret's neighbour in a log.
            let wrong = |_| Failure::Usage(format!("the variable {variable} does not hold a valid --{name}"));
            layer = layer.over(read.map_err(wrong)?);
        }
        Ok(layer)
    }

    fn of_file(text: &str) -> std::result::Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = |end: usize| text.bytes().take(end).filter(|byte| *byte == b'\n').count();
            let line = error.span().map(|span| before(span.start) + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{place}{}", error.message())
        })
    }

    fn over(self, under: Self) -> Self {
        Self {
            listen: self.listen.or(under.listen),
            data: self.data.or(under.data),
            roles: self.roles.or(under.roles),
            config: self.config.or(under.config),
            admin_key: self.admin_key.or(under.admin_key),
            redis: self.redis.or(under.redis),
            nats: self.nats.or(under.nats),
            blob_redis: self.blob_redis.or(under.blob_redis),
            prefix: self.prefix.or(under.prefix),
            durability: self.durability.or(under.durability),
            redis_ca_file: self.redis_ca_file.or(under.redis_ca_file),
            nats_ca_file: self.nats_ca_file.or(under.nats_ca_file),
            stream_replicas: self.stream_replicas.or(under.stream_replicas),
            log_format: self.log_format.or(under.log_format),
            log_level: self.log_level.or(under.log_level),
            poll_ms: self.poll_ms.or(under.poll_ms),
            job_lease_ms: self.job_lease_ms.or(under.job_lease_ms),
            run_lease_ms: self.run_lease_ms.or(under.run_lease_ms),
            store_timeout_ms: self.store_timeout_ms.or(under.store_timeout_ms),
            worker_silence_ms: self.worker_silence_ms.or(under.worker_silence_ms),
            worker_lease_ms: self.worker_lease_ms.or(under.worker_lease_ms),
            redelivery_delay_ms: self.redelivery_delay_ms.or(under.redelivery_delay_ms),
            body_timeout_ms: self.body_timeout_ms.or(under.body_timeout_ms),
            header_timeout_ms: self.header_timeout_ms.or(under.header_timeout_ms),
            idle_timeout_ms: self.idle_timeout_ms.or(under.idle_timeout_ms),
            shutdown_grace_ms: self.shutdown_grace_ms.or(under.shutdown_grace_ms),
            locks_per_tenant_max: self.locks_per_tenant_max.or(under.locks_per_tenant_max),
            lock_waiters_per_tenant_max: self
                .lock_waiters_per_tenant_max
                .or(under.lock_waiters_per_tenant_max),
            lock_line_max: self.lock_line_max.or(under.lock_line_max),
            lock_silence_ms: self.lock_silence_ms.or(under.lock_silence_ms),
            lock_poll_ms: self.lock_poll_ms.or(under.lock_poll_ms),
            job_lock_ms: self.job_lock_ms.or(under.job_lock_ms),
            reconcile_ms: self.reconcile_ms.or(under.reconcile_ms),
            snapshot_ms: self.snapshot_ms.or(under.snapshot_ms),
        }
    }

    fn with_defaults(self) -> Result<ServeConfig> {
        Ok(ServeConfig {
            machines: self.machines()?,
            locks: self.locks(),
            listen: self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8081))),
            data: self.data.unwrap_or_else(|| PathBuf::from("./interlock-data")),
            roles: self.roles.map_or_else(
                || BTreeSet::from([Role::Gateway, Role::Engine, Role::Scheduler]),
                BTreeSet::from_iter,
            ),
            admin_key: self.admin_key,
            log_format: self.log_format.unwrap_or(LogFormat::Text),
            log_level: self.log_level.unwrap_or_else(|| LOG_LEVEL_DEFAULT.to_owned()),
            poll: self.poll_ms.map(duration),
            job_lease: self.job_lease_ms.map(duration),
            run_lease: self.run_lease_ms.map(duration),
            body_timeout: self.body_timeout_ms.map(duration),
            header_timeout: self.header_timeout_ms.map(duration),
            idle_timeout: self.idle_timeout_ms.map(duration),
            shutdown_grace: self.shutdown_grace_ms.map(Duration::from_millis),
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
