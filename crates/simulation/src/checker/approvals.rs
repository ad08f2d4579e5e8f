//! Approvals: the first verdict counts.

use interlock_backend::StoreError;
use interlock_model::JobId;
use interlock_model::approval::{Resolution, Verdict};

use super::Checker;
use crate::Invariant;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Open,
    Answered(Verdict),
    Withdrawn,
}

impl Checker {
    pub(super) fn approval_opened(&mut self, job: &JobId) {
        self.approvals.insert(job.clone(), Approval::Open);
    }

    pub(super) fn approval_withdrawn(&mut self, job: &JobId) {
        if let Some(open @ Approval::Open) = self.approvals.get_mut(job) {
            *open = Approval::Withdrawn;
        }
    }

    pub(crate) fn resolved(
        &mut self,
        job: &JobId,
        verdict: Verdict,
        answer: &Result<Resolution, StoreError>,
    ) {
        let known = self.approvals.get(job).copied();
        let Ok(answer) = answer else { return };
        let expected = match answer {
            Resolution::Recorded => {
                let count = match verdict {
                    Verdict::Approved => &mut self.counts.approvals,
                    Verdict::Rejected => &mut self.counts.rejections,
                };
                *count += 1;
                self.approvals.insert(job.clone(), Approval::Answered(verdict));
                known == Some(Approval::Open)
            }
            Resolution::AlreadySo => known == Some(Approval::Answered(verdict)),
            Resolution::AlreadyOtherwise(_) => {
                self.counts.late_verdicts += 1;
                known.is_some_and(|known| known != Approval::Open && known != Approval::Answered(verdict))
            }
        };
        self.require(expected, Invariant::FirstVerdictCounts, || {
            format!("{verdict:?} for {job} was answered with {answer:?}")
        });
    }

    /// Approvals that were ever opened and belong to a run that exists.
    pub(crate) fn known_approvals(&self, only_open: bool) -> Vec<(interlock_model::TenantId, JobId)> {
        let known = self.approvals.iter().filter(|(_, state)| !only_open || **state == Approval::Open);
        known.filter_map(|(job, _)| Some((self.runs.get(&job.run)?.tenant.clone(), job.clone()))).collect()
    }
}
