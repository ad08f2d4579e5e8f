//! Many machines: Redis decides, NATS wakes and carries.

use std::sync::Arc;

use interlock_backend::Bus;
use interlock_backend::clock::SystemClock;
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::bus::NatsBus;
use interlock_backend_redis::connect::{Address, ConnectSettings, Connection, PREFIX_DEFAULT};
use interlock_backend_redis::mailbox::RedisMailbox;
use interlock_backend_redis::nats::{self, NatsSettings};
use interlock_cap::{CapSettings, Edge, Parts, StreamProbe};
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles};
use interlock_control::{Control, Settings};
use interlock_model::contention::RunStrategy;

use super::{Words, refused, stage_settings};
use crate::config::{Machines, Secret, ServeConfig};
use crate::exit::{Failure, Result};

/// Results that NATS may keep for later while it hands out others: one busy run's must not hold up everybody's.
const PUT_OFF_MAX: i64 = 65_536;

pub(super) struct Ground {
    edge: Option<Edge>,
}

impl Ground {
    pub(super) fn take_edge(&mut self) -> Option<Edge> {
        self.edge.take()
    }
}

pub(super) async fn build(
    config: &ServeConfig,
    machines: &Machines,
    roles: Roles,
) -> Result<(Ground, Arc<Control>, Words)> {
    let settings = connect_settings(machines, &machines.redis, "--redis")?;
    let (prefix, redis_place) = (settings.prefix.clone(), settings.address.to_string());
    let connection = Connection::open(settings).await.map_err(refused)?;
    let blobs = open_blobs(machines, &connection).await?;
    let nats_settings =
        NatsSettings { ca_file: machines.nats_ca_file.clone(), ..NatsSettings::new(&machines.nats.0) };
    let client = nats::connect(&nats_settings).await.map_err(refused)?;

    let identity = Identity::unpredictable();
    let instance = identity.instance_id();
    let bus: Arc<dyn Bus> = Arc::new(
        NatsBus::start(client.clone(), &prefix, instance.clone(), roles.engine).await.map_err(refused)?,
    );
    let durability = connection.durability_in_words();
    let store = Arc::new(RedisStore::open(connection.clone(), instance.clone()).await.map_err(refused)?);
    store.follow(&*bus);
    let mailbox = Arc::new(RedisMailbox::new(connection, blobs));
    let settings = stage_settings(config)?;
    let cap_settings = cap_settings(machines, &prefix, &settings);
    let foundation = Foundation {
        store: store.clone(),
        bus: bus.clone(),
        clock: Arc::new(SystemClock),
        identity,
        instance,
        mailbox: Some(mailbox.clone()),
        probes: vec![store, Arc::new(StreamProbe::new(client.clone(), cap_settings.clone()))],
    };
    let control = Control::new(foundation, settings);
    let edge = if roles.scheduler {
        let parts = Parts { control: control.clone(), bus, mailbox };
        Some(Edge::prepare(client, parts, cap_settings).await.map_err(refused)?)
    } else {
        None
    };
    let words = Words {
        backend: "redis".to_owned(),
        durability,
        bus: "nats".to_owned(),
        place: format!("{redis_place}, nats {}", nats::shown(&machines.nats.0)),
    };
    Ok((Ground { edge }, control, words))
}

/// Where workers on NATS find their inputs: the same Redis, unless it is a Cluster, which their client cannot follow.
async fn open_blobs(machines: &Machines, connection: &Connection) -> Result<Connection> {
    match &machines.blob_redis {
        Some(url) => {
            let settings = connect_settings(machines, url, "--blob-redis")?;
            let blobs = Connection::open(settings).await.map_err(refused)?;
            if blobs.is_cluster() {
                return Err(refused("--blob-redis must be a plain Redis, and this one is a Cluster"));
            }
            Ok(blobs)
        }
        None if connection.is_cluster() => Err(refused(
            "workers on NATS read their inputs with a plain Redis client, which cannot follow a Cluster. Name a plain \
             Redis for them with --blob-redis",
        )),
        None => Ok(connection.clone()),
    }
}

fn connect_settings(machines: &Machines, url: &Secret, flag: &str) -> Result<ConnectSettings> {
    let address: Address = url.0.parse().map_err(|error| Failure::Usage(format!("{flag}: {error}")))?;
    let default = ConnectSettings::new(address);
    let durability = match &machines.durability {
        None => default.durability,
        Some(text) => text.parse().map_err(|error| Failure::Usage(format!("--durability: {error}")))?,
    };
    Ok(ConnectSettings {
        prefix: machines.prefix.clone().unwrap_or_else(|| default.prefix.clone()),
        durability,
        response_timeout: machines.store_timeout.unwrap_or(default.response_timeout),
        ca_file: machines.redis_ca_file.clone(),
        ..default
    })
}

fn cap_settings(machines: &Machines, prefix: &str, stages: &Settings) -> CapSettings {
    let default = CapSettings::default();
    CapSettings {
        installation: if prefix == PREFIX_DEFAULT { String::new() } else { prefix.to_owned() },
        silence: stages.worker_silence,
        lease: machines.worker_lease.unwrap_or(default.lease),
        redelivery_delay: machines.redelivery_delay.unwrap_or(default.redelivery_delay),
        max_deliver: stages.deliveries_max.into(),
        max_ack_pending: match stages.run_strategy {
            RunStrategy::Inbox => default.max_ack_pending,
            RunStrategy::Lock => PUT_OFF_MAX,
        },
        stream_replicas: machines
            .stream_replicas
            .map_or(default.stream_replicas, std::num::NonZeroUsize::get),
        ..default
    }
}
