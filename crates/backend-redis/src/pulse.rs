//! Once a second: this process lives, and it hears what it keeps of the system.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::{StoreError, Wake};
use interlock_model::limit::Limits;
use interlock_model::time::millis;
use interlock_model::{InstanceId, Timestamp};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::client::{ScriptClient, damaged};
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, script};

const PERIOD: Duration = Duration::from_secs(1);

/// By the store's clock: a process that was not heard of for so long holds nothing any more.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(10);

pub(crate) async fn run(client: Arc<ScriptClient>, instance: InstanceId) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = beat(&client, &instance).await {
            tracing::warn!(%error, "no pulse; others may take over this process's runs");
        }
    }
}

/// Hears the system's limits as soon as somebody says that they have changed.
pub(crate) async fn follow(
    mut heard: broadcast::Receiver<Wake>,
    client: Arc<ScriptClient>,
    instance: InstanceId,
) {
    loop {
        match heard.recv().await {
            Ok(Wake::LimitsChanged) => {
                if let Err(error) = beat(&client, &instance).await {
                    tracing::debug!(%error, "changed limits are heard with the next pulse");
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Says that this process lives, and learns what is new.
pub(crate) async fn beat(client: &ScriptClient, instance: &InstanceId) -> Result<(), StoreError> {
    // It waits for no replica: a pulse that is lost is followed by the next.
    let call = Call::read(script!("pulse"), "beat", Home::System).polling();
    let (ahead, silence) = client.rhythm().told();
    let rhythm = format!("{ahead} {}", millis(silence));
    let call = call.with("instance", instance).with("gone_after", GONE_AFTER).with("rhythm", rhythm);
    let name = call.script.name;
    let asked_at = client.own_time();
    let reply = client.call(call).await?;
    learn(client, reply, (instance, asked_at)).map_err(|error| damaged(name, error))
}

fn learn(
    client: &ScriptClient,
    mut reply: Reply,
    (ours, asked_at): (&InstanceId, Timestamp),
) -> Result<(), Unreadable> {
    client.rhythm().answered((asked_at, client.own_time()), reply.time("now")?);
    let gone: Vec<InstanceId> = reply.each("gone", |gone| gone.into_parsed("instance"))?;
    client.known().learn_gone(gone.into_iter().filter(|gone| gone != ours).collect());
    let (limits, revision) = read_limits(&mut reply)?;
    client.known().learn_limits(limits, revision);
    Ok(())
}

/// Limits by the names of their fields in the hash that holds them.
pub(crate) fn read_limits(reply: &mut Reply) -> Result<(Limits, u64), Unreadable> {
    let runs_max = reply.optional("runs_max")?;
    let key_retention = reply.optional("key_retention_ms")?.map(Duration::from_millis);
    let revision = reply.optional("revision")?.unwrap_or(0);
    Ok((Limits { runs_max, key_retention }, revision))
}
