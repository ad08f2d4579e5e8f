//! The embedded backend: one machine, everything in one folder.

use std::path::Path;
use std::sync::Arc;

use interlock_backend::clock::{ElapsedClock, SystemClock};
use interlock_backend::inspection::Probe;
use interlock_backend::{InProcessBus, Store};
use interlock_backend_embedded::EmbeddedStore;
use interlock_control::Control;
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_gateway::Deployment;

use super::clock::{self, ClockProbe};
use super::{Backend, ControlPlane, PREFIX_DEFAULT, refused, stage_settings};
use crate::config::ServeConfig;
use crate::exit::Result;

pub(super) async fn build(config: &ServeConfig, mut probes: Vec<Arc<dyn Probe>>) -> Result<ControlPlane> {
    let clock = Arc::new(ElapsedClock::beginning_at(Arc::new(SystemClock)));
    let store = Arc::new(open(&config.data, clock.clone()).await?);
    tokio::spawn(clock::follow(clock.clone()));
    probes.push(Arc::new(ClockProbe(clock.clone())));
    let identity = Identity::unpredictable();
    let foundation = Foundation {
        store: Store::new(store.clone()),
        bus: Arc::new(InProcessBus::default()),
        clock: clock.clone(),
        instance: identity.instance_id(),
        identity,
        mailbox: None,
        probes,
    };
    let deployment = Deployment {
        roles: config.role_names(),
        backend: "embedded".to_owned(),
        durability: "an answer outlives the process and the loss of power".to_owned(),
        bus: "in_process".to_owned(),
        prefix: PREFIX_DEFAULT.to_owned(),
    };
    Ok(ControlPlane {
        // Who can delete the file can delete everything beside it.
        key_mark: None,
        backend: Backend::Embedded(store),
        clock,
        control: Control::new(foundation, stage_settings(config)?),
        deployment,
        place: format!("embedded, {}", config.data.display()),
    })
}

async fn open(folder: &Path, clock: Arc<ElapsedClock>) -> Result<EmbeddedStore> {
    let folder = folder.to_owned();
    let opening = tokio::task::spawn_blocking(move || interlock_backend_embedded::open(&folder, clock));
    opening.await.map_err(refused)?.map_err(refused)
}
