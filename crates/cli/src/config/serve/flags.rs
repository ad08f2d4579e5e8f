//! The flags of `serve`, in layers.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Command, FromArgMatches, ValueEnum};
use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use interlock_model::retry::{InvalidPolicy, RetryPolicy};
use interlock_model::scheduling::Pools;
use serde::Deserialize;

use super::{DispatchPolicyChoices, LogFormat, Role, Secret};
use crate::config::Environment;
use crate::exit::{Failure, Result};

/// One layer of settings: the flags, the environment or the file. What is absent is left to the layer below.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeFlags {
    /// The address to listen on [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// The folder to keep everything in [default: ./interlock-data]
    #[arg(long, value_name = "FOLDER")]
    pub(super) data: Option<PathBuf>,
    /// What this process does [default: all of it]
    #[arg(long, value_delimiter = ',', value_name = "ROLE,…")]
    pub(super) roles: Option<Vec<Role>>,
    /// A TOML file; each of its keys is the name of a flag with underscores
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(super) config: Option<PathBuf>,
    /// Only in the file: a table is no flag.
    #[arg(skip)]
    pub(super) dispatch_policy: Option<DispatchPolicyChoices>,
    /// A first admin key, for a server that has none yet; better given by `INTERLOCK_ADMIN_KEY`
    #[arg(long, value_name = "KEY")]
    pub(super) admin_key: Option<Secret>,
    /// Pools of workers; a table for each, and only in the file.
    #[arg(skip)]
    pub(super) pools: Option<Pools>,
    /// Where Redis is: `redis://[user:password@]host:port`, `rediss://` for TLS, `redis+sentinel://host:port,…/master`, or
    /// several hosts of a Cluster with commas
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    pub(super) redis: Option<Secret>,
    /// Where NATS is, with `JetStream`: `nats://[user:password@]host:port`, or `tls://`
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    pub(super) nats: Option<Secret>,
    /// A plain Redis for the inputs and results of workers on NATS [default: --redis]
    #[arg(long, value_name = "URL", help_heading = "Many machines")]
    pub(super) blob_redis: Option<Secret>,
    /// What the names of locks, and with another value than the default all keys, begin with [default: cordum]
    #[arg(long, value_name = "NAME", help_heading = "Many machines")]
    pub(super) prefix: Option<String>,
    /// What must be true before a start is acknowledged: as-configured, fsync or replicas:N [default: as-configured]
    #[arg(long, value_name = "WHAT", help_heading = "Many machines")]
    pub(super) durability: Option<String>,
    /// Certificates to trust for Redis instead of the machine's own
    #[arg(long, value_name = "FILE", help_heading = "Many machines")]
    pub(super) redis_ca_file: Option<PathBuf>,
    /// Certificates to trust for NATS instead of the machine's own
    #[arg(long, value_name = "FILE", help_heading = "Many machines")]
    pub(super) nats_ca_file: Option<PathBuf>,
    /// How many copies NATS keeps of its streams [default: 1]
    #[arg(long, value_name = "NUMBER", help_heading = "Many machines")]
    pub(super) stream_replicas: Option<NonZeroUsize>,
    /// [default: text]
    #[arg(long)]
    pub(super) log_format: Option<LogFormat>,
    /// Such as `info` or `warn,interlock_control=debug` [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(super) log_level: Option<String>,
    /// How often to look for work, should a wake-up be lost
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) poll_ms: Option<NonZeroU64>,
    /// A worker's lease where it asks for none
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) job_lease_ms: Option<NonZeroU64>,
    /// How long a run stays with an engine that has died
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) run_lease_ms: Option<NonZeroU64>,
    /// How long Redis may take to answer
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) store_timeout_ms: Option<NonZeroU64>,
    /// How long a worker on NATS may be silent before its jobs go to others
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) worker_silence_ms: Option<NonZeroU64>,
    /// How long a job stays with a worker on NATS where its step has no time-out
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) worker_lease_ms: Option<NonZeroU64>,
    /// How long a result that could not be handled waits for its next delivery
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) redelivery_delay_ms: Option<NonZeroU64>,
    /// How long a request's body may take
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) body_timeout_ms: Option<NonZeroU64>,
    /// How long a request's header may take
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) header_timeout_ms: Option<NonZeroU64>,
    /// How long a connection may stay silent
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) idle_timeout_ms: Option<NonZeroU64>,
    /// How long a shutdown waits for what is in hand
    #[arg(long, value_name = "MS", help_heading = "Times")]
    pub(super) shutdown_grace_ms: Option<u64>,
    /// Locks that one tenant may hold at once [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    pub(super) locks_per_tenant_max: Option<NonZeroU32>,
    /// Requests of one tenant that may stand in line for locks [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    pub(super) lock_waiters_per_tenant_max: Option<NonZeroU32>,
    /// Requests that may stand in the line of one lock [default: 2000]
    #[arg(long, value_name = "N", help_heading = "Locks")]
    pub(super) lock_line_max: Option<NonZeroU32>,
    /// A request in line whose process was not heard of for so long is gone
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    pub(super) lock_silence_ms: Option<NonZeroU64>,
    /// How often the first in line looks by itself, should a wake-up be lost
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    pub(super) lock_poll_ms: Option<NonZeroU64>,
    /// How long the scheduler has a job in hand before it is with a worker on NATS [default: 60000]
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    pub(super) job_lock_ms: Option<NonZeroU64>,
    /// How often each reconciling loop ticks; its lock holds twice as long
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    pub(super) reconcile_ms: Option<NonZeroU64>,
    /// How often the snapshot of the workers is written; its lock holds twice as long
    #[arg(long, value_name = "MS", help_heading = "Locks")]
    pub(super) snapshot_ms: Option<NonZeroU64>,
    /// How starts are decided: in one step, or under a lock of the tenant, as documented [default: atomic]
    #[arg(long, value_name = "STRATEGY", help_heading = "Contention")]
    pub(super) admission_strategy: Option<AdmissionChoice>,
    /// How a start waits between two tries for the admission lock [default: fixed:10ms]
    #[arg(long, value_name = "POLICY", help_heading = "Contention")]
    pub(super) admission_retry: Option<PolicyText>,
    /// How long a start waits for the admission lock before it is answered with 503 [default: 2000]
    #[arg(long, value_name = "MS", help_heading = "Contention")]
    pub(super) admission_max_wait_ms: Option<u64>,
    /// How long the admission lock stays with a process that has died [default: 10000]
    #[arg(long, value_name = "MS", help_heading = "Contention")]
    pub(super) admission_lock_ttl_ms: Option<u64>,
    /// How results reach their run: through its inbox, or under its lock, as documented [default: inbox]
    #[arg(long, value_name = "STRATEGY", help_heading = "Contention")]
    pub(super) run_strategy: Option<RunChoice>,
    /// How long a result whose run is busy waits for its next delivery, such as `bounded_jitter:500ms:30%`
    /// [default: fixed:500ms]
    #[arg(long, value_name = "POLICY", help_heading = "Contention")]
    pub(super) lock_busy_retry: Option<PolicyText>,
    /// How long a result that came by HTTP waits for its run before it is put off [default: 3000]
    #[arg(long, value_name = "MS", help_heading = "Contention")]
    pub(super) lock_busy_max_wait_ms: Option<u64>,
    /// The longest that a busy run waits for more results before it writes down those it has; 0 for not at all
    /// [default: 50]
    #[arg(long, value_name = "MS", help_heading = "Contention")]
    pub(super) gather_max_ms: Option<u64>,
    /// Deliveries of one result until it becomes a dead letter [default: 100]
    #[arg(long, value_name = "N", help_heading = "Contention")]
    pub(super) deliveries_max: Option<NonZeroU32>,
    /// Dead letters that one tenant may have; those of the oldest runs make room [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Keeping")]
    pub(super) dead_letters_max: Option<NonZeroU32>,
    /// How long runs are kept after they have ended [default: for ever]
    #[arg(long, value_name = "MS", help_heading = "Keeping")]
    pub(super) run_retention_ms: Option<NonZeroU64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AdmissionChoice {
    Atomic,
    Lock,
}

impl From<AdmissionChoice> for AdmissionStrategy {
    fn from(chosen: AdmissionChoice) -> Self {
        match chosen {
            AdmissionChoice::Atomic => Self::Atomic,
            AdmissionChoice::Lock => Self::Lock,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunChoice {
    Inbox,
    Lock,
}

impl From<RunChoice> for RunStrategy {
    fn from(chosen: RunChoice) -> Self {
        match chosen {
            RunChoice::Inbox => Self::Inbox,
            RunChoice::Lock => Self::Lock,
        }
    }
}

/// A retry policy as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PolicyText(pub(crate) RetryPolicy);

impl FromStr for PolicyText {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidPolicy> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for PolicyText {
    type Error = InvalidPolicy;

    fn try_from(text: String) -> std::result::Result<Self, InvalidPolicy> {
        text.parse()
    }
}

impl ServeFlags {
    /// Reads the variables as if they had been typed as flags, so that both are checked by the same rules.
    pub(super) fn of_environment(environment: &Environment) -> Result<Self> {
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

    pub(super) fn of_file(text: &str) -> std::result::Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = |end: usize| text.bytes().take(end).filter(|byte| *byte == b'\n').count();
            let line = error.span().map(|span| before(span.start) + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{place}{}", error.message())
        })
    }

    /// This layer, and where it says nothing the one under it.
    pub(super) fn over(self, under: Self) -> Self {
        macro_rules! layered {
            ($($flag:ident),* $(,)?) => {
                Self { $($flag: self.$flag.or(under.$flag)),* }
            };
        }
        layered!(
            listen,
            data,
            roles,
            config,
            dispatch_policy,
            admin_key,
            pools,
            redis,
            nats,
            blob_redis,
            prefix,
            durability,
            redis_ca_file,
            nats_ca_file,
            stream_replicas,
            log_format,
            log_level,
            poll_ms,
            job_lease_ms,
            run_lease_ms,
            store_timeout_ms,
            worker_silence_ms,
            worker_lease_ms,
            redelivery_delay_ms,
            body_timeout_ms,
            header_timeout_ms,
            idle_timeout_ms,
            shutdown_grace_ms,
            locks_per_tenant_max,
            lock_waiters_per_tenant_max,
            lock_line_max,
            lock_silence_ms,
            lock_poll_ms,
            job_lock_ms,
            reconcile_ms,
            snapshot_ms,
            admission_strategy,
            admission_retry,
            admission_max_wait_ms,
            admission_lock_ttl_ms,
            run_strategy,
            lock_busy_retry,
            lock_busy_max_wait_ms,
            gather_max_ms,
            deliveries_max,
            dead_letters_max,
            run_retention_ms,
        )
    }
}
