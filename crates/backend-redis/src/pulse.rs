//! Once a second: this process lives, and it hears what it keeps of the system.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::{StoreError, Wake};
use interlock_model::limit::Limits;
use interlock_model::time::millis;
use interlock_model::{InstanceId, Timestamp};
use serde::Deserialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::client::ScriptClient;
use crate::script::{Arguments, Call};

const PERIOD: Duration = Duration::from_secs(1);

/// By the store's clock: the leases of a process that was silent for longer no longer count.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(10);

pub(crate) async fn run(client: Arc<ScriptClient>, instance: InstanceId) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = beat(&client, &instance).await {
            tracing::warn!(%error, "heartbeat failed; other processes may take over this process's runs");
        }
    }
}

/// Reads the system's limits as soon as another process announces that they have changed.
pub(crate) async fn follow(
    mut heard: broadcast::Receiver<Wake>,
    client: Arc<ScriptClient>,
    instance: InstanceId,
) {
    loop {
        match heard.recv().await {
            Ok(Wake::LimitsChanged) => {
                if let Err(error) = beat(&client, &instance).await {
                    tracing::debug!(%error, "changed limits not read; the next heartbeat reads them");
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// What the store answers to a pulse.
#[derive(Deserialize)]
struct Heard {
    now: Timestamp,
    gone: Vec<InstanceId>,
    limits: Limits,
    revision: u64,
}

/// Says that this process lives, and learns what is new.
pub(crate) async fn beat(client: &ScriptClient, instance: &InstanceId) -> Result<(), StoreError> {
    let (ahead, silence) = client.rhythm().report();
    let rhythm = format!("{ahead} {}", millis(silence));
    let arguments = Arguments::default().with("instance", instance).with("rhythm", rhythm);
    let asked_at = client.own_time();
    // It waits for no replica: a pulse that is lost is followed by the next.
    let heard: Heard = client.call(Call::read("pulse", "beat", arguments).polling()).await?;
    client.rhythm().answered((asked_at, client.own_time()), heard.now);
    client.known().learn_gone(heard.gone.into_iter().filter(|gone| gone != instance).collect());
    client.known().learn_limits(heard.limits, heard.revision);
    Ok(())
}
