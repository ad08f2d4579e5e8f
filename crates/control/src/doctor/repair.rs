//! Repairs findings one by one, and checks again.

use interlock_backend::inspection::Repair;
use interlock_backend::verbs::ReadJob;
use interlock_backend::{StoreError, Wake};
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};
use interlock_model::{JobId, TenantId};
use tracing::info;

use super::{Doctor, DoctorReport, DoctorScope, grace, installation};

/// Consecutive findings without an answer of the store before the rest is skipped: each costs a timeout.
const SILENCES_MAX: usize = 3;

/// Repairs of these make a run ready for the engine.
const MAKE_RUNS_READY: [Invariant; 4] = [
    Invariant::StepWithoutJob,
    Invariant::TimerOverdue,
    Invariant::InboxNotDrained,
    Invariant::RunHoldWithoutHolder,
];

/// What names a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingId {
    pub invariant: Invariant,
    pub tenant: Option<TenantId>,
    pub subject: String,
}

impl FindingId {
    fn names(&self, finding: &Finding) -> bool {
        self.invariant == finding.invariant
            && self.tenant == finding.tenant
            && self.subject == finding.subject
    }
}

/// What became of one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingOutcome {
    Repaired,
    /// The violation no longer exists.
    NothingToDo,
    /// One sentence: why not.
    Impossible(String),
    /// The store did not answer: the repair may have happened, or not.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    pub named: FindingId,
    pub outcome: FindingOutcome,
}

/// What was done, and the findings afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repairs {
    pub repaired: Vec<Repaired>,
    pub after: DoctorReport,
}

impl Doctor {
    /// Repairs what is named, or all findings within `scope`. One that cannot be repaired does not stop the others.
    pub async fn repair(&self, scope: &DoctorScope, named: Option<Vec<FindingId>>) -> Repairs {
        let named = match named {
            Some(named) => named,
            None => self.examine(scope).await.findings.into_iter().map(FindingId::from).collect(),
        };
        let mut repaired = Vec::with_capacity(named.len());
        let mut silences = 0;
        for named in named {
            let outcome = if silences < SILENCES_MAX {
                outcome_of(self.repair_one(&named).await)
            } else {
                FindingOutcome::Unknown("it was not tried, because the store does not answer".to_owned())
            };
            silences = if matches!(outcome, FindingOutcome::Unknown(_)) { silences + 1 } else { 0 };
            repaired.push(Repaired { named, outcome });
        }
        let after = self.examine(scope).await;
        for one in &mut repaired {
            let is_back = after.findings.iter().any(|finding| one.named.names(finding));
            if is_back && one.outcome == FindingOutcome::Repaired {
                one.outcome =
                    FindingOutcome::Impossible("it was repaired, and the violation is back".to_owned());
            }
        }
        Repairs { repaired, after }
    }

    async fn repair_one(&self, named: &FindingId) -> Result<RepairOutcome, StoreError> {
        let FindingId { invariant, tenant, subject } = named;
        let outcome = match (invariant.realm(), tenant) {
            (Realm::Tenant, Some(tenant)) => {
                let (tenant, subject) = (tenant.clone(), subject.clone());
                let repair = Repair { tenant, invariant: *invariant, subject, grace: grace(*invariant) };
                self.process.call(repair).await?
            }
            (Realm::Tenant, None) => {
                RepairOutcome::Impossible { reason: "the finding names no tenant".to_owned() }
            }
            (Realm::Installation, _) => {
                let outcome = installation::repair(self, *invariant, subject).await?;
                if outcome == RepairOutcome::NothingToDo && !is_repairable(*invariant) {
                    return Ok(RepairOutcome::Impossible { reason: invariant.plan().to_owned() });
                }
                outcome
            }
        };
        if outcome == RepairOutcome::Repaired {
            info!(%invariant, tenant = tenant.as_ref().map(TenantId::as_str), subject, "violation repaired");
            self.wake_after(named).await;
        }
        Ok(outcome)
    }

    /// Wakes the engine or the workers for what can continue now. A lost wake-up costs a poll.
    async fn wake_after(&self, named: &FindingId) {
        let Some(tenant) = named.tenant.clone() else { return };
        if MAKE_RUNS_READY.contains(&named.invariant) {
            return self.process.wake(Wake::RunReady { tenant });
        }
        let Ok(job) = named.subject.parse::<JobId>() else { return };
        if named.invariant == Invariant::JobInNoIndex
            && let Ok(Some(found)) =
                self.process.call(ReadJob { tenant: tenant.clone(), job: job.clone() }).await
        {
            self.process.announce_jobs(&tenant, [found.job.new.topic]);
        }
        if named.invariant == Invariant::JobOfEndedRun {
            self.process.wake(Wake::JobsRevoked { jobs: vec![job] });
        }
    }
}

fn outcome_of(outcome: Result<RepairOutcome, StoreError>) -> FindingOutcome {
    match outcome {
        Ok(RepairOutcome::Repaired) => FindingOutcome::Repaired,
        Ok(RepairOutcome::NothingToDo) => FindingOutcome::NothingToDo,
        Ok(RepairOutcome::Impossible { reason }) => FindingOutcome::Impossible(reason),
        Err(error @ StoreError::Unavailable { .. }) => FindingOutcome::Unknown(error.to_string()),
        Err(error) => FindingOutcome::Impossible(error.to_string()),
    }
}

/// Violations of the installation that the doctor can repair; for the others a person has to act.
fn is_repairable(invariant: Invariant) -> bool {
    use Invariant::{ConsumerGone, MemoryPolicy, SnapshotStale, WorkerSilent};
    matches!(invariant, SnapshotStale | WorkerSilent | ConsumerGone | MemoryPolicy)
}

impl From<Finding> for FindingId {
    fn from(finding: Finding) -> Self {
        Self { invariant: finding.invariant, tenant: finding.tenant, subject: finding.subject }
    }
}
