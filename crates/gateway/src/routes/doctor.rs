//! The doctor: invariants are checked, and violations repaired.

use std::time::Duration;

use interlock_api::doctor::{
    DoctorQuery, DoctorView, FindingName, FindingView, LookedAtView, RepairRequest, RepairView, RepairedView,
    UnseenView,
};
use interlock_control::doctor::{
    DoctorPage, DoctorPlace, DoctorReport, DoctorScope, DoctorTenants, FINDINGS_MAX, FindingId,
    FindingOutcome, LookedAt, Repaired, Repairs, Unseen,
};
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Realm};

use super::{
    Answer, Caller, Json, OptionalPayload, Parameters, Permission, Refusal, bounded, cursor, endpoints,
};

endpoints!("doctor": examine, repair);

/// Checks every invariant. What could not be checked is in `unseen`; the answer is 200 then, too.
#[utoipa::path(get, path = "/api/v1/doctor", params(DoctorQuery), responses((status = 200, body = DoctorView)))]
async fn examine(caller: Caller, parameters: Parameters) -> Answer<DoctorView> {
    caller.may(Permission::ReadRest)?;
    let scope = scope(&caller, &parameters)?;
    let page = page(&parameters)?;
    Ok(Json(report_view(caller.app.stages.doctor.examine_page(&scope, page).await)))
}

/// Repairs the named findings, or all, each on its own, and checks again.
#[utoipa::path(post, path = "/api/v1/doctor/repair", params(
    ("tenant" = Option<TenantId>, Query, description = "Only the data of this tenant. Absent: all that the key covers"),
    ("only" = Option<String>, Query, description = "Names of invariants, separated by commas. Absent: all")),
    request_body = Option<RepairRequest>,
    responses((status = 200, body = RepairView)))]
async fn repair(
    caller: Caller,
    parameters: Parameters,
    OptionalPayload(request): OptionalPayload<RepairRequest>,
) -> Answer<RepairView> {
    caller.may(Permission::Repair)?;
    let scope = scope(&caller, &parameters)?;
    let named = request.findings.map(|names| {
        if names.len() > FINDINGS_MAX {
            return Err(Refusal::invalid(format!("findings: at most {FINDINGS_MAX} at once")));
        }
        names.into_iter().map(|name| finding_id(&caller, name)).collect::<Result<Vec<_>, _>>()
    });
    let Repairs { repaired, after } = caller.app.stages.doctor.repair(&scope, named.transpose()?).await;
    let repaired = repaired.into_iter().map(repaired_view).collect();
    Ok(Json(RepairView { repaired, after: report_view(after) }))
}

fn page(parameters: &Parameters) -> Result<Option<DoctorPage>, Refusal> {
    let after = parameters.parsed::<String>("cursor")?.as_deref().map(read_cursor).transpose()?;
    let Some(millis) = parameters.parsed::<u64>("page_ms")? else {
        return if after.is_none() { Ok(None) } else { Err(Refusal::invalid("cursor needs page_ms")) };
    };
    bounded("page_ms", millis, (1, 60_000))?;
    Ok(Some(DoctorPage { after, budget: Duration::from_millis(millis) }))
}

/// Begins a cursor among keys and queues; no tenant has such a name. Other cursors are the last tenant.
const KEYS_CURSOR: &str = "keys:";

fn read_cursor(text: &str) -> Result<DoctorPlace, Refusal> {
    let invalid = || Refusal::invalid("cursor is not the next_cursor of a page");
    let Some(place) = text.strip_prefix(KEYS_CURSOR) else {
        return text.parse().map(DoctorPlace::Tenant).map_err(|_| invalid());
    };
    let (invariant, after) = place.split_once(':').ok_or_else(invalid)?;
    let invariant = invariant.parse().map_err(|_| invalid())?;
    let after = if after.is_empty() { None } else { Some(cursor::decode_text(after)?) };
    Ok(DoctorPlace::Unlisted { invariant, after })
}

fn write_cursor(place: DoctorPlace) -> String {
    match place {
        DoctorPlace::Tenant(tenant) => tenant.to_string(),
        DoctorPlace::Unlisted { invariant, after } => {
            format!("{KEYS_CURSOR}{invariant}:{}", cursor::encode(&after.unwrap_or_default()))
        }
    }
}

/// The tenant in the query, or all that the key covers.
fn scope(caller: &Caller, parameters: &Parameters) -> Result<DoctorScope, Refusal> {
    let tenants = match parameters.parsed::<TenantId>("tenant")? {
        Some(tenant) => {
            caller.covers(&tenant)?;
            DoctorTenants::One(tenant)
        }
        None if caller.covers_all().is_ok() => DoctorTenants::All,
        None => DoctorTenants::One(caller.tenant.clone()),
    };
    let names = parameters.text("only")?.into_iter().flat_map(|names| names.split(','));
    let only = names.map(|name| name.trim().parse::<Invariant>()).collect::<Result<_, _>>();
    Ok(DoctorScope { tenants, only: only.map_err(|error| Refusal::invalid(format!("only: {error}")))? })
}

/// The caller's key must cover what it repairs.
fn finding_id(caller: &Caller, name: FindingName) -> Result<FindingId, Refusal> {
    let FindingName { invariant, tenant, subject } = name;
    let tenant = tenant.map(|tenant| tenant.parse::<TenantId>().map_err(Refusal::invalid)).transpose()?;
    let invariant: Invariant = invariant.parse().map_err(Refusal::invalid)?;
    match (invariant.realm(), &tenant) {
        (Realm::Tenant, Some(tenant)) => caller.covers(tenant)?,
        (Realm::Tenant, None) => {
            return Err(Refusal::invalid(format!("a finding of {invariant} names its tenant")));
        }
        (Realm::Installation, _) => caller.covers_all()?,
    }
    Ok(FindingId { invariant, tenant, subject })
}

fn report_view(report: DoctorReport) -> DoctorView {
    let DoctorReport { findings, findings_untold, looked_at, unseen, next } = report;
    let looked = |LookedAt { invariant, tenants }| LookedAtView { invariant: invariant.to_string(), tenants };
    DoctorView {
        findings: findings.into_iter().map(finding_view).collect(),
        findings_untold,
        looked_at: looked_at.into_iter().map(looked).collect(),
        unseen: unseen.into_iter().map(|Unseen { what, why }| UnseenView { what, why }).collect(),
        next_cursor: next.map(write_cursor),
    }
}

fn finding_view(finding: Finding) -> FindingView {
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

fn repaired_view(repaired: Repaired) -> RepairedView {
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
