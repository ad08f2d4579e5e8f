//! From settings to a running server. Only this module names a concrete backend.

mod certificate;
mod clock;
mod distributed;
mod embedded;
mod policy_service;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use interlock_backend::inspection::Probe;
use interlock_backend::keys::KeyMark;
use interlock_backend_embedded::EmbeddedStore;
pub(crate) use interlock_backend_redis::connect::PREFIX_DEFAULT;
use interlock_cap::Edge;
use interlock_control::api_keys::ApiKeys;
use interlock_control::service::{self, Roles};
use interlock_control::{Control, settings};
use interlock_gateway::{Deployment, Gateway};
use interlock_model::Clock;
use interlock_model::lock::{Inventory, LockLimits, Timings};
use tokio_util::sync::CancellationToken;

use crate::config::{ServeConfig, ServeRole};
use crate::exit::{Failure, Result};
use certificate::CertificateProbe;

/// A server that has opened its backend and bound its address, but does not serve yet.
pub(crate) struct Server {
    backend: Backend,
    control: Arc<Control>,
    keys: Arc<ApiKeys>,
    roles: Roles,
    gateway: Option<Gateway>,
    /// For people: the address, the backend, and where that is.
    pub(crate) place: String,
}

/// What must be run or closed besides the control plane.
enum Backend {
    Embedded(Arc<EmbeddedStore>),
    /// With the role `scheduler`: the workers on NATS.
    Distributed(Option<Box<Edge>>),
}

/// A control plane on its backend.
struct ControlPlane {
    backend: Backend,
    control: Arc<Control>,
    deployment: Deployment,
    clock: Arc<dyn Clock>,
    key_mark: Option<Arc<dyn KeyMark>>,
    /// For people: where the backend is.
    place: String,
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::local("start the server")(io::Error::other(error.to_string()))
}

impl Server {
    pub(crate) async fn build(config: &ServeConfig) -> Result<Self> {
        // Wrong settings are found before anything is made or connected.
        let gateway_settings = gateway_settings(config)?;
        if let Some(tls) = &gateway_settings.tls {
            tls.check().map_err(refused)?;
        }
        let tls = gateway_settings.tls.clone();
        let probes =
            tls.map(|files| Arc::new(CertificateProbe(files)) as Arc<dyn Probe>).into_iter().collect();
        stage_settings(config)?;
        let roles = Roles {
            engine: config.roles.contains(&ServeRole::Engine),
            scheduler: config.roles.contains(&ServeRole::Scheduler),
        };
        let built = match (&config.redis, &config.nats) {
            (Some(redis), Some(nats)) => distributed::build(config, (redis, nats), roles, probes).await?,
            _ => embedded::build(config, probes).await?,
        };
        let ControlPlane { backend, control, deployment, clock, key_mark, place } = built;
        control.process.join_installation().await.map_err(refused)?;
        // What was changed at run time is in force from the first request on.
        control.rollouts.load_tunings().await.map_err(refused)?;
        let bootstrap = config.admin_key.as_ref().map(|key| key.0.as_str());
        let keys = ApiKeys::load(control.process.clone(), bootstrap, key_mark).await.map_err(refused)?;
        let mut place = format!("({place})");
        let mut gateway = None;
        if config.roles.contains(&ServeRole::Gateway) || config.listen_is_given {
            let parts = interlock_gateway::Foundation {
                control: control.clone(),
                keys: keys.clone(),
                clock,
                deployment,
            };
            let bound = Gateway::bind(gateway_settings, parts).map_err(refused)?;
            let scheme = if bound.has_tls() { "https" } else { "http" };
            if let Some(metrics) = bound.metrics_address() {
                place = format!("with metrics on http://{metrics} {place}");
            }
            place = format!("on {scheme}://{} {place}", bound.local_address());
            gateway = Some(bound);
        }
        Ok(Self { backend, control, keys, roles, gateway, place })
    }

    /// The address of its HTTP interface, if it has one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.gateway.as_ref().map(Gateway::local_address)
    }

    /// Serves until `shutdown`, then finishes what is in progress, from the outside in, and closes the backend.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let Self { backend, control, keys, roles, gateway, place: _ } = self;
        let stop_stages = CancellationToken::new();
        let (store, edge) = match backend {
            Backend::Embedded(store) => (Some(store), None),
            Backend::Distributed(edge) => (None, edge),
        };
        let stages = service::run_stages(control, roles, stop_stages.clone());
        let follow = keys.follow(stop_stages.clone());
        let serve_workers = async {
            if let Some(edge) = edge {
                edge.run(stop_stages.clone()).await;
            }
        };
        let serve = async {
            match gateway {
                Some(gateway) => gateway.serve(shutdown).await,
                None => shutdown.cancelled().await,
            }
            // The stages carry on what the last requests wrote until the gateway has answered them all.
            stop_stages.cancel();
        };
        tokio::join!(stages, follow, serve_workers, serve);
        if let Some(store) = store {
            store.tables().close().await;
        }
    }
}

fn stage_settings(config: &ServeConfig) -> Result<settings::Settings> {
    let timings = Timings {
        reconcile_every: config.reconcile_ms.0,
        snapshot_every: config.snapshot_ms.0,
        run_lease: config.run_lease_ms.0,
        job_lease: config.job_lock_ms.0,
        admission_lease: config.admission_lock_ttl_ms.0,
    };
    Ok(settings::Settings {
        lock_prefix: config.prefix.clone(),
        admission_strategy: config.admission_strategy,
        run_strategy: config.run_strategy,
        admission_tuning: config.admission_tuning(),
        lock_busy_tuning: config.lock_busy_tuning(),
        turn_time_max: Some(config.turn_time_max_ms.0),
        turn_tries_max: config.turn_tries_max.get(),
        gather_max: config.gather_max_ms.0,
        pools: config.pools.clone(),
        worker_silence: config.worker_silence_ms.0,
        deliveries_max: config.deliveries_max.get(),
        run_retention: config.run_retention_ms.map(|time| time.0),
        dead_letters_max: config.dead_letters_max.get(),
        poll: config.poll_ms.0,
        job_lease: config.job_lease_ms.0,
        lock_limits: LockLimits {
            held_max: config.locks_per_tenant_max.get(),
            waiting_max: config.lock_waiters_per_tenant_max.get(),
            line_max: config.lock_line_max.get(),
        },
        lock_silence: config.lock_silence_ms.0,
        lock_poll: config.lock_poll_ms.0,
        traces: config.otlp_endpoint.as_ref().map(|_| config.otlp_sample_ratio),
        locks: Inventory::new(timings),
        dispatch_policy: policy_service::policy(&config.dispatch_policy)?,
        ..settings::Settings::default()
    })
}

fn gateway_settings(config: &ServeConfig) -> Result<interlock_gateway::Settings> {
    let tls = match (&config.tls_cert, &config.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(interlock_gateway::TlsFiles { certificate: certificate.clone(), key: key.clone() })
        }
        (None, None) => None,
        (Some(_), None) => return Err(Failure::Usage("--tls-cert needs --tls-key".to_owned())),
        (None, Some(_)) => return Err(Failure::Usage("--tls-key needs --tls-cert".to_owned())),
    };
    Ok(interlock_gateway::Settings {
        listen: config.listen,
        tls,
        metrics_listen: config.metrics_listen,
        connections_max: config.connections_max.get(),
        connections_per_address_max: config.connections_per_address_max.get(),
        tenant_bytes_per_sec: config.tenant_bytes_per_sec.get().into(),
        serves_api: config.roles.contains(&ServeRole::Gateway),
        body_timeout: config.body_timeout_ms.0,
        header_timeout: config.header_timeout_ms.0,
        idle_timeout: config.idle_timeout_ms.0,
        host_names: config.host_names.0.clone(),
        shutdown_grace: config.shutdown_grace_ms.0,
        ..interlock_gateway::Settings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_serve_are_those_of_the_crates() {
        let config = ServeConfig::default();
        let stages = stage_settings(&config).unwrap();
        assert_eq!(format!("{stages:?}"), format!("{:?}", settings::Settings::default()));
        let gateway = interlock_gateway::Settings::default();
        assert_eq!(format!("{:?}", gateway_settings(&config).unwrap()), format!("{gateway:?}"));
        let nats_workers = interlock_cap::CapSettings::default();
        let chosen = distributed::cap_settings(&config, &stages);
        assert_eq!(format!("{chosen:?}"), format!("{nats_workers:?}"));
    }
}
