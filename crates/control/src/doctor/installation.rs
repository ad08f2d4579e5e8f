//! What belongs to no tenant: the loops, the snapshot, the NATS workers, the bus, and the servers.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::inspection::Probed;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};
use interlock_model::lock::StageLock;

use super::notes::Notes;
use super::{Doctor, GRACE, loops, workers};
use crate::installation::DATA_LOST;
use crate::reconcile::ticking::Tick;

/// Those that the control plane checks by itself.
const OWN: [Invariant; 6] = [
    Invariant::StoreDataLost,
    Invariant::SnapshotStale,
    Invariant::LoopNotTicking,
    Invariant::BusAway,
    Invariant::RenewalLag,
    Invariant::WorkerSilent,
];

/// How long one check may take.
const LOOK_MAX: Duration = Duration::from_secs(10);

pub(super) fn finding(invariant: Invariant, subject: &str, detail: String, is_repairable: bool) -> Finding {
    Finding { invariant, tenant: None, subject: subject.to_owned(), detail, is_repairable }
}

pub(super) async fn look(doctor: &Doctor, wanted: &[Invariant]) -> Notes {
    let mut notes = Notes::default();
    for invariant in OWN.iter().filter(|own| wanted.contains(own)) {
        let Ok(looked) = tokio::time::timeout(LOOK_MAX, own(doctor, *invariant)).await else {
            notes.unseen(invariant.name(), &"the check took too long");
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
    for probe in &doctor.probes {
        for probed in probe.probe().await {
            note(&mut notes, probed, wanted);
        }
    }
    notes
}

async fn own(doctor: &Doctor, invariant: Invariant) -> Result<Vec<Finding>, StoreError> {
    if invariant == Invariant::StoreDataLost {
        data_lost(doctor).await
    } else if invariant == Invariant::SnapshotStale {
        loops::snapshot(doctor).await
    } else if invariant == Invariant::LoopNotTicking {
        loops::not_ticking(doctor).await
    } else if invariant == Invariant::RenewalLag {
        loops::renewal_lag(doctor).await
    } else if invariant == Invariant::WorkerSilent {
        workers::silent(doctor).await
    } else {
        Ok(bus(doctor))
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

async fn data_lost(doctor: &Doctor) -> Result<Vec<Finding>, StoreError> {
    doctor.process.check_epoch().await?;
    if !doctor.process.has_lost_data() {
        return Ok(Vec::new());
    }
    let instance = doctor.process.instance.as_str();
    Ok(vec![finding(Invariant::StoreDataLost, instance, DATA_LOST.to_owned(), false)])
}

fn bus(doctor: &Doctor) -> Vec<Finding> {
    if doctor.process.bus.is_connected() {
        return Vec::new();
    }
    let detail = format!(
        "{} is not connected to the bus: its wake-ups reach no other replica",
        doctor.process.instance
    );
    vec![finding(Invariant::BusAway, doctor.process.instance.as_str(), detail, false)]
}

pub(super) async fn repair(
    doctor: &Doctor,
    invariant: Invariant,
    subject: &str,
) -> Result<RepairOutcome, StoreError> {
    if invariant == Invariant::SnapshotStale {
        return write_snapshot(doctor).await;
    }
    if invariant == Invariant::WorkerSilent {
        return workers::end(doctor, subject).await;
    }
    for probe in &doctor.probes {
        let repaired = probe.repair(invariant, subject).await?;
        if repaired != RepairOutcome::NothingToDo {
            return Ok(repaired);
        }
    }
    Ok(RepairOutcome::NothingToDo)
}

/// Writes the snapshot, unless another replica is about to.
async fn write_snapshot(doctor: &Doctor) -> Result<RepairOutcome, StoreError> {
    if loops::snapshot(doctor).await?.is_empty() {
        return Ok(RepairOutcome::NothingToDo);
    }
    let stage = StageLock::SnapshotWriter;
    let mut lock = doctor.reconcilers.loop_lock(stage);
    Ok(match doctor.reconcilers.tick(&mut lock, stage).await? {
        Tick::Done(_) => RepairOutcome::Repaired,
        Tick::NotOurs => RepairOutcome::Impossible {
            reason: format!("another replica holds {}; look at its log, or end it", stage.key()),
        },
        Tick::Dropped(loss) => RepairOutcome::Impossible { reason: loss.to_string() },
    })
}

/// Whether this process is old enough for every loop to have ticked.
pub(super) fn is_settled(doctor: &Doctor) -> bool {
    doctor.started_at.elapsed() >= GRACE
}
