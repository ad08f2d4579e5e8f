//! What belongs to no tenant: the loops, the snapshot, the workers on the bus, the bus, and the servers beneath.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::inspection::Probed;
use interlock_model::doctor::{Finding, Invariant, Mending};
use interlock_model::lock::StageLock;

use super::notes::Notes;
use super::{GRACE, loops, workers};
use crate::locks::LoopLock;
use crate::reconcile::ticking::{self, Tick};
use crate::service::Control;

/// Those that the control plane judges by itself.
const OWN: [Invariant; 5] = [
    Invariant::SnapshotStale,
    Invariant::LoopNotTicking,
    Invariant::BusAway,
    Invariant::RenewalLag,
    Invariant::WorkerSilent,
];

/// How long one look may take.
const LOOK_MAX: Duration = Duration::from_secs(10);

pub(super) fn finding(invariant: Invariant, subject: &str, detail: String, is_repairable: bool) -> Finding {
    Finding { invariant, tenant: None, subject: subject.to_owned(), detail, is_repairable }
}

pub(super) async fn look(control: &Control, wanted: &[Invariant]) -> Notes {
    let mut notes = Notes::default();
    for invariant in OWN.iter().filter(|own| wanted.contains(own)) {
        let Ok(looked) = tokio::time::timeout(LOOK_MAX, own(control, *invariant)).await else {
            notes.unseen(invariant.name(), &"there was too much to look at in the time");
            continue;
        };
        match looked {
            Ok(found) => {
                notes.looked_at(*invariant, 0);
                for finding in found {
                    notes.found(finding);
                }
            }
            Err(error) => notes.unseen(invariant.name(), &error),
        }
    }
    for probe in &control.probes {
        for probed in probe.probe().await {
            note(&mut notes, probed, wanted);
        }
    }
    notes
}

async fn own(control: &Control, invariant: Invariant) -> Result<Vec<Finding>, StoreError> {
    if invariant == Invariant::SnapshotStale {
        loops::snapshot(control).await
    } else if invariant == Invariant::LoopNotTicking {
        loops::not_ticking(control).await
    } else if invariant == Invariant::RenewalLag {
        loops::renewal_lag(control).await
    } else if invariant == Invariant::WorkerSilent {
        workers::silent(control).await
    } else {
        Ok(bus(control))
    }
}

fn note(notes: &mut Notes, probed: Probed, wanted: &[Invariant]) {
    match probed {
        Probed::Sound(invariant) if wanted.contains(&invariant) => notes.looked_at(invariant, 0),
        Probed::Found(finding) if wanted.contains(&finding.invariant) => {
            notes.looked_at(finding.invariant, 0);
            notes.found(finding);
        }
        Probed::Unseen { invariant, reason } if wanted.contains(&invariant) => {
            notes.unseen(invariant.name(), &reason);
        }
        Probed::Sound(_) | Probed::Found(_) | Probed::Unseen { .. } => {}
    }
}

fn bus(control: &Control) -> Vec<Finding> {
    if control.bus.is_connected() {
        return Vec::new();
    }
    let detail = format!("{} is not connected to the bus: nobody hears it", control.instance);
    vec![finding(Invariant::BusAway, control.instance.as_str(), detail, false)]
}

pub(super) async fn mend(
    control: &Control,
    invariant: Invariant,
    subject: &str,
) -> Result<Mending, StoreError> {
    if invariant == Invariant::SnapshotStale {
        return write_snapshot(control).await;
    }
    if invariant == Invariant::WorkerSilent {
        return workers::end(control, subject).await;
    }
    for probe in &control.probes {
        let mending = probe.mend(invariant, subject).await?;
        if mending != Mending::NothingToDo {
            return Ok(mending);
        }
    }
    Ok(Mending::NothingToDo)
}

/// Writes the snapshot, unless another replica is about to.
async fn write_snapshot(control: &Control) -> Result<Mending, StoreError> {
    if loops::snapshot(control).await?.is_empty() {
        return Ok(Mending::NothingToDo);
    }
    let stage = StageLock::SnapshotWriter;
    let mut lock = LoopLock::new(control, stage);
    Ok(match ticking::run_once(control, &mut lock, stage).await? {
        Tick::Done(_) => Mending::Mended,
        Tick::NotOurs => Mending::Impossible {
            reason: format!("another replica holds {}; look at its log, or end it", stage.key()),
        },
        Tick::Dropped(loss) => Mending::Impossible { reason: loss.to_string() },
    })
}

/// Whether this process has been there for as long as loops may take to come about.
pub(super) fn is_settled(control: &Control) -> bool {
    control.started_at.elapsed() >= GRACE
}
