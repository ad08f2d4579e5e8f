//! Findings, and what became of them.

use interlock_api::doctor::{
    DoctorView, FindingName, FindingView, LookedAtView, RepairView, RepairedView, UnseenView,
};
use interlock_control::doctor::{
    DoctorReport, FindingId, FindingOutcome, LookedAt, Repaired, Repairs, Unseen,
};
use interlock_model::TenantId;
use interlock_model::doctor::Finding;

use crate::error::Refusal;

pub(crate) fn report(report: DoctorReport) -> DoctorView {
    let DoctorReport { findings, findings_untold, looked_at, unseen } = report;
    let looked = |LookedAt { invariant, tenants }| LookedAtView { invariant: invariant.to_string(), tenants };
    DoctorView {
        findings: findings.into_iter().map(finding).collect(),
        findings_untold,
        looked_at: looked_at.into_iter().map(looked).collect(),
        unseen: unseen.into_iter().map(|Unseen { what, why }| UnseenView { what, why }).collect(),
    }
}

fn finding(finding: Finding) -> FindingView {
    let Finding { invariant, tenant, subject, detail, is_repairable } = finding;
    FindingView {
        invariant: invariant.to_string(),
        tenant: tenant.map(|tenant| tenant.to_string()),
        subject,
        detail,
        plan: invariant.plan().to_owned(),
        repairable: is_repairable,
    }
}

pub(crate) fn named(name: FindingName) -> Result<FindingId, Refusal> {
    let FindingName { invariant, tenant, subject } = name;
    let tenant = tenant.map(|tenant| tenant.parse::<TenantId>().map_err(Refusal::invalid)).transpose()?;
    Ok(FindingId { invariant: invariant.parse().map_err(Refusal::invalid)?, tenant, subject })
}

pub(crate) fn repairs(repairs: Repairs) -> RepairView {
    let Repairs { repaired, after } = repairs;
    RepairView { repaired: repaired.into_iter().map(one).collect(), after: report(after) }
}

fn one(repaired: Repaired) -> RepairedView {
    let Repaired { named: FindingId { invariant, tenant, subject }, outcome } = repaired;
    let (became, reason) = match outcome {
        FindingOutcome::Repaired => ("repaired", None),
        FindingOutcome::NothingToDo => ("nothing_to_do", None),
        FindingOutcome::Impossible(reason) => ("impossible", Some(reason)),
        FindingOutcome::Unknown(reason) => ("unknown", Some(reason)),
    };
    RepairedView {
        invariant: invariant.to_string(),
        tenant: tenant.map(|tenant| tenant.to_string()),
        subject,
        became: became.to_owned(),
        reason,
    }
}
