//! The distributed backend: Redis decides, NATS wakes and carries.

use std::sync::Arc;

use interlock_backend::clock::SystemClock;
use interlock_backend::inspection::Probe;
use interlock_backend::keys::KeyMark;
use interlock_backend::{Bus, Store};
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::bus::NatsBus;
use interlock_backend_redis::connect::{Address, ConnectSettings, Connection};
use interlock_backend_redis::key_mark::NatsKeyMark;
use interlock_backend_redis::mailbox::RedisMailbox;
use interlock_backend_redis::nats::{self, NatsSettings};
use interlock_cap::{CapSettings, Edge, Parts, StreamProbe};
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles};
use interlock_control::{Control, Settings};
use interlock_gateway::Deployment;
use interlock_model::contention::RunStrategy;

use super::{Backend, ControlPlane, PREFIX_DEFAULT, refused, stage_settings};
use crate::config::{Secret, ServeConfig};
use crate::exit::{Failure, Result};

/// Results that NATS may have deferred while it delivers others: those of one busy run must not block all others.
const DEFERRED_MAX: i64 = 65_536;

pub(super) async fn build(
    config: &ServeConfig,
    (redis, nats): (&Secret, &Secret),
    roles: Roles,
    mut probes: Vec<Arc<dyn Probe>>,
) -> Result<ControlPlane> {
    let settings = connect_settings(config, redis, "--redis")?;
    let redis_place = settings.address.to_string();
    let connection = Connection::open(settings).await.map_err(refused)?;
    let blobs = open_blobs(config, &connection).await?;
    let nats_settings = NatsSettings { ca_file: config.nats_ca_file.clone(), ..NatsSettings::new(&nats.0) };
    let client = nats::connect(&nats_settings).await.map_err(refused)?;

    let identity = Identity::unpredictable();
    let instance = identity.instance_id();
    let bus = NatsBus::start(client.clone(), &config.prefix, instance.clone(), roles.engine).await;
    let bus: Arc<dyn Bus> = Arc::new(bus.map_err(refused)?);
    let deployment = Deployment {
        roles: config.role_names(),
        backend: "redis".to_owned(),
        durability: connection.durability_in_words(),
        bus: "nats".to_owned(),
        prefix: config.prefix.clone(),
    };
    let store = Arc::new(RedisStore::open(connection.clone(), instance.clone()).await.map_err(refused)?);
    store.follow(&*bus);
    let mailbox = Arc::new(RedisMailbox::new(connection, blobs));
    let settings = stage_settings(config)?;
    let cap_settings = cap_settings(config, &settings);
    probes.push(store.clone());
    probes.push(Arc::new(StreamProbe::new(client.clone(), cap_settings.clone())));
    let foundation = Foundation {
        store: Store::new(store),
        bus: bus.clone(),
        clock: Arc::new(SystemClock),
        identity,
        instance,
        mailbox: Some(mailbox.clone()),
        probes,
    };
    let control = Control::new(foundation, settings);
    let key_mark: Option<Arc<dyn KeyMark>> = Some(Arc::new(NatsKeyMark::new(client.clone(), &config.prefix)));
    let mut edge = None;
    if roles.scheduler {
        let parts = Parts { control: control.clone(), bus, mailbox };
        edge = Some(Box::new(Edge::prepare(client, parts, cap_settings).await.map_err(refused)?));
    }
    let place = format!("{redis_place}, nats {}", nats::shown(&nats.0));
    let clock = Arc::new(SystemClock);
    Ok(ControlPlane { backend: Backend::Distributed(edge), control, deployment, clock, key_mark, place })
}

/// Where workers on NATS find their inputs: the same Redis, unless it is a Cluster, which their client cannot follow.
async fn open_blobs(config: &ServeConfig, connection: &Connection) -> Result<Connection> {
    match &config.blob_redis {
        Some(url) => {
            let settings = connect_settings(config, url, "--blob-redis")?;
            let blobs = Connection::open(settings).await.map_err(refused)?;
            if blobs.is_cluster() {
                return Err(refused("--blob-redis is a Cluster; it must be a plain Redis"));
            }
            Ok(blobs)
        }
        None if connection.is_cluster() => Err(refused(
            "--redis is a Cluster, which the Redis clients of workers on NATS cannot follow. Give them a plain Redis \
             for their inputs and results: --blob-redis URL",
        )),
        None => Ok(connection.clone()),
    }
}

fn connect_settings(config: &ServeConfig, url: &Secret, flag: &str) -> Result<ConnectSettings> {
    let address: Address = url.0.parse().map_err(|error| Failure::Usage(format!("{flag}: {error}")))?;
    let durability = config.durability.parse();
    Ok(ConnectSettings {
        prefix: config.prefix.clone(),
        durability: durability.map_err(|error| Failure::Usage(format!("--durability: {error}")))?,
        response_timeout: config.store_timeout_ms.0,
        ca_file: config.redis_ca_file.clone(),
        ..ConnectSettings::new(address)
    })
}

pub(super) fn cap_settings(config: &ServeConfig, stages: &Settings) -> CapSettings {
    let default = CapSettings::default();
    CapSettings {
        installation: if config.prefix == PREFIX_DEFAULT { String::new() } else { config.prefix.clone() },
        silence: stages.worker_silence,
        lease: config.worker_lease_ms.0,
        redelivery_delay: config.redelivery_delay_ms.0,
        max_deliver: stages.deliveries_max.into(),
        max_ack_pending: match stages.run_strategy {
            RunStrategy::Inbox => default.max_ack_pending,
            RunStrategy::Lock => DEFERRED_MAX,
        },
        stream_replicas: config.stream_replicas.get(),
        ..default
    }
}
