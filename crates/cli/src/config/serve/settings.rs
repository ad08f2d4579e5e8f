//! Every setting of `serve`, listed once. A line of the table is a flag (`--poll-ms`), a variable (`INTERLOCK_POLL_MS`),
//! a key of the file (`poll_ms`), a field of [`ServeConfig`], and what `--help` and `--print-config` say about it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use interlock_model::retry::RetryPolicy;
use interlock_model::scheduling::Pools;
use interlock_model::trace::SampleRatio;

use super::DispatchPolicyChoices;
use super::value::{HostNames, LogFormat, Millis, Secret, ServeRole, SettingValue};

/// One line of the table.
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) section: &'static str,
    pub(super) help: &'static str,
    /// As it is written in a flag; empty if the setting is unset by default.
    pub(super) default: &'static str,
    /// What `--help` calls the value. None: `--help` leaves the flag out.
    pub(super) placeholder: Option<&'static str>,
    pub(super) set: fn(&mut ServeConfig, &str) -> Result<(), String>,
}

impl Setting {
    pub(super) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    pub(super) fn variable(&self) -> String {
        format!("INTERLOCK_{}", self.key.to_uppercase())
    }
}

macro_rules! settings {
    ($($section:literal {
        $($key:ident: $kind:ty = $default:literal, $help:literal $(, shown as $placeholder:literal)?;)*
    })*) => {
        /// What `serve` runs with.
        #[derive(Debug, Clone)]
        pub(crate) struct ServeConfig {
            $($(pub(crate) $key: $kind,)*)*
            /// A process without the role `gateway` serves its probes and metrics only where `listen` was given.
            pub(crate) listen_is_given: bool,
            pub(crate) pools: Pools,
            pub(crate) dispatch_policy: DispatchPolicyChoices,
        }

        impl Default for ServeConfig {
            fn default() -> Self {
                Self {
                    $($($key: SettingValue::read($default).expect("a default is a valid value"),)*)*
                    listen_is_given: false,
                    pools: Pools::default(),
                    dispatch_policy: DispatchPolicyChoices::default(),
                }
            }
        }

        pub(super) static SETTINGS: &[Setting] = &[$($(Setting {
            key: stringify!($key),
            section: $section,
            help: $help,
            default: $default,
            placeholder: [$(Some($placeholder),)? None][0],
            set: |config, text| SettingValue::read(text).map(|value| config.$key = value),
        },)*)*];
    };
}

settings! {
    "Server" {
        listen: SocketAddr = "127.0.0.1:8081", "Address to listen on", shown as "ADDRESS";
        data: PathBuf = "./interlock-data", "Data folder of the embedded backend", shown as "FOLDER";
        roles: BTreeSet<ServeRole> = "gateway,engine,scheduler", "Roles of this process", shown as "ROLE,…";
        admin_key: Option<Secret> = "",
            "Admin key for all tenants; prefer INTERLOCK_ADMIN_KEY: flags are visible in process listings",
            shown as "KEY";
        shutdown_grace_ms: Millis<0> = "10000", "How long a shutdown waits for open requests";
    }
    "Redis and NATS" {
        redis: Option<Secret> = "",
            "Redis: redis://host:port, rediss:// (TLS), redis+sentinel://host:port,…/master, or nodes of a Cluster",
            shown as "URL";
        nats: Option<Secret> = "", "NATS with JetStream: nats://host:port, or tls://", shown as "URL";
        prefix: String = "cordum",
            "Prefix of lock keys; any other value than the default also prefixes all other keys";
        durability: String = "as-configured",
            "What Redis must guarantee before a start is acknowledged: as-configured, fsync or replicas:N";
        store_timeout_ms: Millis<1> = "2000", "How long Redis may take to answer before the outcome is unknown";
        blob_redis: Option<Secret> = "",
            "Plain Redis for the inputs and results of workers on NATS, if `redis` is a Cluster";
        redis_ca_file: Option<PathBuf> = "", "CA certificates to trust for Redis, as PEM, instead of the system's";
        nats_ca_file: Option<PathBuf> = "", "CA certificates to trust for NATS, as PEM, instead of the system's";
        stream_replicas: NonZeroUsize = "1", "Replicas of each NATS stream";
    }
    "Logs and traces" {
        log_format: LogFormat = "text", "Log format: text or json", shown as "FORMAT";
        log_level: String = "info,async_nats=warn",
            "Log filter, such as warn or info,interlock_control=debug", shown as "FILTER";
        otlp_endpoint: Option<String> = "",
            "OpenTelemetry collector for traces, such as http://127.0.0.1:4318; also OTEL_EXPORTER_OTLP_ENDPOINT",
            shown as "URL";
        otlp_sample_ratio: SampleRatio = "1",
            "Share of runs to trace, from 0 to 1, unless the client's traceparent decides";
    }
    "HTTP" {
        tls_cert: Option<PathBuf> = "",
            "Certificate chain, as PEM: serve HTTPS; read again when the file changes", shown as "FILE";
        tls_key: Option<PathBuf> = "", "Key of the certificate, as PEM", shown as "FILE";
        metrics_listen: Option<SocketAddr> = "",
            "Address of its own for /metrics, without TLS; the main address then has no /metrics";
        connections_max: NonZeroUsize = "10000", "Open connections; further ones get a 503";
        connections_per_address_max: NonZeroUsize = "5000",
            "Open connections of one client, by its address; raise it to connections_max behind a proxy";
        tenant_bytes_per_sec: NonZeroU32 = "8388608",
            "Bytes per second that a tenant may send in bodies over 64 KiB; further ones wait up to 20 s";
        header_timeout_ms: Millis<1> = "10000", "How long a request's headers may take";
        body_timeout_ms: Millis<1> = "30000", "How long a request's body may take";
        idle_timeout_ms: Millis<1> = "60000", "How long a connection may be idle";
        host_names: HostNames = "",
            "Names besides localhost that a server without API keys answers to, separated by commas";
    }
    "Runs and jobs" {
        poll_ms: Millis<1> = "500", "How often to poll for work, in case a wake-up is lost";
        run_lease_ms: Millis<1> = "30000", "How long a run stays leased to an engine that died";
        job_lease_ms: Millis<1> = "15000", "Job lease of a worker on HTTP that asks for none";
        gather_max_ms: Millis<0> = "50",
            "How long a busy run waits for more results before it writes those it has; 0 disables it";
        turn_time_max_ms: Millis<1> = "10000", "How long a turn of a run may compute before it is abandoned";
        turn_tries_max: NonZeroU32 = "5", "Abandoned turns in a row after which a run is quarantined";
        deliveries_max: NonZeroU32 = "100", "Deliveries of one result before it becomes a dead letter";
        dead_letters_max: NonZeroU32 = "10000",
            "Dead letters per tenant; those of the oldest runs are deleted first";
        run_retention_ms: Option<Millis<1>> = "", "How long ended runs are kept; forever if not set";
    }
    "Workers on NATS" {
        worker_silence_ms: Millis<1> = "30000",
            "Silence after which a worker on NATS is offline and loses its jobs";
        worker_lease_ms: Millis<1> = "900000", "Job lease of a worker on NATS where the step has no timeout";
        redelivery_delay_ms: Millis<1> = "500", "Delay before NATS redelivers a result that could not be handled";
        job_lock_ms: Millis<1> = "60000", "Lease of the scheduler on a job until a worker on NATS has it";
    }
    "Locks and loops" {
        locks_per_tenant_max: NonZeroU32 = "10000", "Locks that one tenant may hold";
        lock_waiters_per_tenant_max: NonZeroU32 = "10000", "Lock requests of one tenant that may wait";
        lock_line_max: NonZeroU32 = "2000", "Requests that may wait for one lock";
        lock_silence_ms: Millis<1> = "10000",
            "Silence of its server after which a waiting request leaves the queue";
        lock_poll_ms: Millis<1> = "1000", "How often the first in a lock's queue polls, in case a wake-up is lost";
        reconcile_ms: Millis<1> = "30000", "Period of the reconciling loops; their locks last two periods";
        snapshot_ms: Millis<1> = "5000", "Period of the snapshot of the workers; its lock lasts two periods";
    }
    "Contention" {
        admission_strategy: AdmissionStrategy = "atomic",
            "How starts are decided: atomic (in one step of the store) or lock (under a lock per tenant)";
        admission_retry: RetryPolicy = "fixed:10ms", "Retry policy of a start that waits for the admission lock";
        admission_max_wait_ms: Millis<0> = "2000",
            "How long a start waits for the admission lock before it answers 503";
        admission_lock_ttl_ms: Millis<1> = "10000", "Lease of the admission lock";
        run_strategy: RunStrategy = "inbox",
            "How results reach their run: inbox, or lock (redelivered while the run is leased)";
        lock_busy_retry: RetryPolicy = "fixed:500ms",
            "Retry policy of a result whose run is leased, such as bounded_jitter:500ms:30%";
        lock_busy_max_wait_ms: Millis<0> = "3000",
            "How long a result that came over HTTP waits for its run before it is deferred";
    }
}
