//! What must be true and is not: looked for, mended.

use axum::Json;
use axum::extract::State;
use interlock_api::doctor::{DoctorQuery, DoctorView, RepairRequest, RepairView};
use interlock_control::doctor::{DoctorScope, DoctorTenants, FINDINGS_MAX, FindingId};
use interlock_model::TenantId;
use interlock_model::doctor::{Invariant, Realm};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::OptionalPayload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/doctor", examine).post("/api/v1/doctor/repair", repair)
}

/// Looks for everything that must not be. What could not be looked at stands in `unseen`; the answer is 200 then, too.
#[utoipa::path(get, path = "/api/v1/doctor", tag = "doctor", params(DoctorQuery), responses(
    (status = 200, body = DoctorView), Refusals))]
pub(crate) async fn examine(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<DoctorView> {
    caller.may(Permission::ReadRest)?;
    let scope = scope(&caller, &parameters)?;
    Ok(Json(convert::doctor::report(app.doctor.examine(&scope).await)))
}

/// Mends what is named, or all that is found, each on its own, and looks again.
#[utoipa::path(post, path = "/api/v1/doctor/repair", tag = "doctor", params(DoctorQuery),
    request_body = Option<RepairRequest>, responses((status = 200, body = RepairView), Refusals))]
pub(crate) async fn repair(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
    OptionalPayload(asked): OptionalPayload<RepairRequest>,
) -> Answer<RepairView> {
    caller.may(Permission::Repair)?;
    let scope = scope(&caller, &parameters)?;
    let named = asked.findings.map(|names| {
        if names.len() > FINDINGS_MAX {
            return Err(Refusal::invalid(format!("findings: at most {FINDINGS_MAX} at once")));
        }
        let read = names.into_iter().map(|name| covered(&caller, convert::doctor::named(name)?));
        read.collect::<Result<Vec<_>, _>>()
    });
    let repairs = app.doctor.repair(&scope, named.transpose()?).await;
    Ok(Json(convert::doctor::repairs(repairs)))
}

/// The tenant that is asked for, or all that the key covers.
fn scope(caller: &Caller, parameters: &Parameters) -> Result<DoctorScope, Refusal> {
    let read = |text: &str| text.parse::<TenantId>().map_err(|error| error.to_string());
    let tenants = match parameters.named("tenant", read)? {
        Some(tenant) => {
            caller.covers(&tenant)?;
            DoctorTenants::One(tenant)
        }
        None if caller.covers_all().is_ok() => DoctorTenants::All,
        None => DoctorTenants::One(caller.tenant.clone()),
    };
    let names = |text: &str| text.split(',').map(|name| name.trim().parse::<Invariant>()).collect();
    Ok(DoctorScope { tenants, only: parameters.named("only", names)?.unwrap_or_default() })
}

/// What is another tenant's, or everybody's, is mended only by those who cover it.
fn covered(caller: &Caller, named: FindingId) -> Result<FindingId, Refusal> {
    match (named.invariant.realm(), &named.tenant) {
        (Realm::Tenant, Some(tenant)) => caller.covers(tenant)?,
        (Realm::Tenant, None) => {
            return Err(Refusal::invalid(format!("a finding of {} names its tenant", named.invariant)));
        }
        (Realm::Installation, _) => caller.covers_all()?,
    }
    Ok(named)
}
