//! From settings to a running server. Only here, and in the rooms of this file, a concrete backend is named.

mod distributed;
mod embedded;
mod policy_service;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use interlock_backend::clock::SystemClock;
pub(crate) use interlock_backend_redis::connect::PREFIX_DEFAULT;
use interlock_control::keys::KeyRing;
use interlock_control::service::{self, Roles};
use interlock_control::{Control, settings};
use interlock_gateway::{Deployment, Gateway};
use interlock_model::lock::{Inventory, LockLimits, Timings};
use tokio_util::sync::CancellationToken;

use crate::config::{ContentionChoices, LockChoices, Role, ServeConfig};
use crate::exit::{Failure, Result};

/// A server that holds its folder and its address, and does not work yet.
pub(crate) struct Server {
    ground: Ground,
    control: Arc<Control>,
    keys: Arc<KeyRing>,
    roles: Roles,
    gateway: Option<Gateway>,
    /// Where and on what it serves, in words.
    pub(crate) place: String,
}

/// What the control plane of this process stands on.
enum Ground {
    Embedded(embedded::Ground),
    Distributed(Box<distributed::Ground>),
}

/// What a backend says of itself.
struct Words {
    backend: String,
    durability: String,
    bus: String,
    place: String,
}

/// What keeps a server from starting is told in the words of whoever refused.
fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::local("start the server")(io::Error::other(error.to_string()))
}

impl Server {
    pub(crate) async fn build(config: &ServeConfig) -> Result<Self> {
        let roles = Roles {
            engine: config.roles.contains(&Role::Engine),
            scheduler: config.roles.contains(&Role::Scheduler),
        };
        let (ground, control, words) = match &config.machines {
            None => {
                let (ground, control, words) = embedded::build(config).await?;
                (Ground::Embedded(ground), control, words)
            }
            Some(machines) => {
                let (ground, control, words) = distributed::build(config, machines, roles).await?;
                (Ground::Distributed(Box::new(ground)), control, words)
            }
        };
        // What was changed at run time holds from the first request on.
        control.load_tunings().await.map_err(refused)?;
        let bootstrap = config.admin_key.as_ref().map(|key| key.0.as_str());
        let keys = KeyRing::load(&control, bootstrap).await.map_err(refused)?;
        let mut place = format!("({})", words.place);
        let mut gateway = None;
        if config.roles.contains(&Role::Gateway) || config.listen_is_chosen {
            let parts = interlock_gateway::Foundation {
                control: control.clone(),
                keys: keys.clone(),
                clock: Arc::new(SystemClock),
                deployment: deployment(config, words),
            };
            let bound = Gateway::bind(gateway_settings(config), parts).map_err(refused)?;
            place = format!("on http://{} {place}", bound.local_address());
            gateway = Some(bound);
        }
        Ok(Self { ground, control, keys, roles, gateway, place })
    }

    /// Where it serves, if it serves HTTP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.gateway.as_ref().map(Gateway::local_address)
    }

    /// Works until `shutdown`; then finishes what is in hand, from the outside in, and lets go of the ground.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let Self { mut ground, control, keys, roles, gateway, place: _ } = self;
        let stop_stages = CancellationToken::new();
        let edge = match &mut ground {
            Ground::Embedded(_) => None,
            Ground::Distributed(ground) => ground.take_edge(),
        };
        let stages = service::run_stages(control.clone(), roles, stop_stages.clone());
        let follow = keys.follow(control, stop_stages.clone());
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
            // What the last requests have put into the store is carried on until here.
            stop_stages.cancel();
        };
        tokio::join!(stages, follow, serve_workers, serve);
        if let Ground::Embedded(ground) = ground {
            ground.close().await;
        }
    }
}

fn stage_settings(config: &ServeConfig) -> Result<settings::Settings> {
    let default = settings::Settings::default();
    let ContentionChoices {
        admission_strategy,
        run_strategy,
        admission,
        lock_busy,
        gather_max,
        deliveries_max,
    } = config.contention.clone();
    Ok(settings::Settings {
        admission_strategy,
        run_strategy,
        admission_tuning: admission,
        lock_busy_tuning: lock_busy,
        gather_max: gather_max.unwrap_or(default.gather_max),
        pools: config.pools.clone(),
        worker_silence: config
            .machines
            .as_ref()
            .and_then(|machines| machines.worker_silence)
            .unwrap_or(default.worker_silence),
        deliveries_max: deliveries_max.map_or(default.deliveries_max, NonZeroU32::get),
        run_retention: config.keeping.run_retention,
        dead_letters_max: config.keeping.dead_letters_max.map_or(default.dead_letters_max, NonZeroU32::get),
        poll: config.poll.unwrap_or(default.poll),
        job_lease: config.job_lease.unwrap_or(default.job_lease),
        lock_limits: lock_limits(&config.locks, default.lock_limits),
        lock_silence: config.locks.silence.unwrap_or(default.lock_silence),
        lock_poll: config.locks.poll.unwrap_or(default.lock_poll),
        locks: Inventory::new(timings(config, default.locks.timings())),
        dispatch_policy: policy_service::policy(&config.dispatch_policy)?,
        ..default
    })
}

fn lock_limits(chosen: &LockChoices, default: LockLimits) -> LockLimits {
    let or = |chosen: Option<NonZeroU32>, default| chosen.map_or(default, NonZeroU32::get);
    LockLimits {
        held_max: or(chosen.held_max, default.held_max),
        waiting_max: or(chosen.waiting_max, default.waiting_max),
        line_max: or(chosen.line_max, default.line_max),
    }
}

fn timings(config: &ServeConfig, default: Timings) -> Timings {
    let chosen = &config.locks;
    Timings {
        reconcile_every: chosen.reconcile_every.unwrap_or(default.reconcile_every),
        snapshot_every: chosen.snapshot_every.unwrap_or(default.snapshot_every),
        run_lease: config.run_lease.unwrap_or(default.run_lease),
        job_lease: chosen.job_lease.unwrap_or(default.job_lease),
        admission_lease: config.contention.admission.lock_ttl(),
    }
}

fn gateway_settings(config: &ServeConfig) -> interlock_gateway::Settings {
    let default = interlock_gateway::Settings::default();
    interlock_gateway::Settings {
        listen: config.listen,
        serves_api: config.roles.contains(&Role::Gateway),
        body_timeout: config.body_timeout.unwrap_or(default.body_timeout),
        header_timeout: config.header_timeout.unwrap_or(default.header_timeout),
        idle_timeout: config.idle_timeout.unwrap_or(default.idle_timeout),
        shutdown_grace: config.shutdown_grace.unwrap_or(default.shutdown_grace),
        ..default
    }
}

fn deployment(config: &ServeConfig, words: Words) -> Deployment {
    let role = |role: &Role| match role {
        Role::Gateway => "gateway",
        Role::Engine => "engine",
        Role::Scheduler => "scheduler",
    };
    let prefix = config.machines.as_ref().and_then(|machines| machines.prefix.as_ref());
    Deployment {
        roles: config.roles.iter().map(|known| role(known).to_owned()).collect(),
        backend: words.backend,
        durability: words.durability,
        bus: words.bus,
        prefix: prefix.map_or_else(|| PREFIX_DEFAULT.to_owned(), Clone::clone),
    }
}
