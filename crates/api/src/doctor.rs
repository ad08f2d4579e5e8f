//! Violated invariants, and their repair.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What a check found, and what it covered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorView {
    /// Sorted by invariant, tenant and subject; at most 1,000.
    pub findings: Vec<FindingView>,
    /// Number of findings beyond those in the list.
    pub findings_untold: u64,
    pub looked_at: Vec<LookedAtView>,
    pub unseen: Vec<UnseenView>,
    /// Where the next page begins; null after the last, and without `page_ms`.
    #[serde(default)]
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// One violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// Such as `slot_without_run`; later servers may have more invariants.
    pub invariant: String,
    /// Null for what belongs to the installation.
    #[schema(required)]
    pub tenant: Option<String>,
    /// The run, job, key, lock, row, loop or server that violates it.
    pub subject: String,
    /// One sentence for people: what was found.
    pub detail: String,
    /// What a repair does, or what to do by hand.
    pub plan: String,
    /// Whether a repair can fix it.
    pub repairable: bool,
}

/// An invariant that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LookedAtView {
    pub invariant: String,
    /// Number of tenants that were checked one by one; zero for what belongs to the installation, and for what is
    /// checked in all tenants at once.
    pub tenants: u64,
}

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnseenView {
    pub what: String,
    pub why: String,
}

/// What to check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DoctorQuery {
    /// Only the data of this tenant. Absent: everything that the key covers.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub tenant: Option<String>,
    /// Names of invariants, separated by commas. Absent: all.
    pub only: Option<String>,
    /// Check a page of the tenants: after this time no further tenant is begun, and no further step. Absent: all at once,
    /// for at most a minute.
    #[param(minimum = 1, maximum = 60_000)]
    pub page_ms: Option<u64>,
    /// The `next_cursor` of the page before, with `page_ms`.
    #[param(pattern = "^([A-Za-z0-9][A-Za-z0-9._-]{0,63}|keys:[a-z_]+:([0-9a-f]{2})*)$")]
    pub cursor: Option<String>,
}

/// What to repair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairRequest {
    /// At most 1,000. Absent: all findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub findings: Option<Vec<FindingName>>,
}

/// Identifies a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingName {
    pub invariant: String,
    #[serde(default)]
    pub tenant: Option<String>,
    pub subject: String,
}

/// What was repaired, and a second check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairView {
    pub repaired: Vec<RepairedView>,
    /// The second check.
    pub after: DoctorView,
}

/// The outcome of one repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairedView {
    pub invariant: String,
    #[schema(required)]
    pub tenant: Option<String>,
    pub subject: String,
    /// `repaired`, `nothing_to_do`, `impossible`, or `unknown` if the store did not answer.
    pub became: String,
    /// Why, for `impossible` and `unknown`.
    #[schema(required)]
    pub reason: Option<String>,
}
