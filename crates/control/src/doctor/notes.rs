//! What is noted during an examination.

use std::collections::BTreeMap;

use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant};

use super::{DoctorReport, FINDINGS_MAX, LookedAt, Unseen};

/// What names a finding.
type Name = (Invariant, Option<TenantId>, String);

#[derive(Debug, Default)]
pub(super) struct Notes {
    findings: BTreeMap<Name, Finding>,
    further: u64,
    looked_at: BTreeMap<Invariant, u64>,
    unseen: Vec<Unseen>,
}

impl Notes {
    /// The same subject is noted once, however many of its rows show it.
    pub(super) fn found(&mut self, finding: Finding) {
        let name = (finding.invariant, finding.tenant.clone(), finding.subject.clone());
        if self.findings.len() < FINDINGS_MAX || self.findings.contains_key(&name) {
            self.findings.insert(name, finding);
        } else {
            self.further += 1;
        }
    }

    pub(super) fn looked_at(&mut self, invariant: Invariant, tenants: u64) {
        *self.looked_at.entry(invariant).or_default() += tenants;
    }

    pub(super) fn unseen(&mut self, what: impl Into<String>, why: &impl ToString) {
        self.unseen.push(Unseen { what: what.into(), why: why.to_string() });
    }

    pub(super) fn merge(&mut self, other: Self) {
        for finding in other.findings.into_values() {
            self.found(finding);
        }
        self.further += other.further;
        for (invariant, tenants) in other.looked_at {
            self.looked_at(invariant, tenants);
        }
        self.unseen.extend(other.unseen);
    }

    pub(super) fn into_report(self) -> DoctorReport {
        let looked_at = self.looked_at.into_iter();
        DoctorReport {
            findings: self.findings.into_values().collect(),
            findings_untold: self.further,
            looked_at: looked_at.map(|(invariant, tenants)| LookedAt { invariant, tenants }).collect(),
            unseen: self.unseen,
            next: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(number: usize) -> Finding {
        Finding {
            invariant: Invariant::SlotWithoutRun,
            tenant: None,
            subject: number.to_string(),
            detail: String::new(),
            is_repairable: true,
        }
    }

    #[test]
    fn a_report_is_bounded_and_counts_what_is_beyond_the_bound() {
        let mut notes = Notes::default();
        (0..FINDINGS_MAX + 3).for_each(|number| notes.found(finding(number)));
        notes.found(finding(0));
        let report = notes.into_report();
        assert_eq!((report.findings.len(), report.findings_untold), (FINDINGS_MAX, 3));
    }
}
