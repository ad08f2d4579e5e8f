//! From settings to a running server. The only file that names a concrete backend.

use std::io;
use std::path::Path;
use std::sync::Arc;

use interlock_backend::InProcessBus;
use interlock_backend::clock::SystemClock;
use interlock_backend_embedded::EmbeddedStore;
use interlock_control::identity::Identity;
use interlock_control::keys::KeyRing;
use interlock_control::service::{self, Roles};
use interlock_control::{Control, settings};
use interlock_gateway::{Deployment, Gateway};
use tokio_util::sync::CancellationToken;

use crate::config::{Role, ServeConfig};
use crate::exit::{Failure, Result};

/// A server that holds its folder and its address, and does not work yet.
pub(crate) struct Server {
    store: Arc<EmbeddedStore>,
    control: Arc<Control>,
    keys: Arc<KeyRing>,
    roles: Roles,
    gateway: Option<Gateway>,
    /// Where and on what it serves, in words.
    pub(crate) place: String,
}

/// What keeps a server from starting is told in the words of whoever refused.
fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::local("start the server")(io::Error::other(error.to_string()))
}

impl Server {
    pub(crate) async fn build(config: &ServeConfig) -> Result<Self> {
        if config.redis.is_some() || config.nats.is_some() {
            return Err(Failure::Usage("the distributed backend is not part of this release".to_owned()));
        }
        let store = Arc::new(open(&config.data).await?);
        let clock = Arc::new(SystemClock);
        let foundation = service::Foundation {
            store: store.clone(),
            bus: Arc::new(InProcessBus::default()),
            clock: clock.clone(),
            identity: Identity::unpredictable(),
            mailbox: None,
        };
        let control = Control::new(foundation, stage_settings(config));
        let bootstrap = config.admin_key.as_ref().map(|key| key.0.as_str());
        let keys = KeyRing::load(&control, bootstrap).await.map_err(refused)?;
        let mut place = format!("(embedded, {})", config.data.display());
        let mut gateway = None;
        if config.roles.contains(&Role::Gateway) {
            let deployment = deployment(config);
            let parts = interlock_gateway::Foundation {
                control: control.clone(),
                keys: keys.clone(),
                clock,
                deployment,
            };
            let bound = Gateway::bind(gateway_settings(config), parts).map_err(refused)?;
            place = format!("on http://{} {place}", bound.local_address());
            gateway = Some(bound);
        }
        let roles = Roles {
            engine: config.roles.contains(&Role::Engine),
            scheduler: config.roles.contains(&Role::Scheduler),
        };
        Ok(Self { store, control, keys, roles, gateway, place })
    }

    /// Works until `shutdown`; then finishes what is in hand, from the outside in, and closes the file.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let Self { store, control, keys, roles, gateway, place: _ } = self;
        let stop_stages = CancellationToken::new();
        let stages = service::run_stages(control.clone(), roles, stop_stages.clone());
        let follow = keys.follow(control, stop_stages.clone());
        let serve = async {
            match gateway {
                Some(gateway) => gateway.serve(shutdown).await,
                None => shutdown.cancelled().await,
            }
            // What the last requests have put into the store is carried on until here.
            stop_stages.cancel();
        };
        tokio::join!(stages, follow, serve);
        store.tables().close().await;
    }
}

async fn open(folder: &Path) -> Result<EmbeddedStore> {
    let folder = folder.to_owned();
    let settings = interlock_backend_embedded::Settings::default();
    let opening = tokio::task::spawn_blocking(move || {
        interlock_backend_embedded::open(&folder, Arc::new(SystemClock), settings)
    });
    opening.await.map_err(refused)?.map_err(refused)
}

fn stage_settings(config: &ServeConfig) -> settings::Settings {
    let default = settings::Settings::default();
    settings::Settings {
        poll: config.poll.unwrap_or(default.poll),
        job_lease: config.job_lease.unwrap_or(default.job_lease),
        run_lease: config.run_lease.unwrap_or(default.run_lease),
        ..default
    }
}

fn gateway_settings(config: &ServeConfig) -> interlock_gateway::Settings {
    let default = interlock_gateway::Settings::default();
    interlock_gateway::Settings {
        listen: config.listen,
        body_timeout: config.body_timeout.unwrap_or(default.body_timeout),
        header_timeout: config.header_timeout.unwrap_or(default.header_timeout),
        idle_timeout: config.idle_timeout.unwrap_or(default.idle_timeout),
        shutdown_grace: config.shutdown_grace.unwrap_or(default.shutdown_grace),
        ..default
    }
}

fn deployment(config: &ServeConfig) -> Deployment {
    let role = |role: &Role| match role {
        Role::Gateway => "gateway",
        Role::Engine => "engine",
        Role::Scheduler => "scheduler",
    };
    Deployment {
        roles: config.roles.iter().map(|known| role(known).to_owned()).collect(),
        backend: "embedded".to_owned(),
        durability: "an answer outlives the process and the loss of power".to_owned(),
        bus: "in_process".to_owned(),
    }
}
