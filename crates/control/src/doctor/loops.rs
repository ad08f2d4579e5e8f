//! Loops that one replica at a time runs, and what they write.

use interlock_backend::verbs::{ReadLock, ReadRegistry, ReadSnapshot};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_model::doctor::{Finding, Invariant};
use interlock_model::lock::{Grant, LockName, StageLock};
use interlock_model::{InstanceId, Timestamp};
use serde_json::Value;

use super::installation::{finding, is_settled};
use super::{Doctor, GRACE};

/// A holder that is late at one check has this long until the next.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

async fn holder(doctor: &Doctor, stage: StageLock) -> Result<Option<Grant>, StoreError> {
    let lock = doctor.process.call(ReadLock { lock: LockName::Stage(stage) }).await?;
    Ok(lock.and_then(|lock| lock.view.holders.into_iter().next()))
}

/// Loops that no replica runs, after the time that a replica takes to start.
pub(super) async fn not_ticking(doctor: &Doctor) -> Result<Vec<Finding>, StoreError> {
    let mut found = Vec::new();
    for stage in StageLock::ALL {
        if holder(doctor, stage).await?.is_none() && is_settled(doctor) {
            let detail = "no replica holds the lock of this loop, so it does not run".to_owned();
            found.push(finding(Invariant::LoopNotTicking, stage.key(), detail, false));
        }
    }
    Ok(found)
}

/// Holders that have not renewed their lock when they should have, twice in a row.
pub(super) async fn renewal_lag(doctor: &Doctor) -> Result<Vec<Finding>, StoreError> {
    let mut late = Vec::new();
    for stage in StageLock::ALL {
        if let Some(grant) = late_holder(doctor, stage).await? {
            late.push((stage, grant));
        }
    }
    if !late.is_empty() {
        let live = live_instances(doctor).await?;
        // Nothing blocks a process that has stopped: another takes over when the lease expires.
        late.retain(|(_, grant)| live.iter().any(|instance| instance.as_str() == grant.owner.as_str()));
    }
    if late.is_empty() {
        return Ok(Vec::new());
    }
    tokio::time::sleep(SECOND_LOOK_AFTER).await;
    let mut found = Vec::new();
    for (stage, before) in late {
        let Some(grant) = late_holder(doctor, stage).await? else { continue };
        if grant.token == before.token && grant.expires_at == before.expires_at {
            let detail =
                format!("{} has not renewed its lock, which ends at {}", grant.owner, grant.expires_at);
            found.push(finding(Invariant::RenewalLag, stage.key(), detail, false));
        }
    }
    Ok(found)
}

/// This process, and the others that are known to live.
async fn live_instances(doctor: &Doctor) -> Result<Vec<InstanceId>, StoreError> {
    let mut live = vec![doctor.process.instance.clone()];
    for probe in &doctor.probes {
        live.extend(probe.live_instances().await?);
    }
    Ok(live)
}

/// The holder of the loop's lock, if less than a quarter of its time is left: it is renewed at half of it.
async fn late_holder(doctor: &Doctor, stage: StageLock) -> Result<Option<Grant>, StoreError> {
    let ttl = doctor.process.settings.locks.stage(stage).ttl;
    let Some(grant) = holder(doctor, stage).await? else { return Ok(None) };
    let now = doctor.process.call(ReadRegistry).await?.now;
    Ok(Some(grant).filter(|grant| grant.expires_at.since(now) < ttl / 4))
}

/// The snapshot of the workers, if it is older than its period allows.
pub(super) async fn snapshot(doctor: &Doctor) -> Result<Vec<Finding>, StoreError> {
    let old = doctor.process.settings.locks.timings().snapshot_every * 3;
    let written = doctor.process.call(ReadSnapshot).await?;
    let now = doctor.process.call(ReadRegistry).await?.now;
    let captured_at = written.as_deref().and_then(captured_at);
    let detail = match captured_at {
        Some(at) if now.since(at) > old.max(GRACE) => format!("the last snapshot is of {at}"),
        Some(_) => return Ok(Vec::new()),
        None if written.is_some() => "the snapshot does not say when it was made".to_owned(),
        None => "there is no snapshot of the workers".to_owned(),
    };
    // A store that no process has served for long has an old one until the first tick.
    if !is_settled(doctor) {
        return Ok(Vec::new());
    }
    Ok(vec![finding(Invariant::SnapshotStale, "workers", detail, true)])
}

fn captured_at(snapshot: &str) -> Option<Timestamp> {
    let document: Value = serde_json::from_str(snapshot).ok()?;
    document["captured_at"].as_str()?.parse().ok()
}
