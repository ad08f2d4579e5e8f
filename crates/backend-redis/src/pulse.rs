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

use crate::link::{Link, damaged};
use crate::script::{Call, Fields, Unreadable};
use crate::scripts;

const PERIOD: Duration = Duration::from_secs(1);

/// By the store's clock: a process that was not heard of for so long holds nothing any more.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(10);

pub(crate) async fn run(link: Arc<Link>, instance: InstanceId) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = beat(&link, &instance).await {
            tracing::warn!(%error, "no pulse; others may take over this process's runs");
        }
    }
}

/// Hears the system's limits as soon as somebody says that they have changed.
pub(crate) async fn follow(mut heard: broadcast::Receiver<Wake>, link: Arc<Link>, instance: InstanceId) {
    loop {
        match heard.recv().await {
            Ok(Wake::LimitsChanged) => {
                if let Err(error) = beat(&link, &instance).await {
                    tracing::debug!(%error, "changed limits are heard with the next pulse");
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Says that this process lives, and learns what is new.
pub(crate) async fn beat(link: &Link, instance: &InstanceId) -> Result<(), StoreError> {
    // It waits for no replica: a pulse that is lost is followed by the next.
    let call = Call::global(&scripts::PULSE, "beat", false).polling();
    let (ahead, silence) = link.rhythm().told();
    let rhythm = format!("{ahead} {}", millis(silence));
    let call = call.with(instance.as_str()).with(millis(GONE_AFTER)).with(rhythm);
    let name = call.script.name;
    let asked_at = link.own_time();
    let fields = link.call(call).await?;
    learn(link, fields, (instance, asked_at)).map_err(|error| damaged(name, error))
}

fn learn(
    link: &Link,
    mut fields: Fields,
    (ours, asked_at): (&InstanceId, Timestamp),
) -> Result<(), Unreadable> {
    link.rhythm().answered((asked_at, link.own_time()), fields.time()?);
    let gone: Vec<InstanceId> = fields.list()?.each(|gone| gone.parsed("instance"))?;
    link.known().learn_gone(gone.into_iter().filter(|gone| gone != ours).collect());
    let mut limits = fields.list()?;
    let (limits, revision) = read_limits(&mut limits)?;
    link.known().learn_limits(limits, revision);
    Ok(())
}

/// Limits as a script tells them: runs, retention, revision.
pub(crate) fn read_limits(fields: &mut Fields) -> Result<(Limits, u64), Unreadable> {
    let runs_max = fields.optional("limit")?;
    let key_retention = fields.optional("retention")?.map(Duration::from_millis);
    let revision = fields.optional("revision")?.unwrap_or(0);
    Ok((Limits { runs_max, key_retention }, revision))
}
