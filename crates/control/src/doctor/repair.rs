//! Mending what was found, each finding on its own, and looking again.

use interlock_backend::inspection::Repair;
use interlock_backend::{StoreError, Wake};
use interlock_model::doctor::{Finding, Invariant, Mending, Realm};
use interlock_model::{JobId, TenantId};
use tracing::info;

use super::{Report, Scope, grace, installation};
use crate::service::Control;

/// Findings in a row to which the store does not answer before the others are left as they are: each costs a time-out.
const SILENCES_MAX: usize = 3;

/// Those that leave a run for the engine when they are mended.
const MAKE_RUNS_READY: [Invariant; 4] = [
    Invariant::StepWithoutJob,
    Invariant::TimerOverdue,
    Invariant::InboxNotDrained,
    Invariant::RunHoldWithoutHolder,
];

/// What names a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub invariant: Invariant,
    pub tenant: Option<TenantId>,
    pub subject: String,
}

impl Named {
    fn names(&self, finding: &Finding) -> bool {
        self.invariant == finding.invariant
            && self.tenant == finding.tenant
            && self.subject == finding.subject
    }
}

/// What became of one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    Mended,
    /// It was not there any more.
    NothingToDo,
    /// One sentence: why not.
    Impossible(String),
    /// The store did not answer: it may have been mended, or not.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    pub named: Named,
    pub became: Became,
}

/// What was done, and how it looks then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repairs {
    pub repaired: Vec<Repaired>,
    pub after: Report,
}

impl Control {
    /// Mends what is named, or all that is found within `scope`. One that cannot be mended does not stop the others.
    pub async fn repair(&self, scope: &Scope, named: Option<Vec<Named>>) -> Repairs {
        let named = match named {
            Some(named) => named,
            None => self.examine(scope).await.findings.into_iter().map(Named::from).collect(),
        };
        let mut repaired = Vec::with_capacity(named.len());
        let mut silences = 0;
        for named in named {
            let became = if silences < SILENCES_MAX {
                became(self.mend(&named).await)
            } else {
                Became::Unknown("it was not tried, because the store does not answer".to_owned())
            };
            silences = if matches!(became, Became::Unknown(_)) { silences + 1 } else { 0 };
            repaired.push(Repaired { named, became });
        }
        let after = self.examine(scope).await;
        for one in &mut repaired {
            let is_back = after.findings.iter().any(|finding| one.named.names(finding));
            if is_back && one.became == Became::Mended {
                one.became = Became::Impossible("it was mended, and is there again".to_owned());
            }
        }
        Repairs { repaired, after }
    }

    async fn mend(&self, named: &Named) -> Result<Mending, StoreError> {
        let Named { invariant, tenant, subject } = named;
        let mending = match (invariant.realm(), tenant) {
            (Realm::Tenant, Some(tenant)) => {
                let (tenant, subject) = (tenant.clone(), subject.clone());
                let repair = Repair { tenant, invariant: *invariant, subject, grace: grace(*invariant) };
                self.store.mend(&repair).await?
            }
            (Realm::Tenant, None) => Mending::Impossible { reason: "the finding names no tenant".to_owned() },
            (Realm::Installation, _) => {
                let mending = installation::mend(self, *invariant, subject).await?;
                if mending == Mending::NothingToDo && !is_ever_mended(*invariant) {
                    return Ok(Mending::Impossible { reason: invariant.plan().to_owned() });
                }
                mending
            }
        };
        if mending == Mending::Mended {
            info!(%invariant, tenant = tenant.as_ref().map(TenantId::as_str), subject, "mended");
            self.wake_mended(named).await;
        }
        Ok(mending)
    }

    /// Wakes whoever can go on now. If nobody hears it, the next poll finds it.
    async fn wake_mended(&self, named: &Named) {
        let Some(tenant) = named.tenant.clone() else { return };
        if MAKE_RUNS_READY.contains(&named.invariant) {
            return self.wake(Wake::RunReady { tenant });
        }
        let Ok(job) = named.subject.parse::<JobId>() else { return };
        if named.invariant == Invariant::JobInNoIndex
            && let Ok(Some(found)) = self.store.job(&tenant, &job).await
        {
            self.announce_jobs(&tenant, vec![found.job.new.topic]);
        }
        if named.invariant == Invariant::JobOfEndedRun {
            self.wake(Wake::JobsRevoked { jobs: vec![job] });
        }
    }
}

fn became(mending: Result<Mending, StoreError>) -> Became {
    match mending {
        Ok(Mending::Mended) => Became::Mended,
        Ok(Mending::NothingToDo) => Became::NothingToDo,
        Ok(Mending::Impossible { reason }) => Became::Impossible(reason),
        Err(error @ StoreError::Unavailable { .. }) => Became::Unknown(error.to_string()),
        Err(error) => Became::Impossible(error.to_string()),
    }
}

/// Those of the installation that something here can mend; for the others a person has to act.
fn is_ever_mended(invariant: Invariant) -> bool {
    use Invariant::{ConsumerGone, MemoryPolicy, SnapshotStale, WorkerSilent};
    matches!(invariant, SnapshotStale | WorkerSilent | ConsumerGone | MemoryPolicy)
}

impl From<Finding> for Named {
    fn from(finding: Finding) -> Self {
        Self { invariant: finding.invariant, tenant: finding.tenant, subject: finding.subject }
    }
}
