//! What must be true and is not, and what became of mending it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What a look has found, and how much of everything it has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorView {
    /// By invariant, tenant and subject; at most 1,000.
    pub findings: Vec<FindingView>,
    /// Further ones that were found.
    pub findings_untold: u64,
    pub looked_at: Vec<LookedAtView>,
    pub unseen: Vec<UnseenView>,
}

/// One place where an invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// Such as `slot_without_run`. A text, so that a client outlives the invariants that come later.
    pub invariant: String,
    /// Null for what belongs to the installation.
    #[schema(required)]
    pub tenant: Option<String>,
    /// The run, job, key, lock, row, loop or server that it is about.
    pub subject: String,
    /// One sentence for people: what was found.
    pub detail: String,
    /// What is done, or is to be done.
    pub plan: String,
    /// Whether a repair can mend it.
    pub repairable: bool,
}

/// An invariant that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LookedAtView {
    pub invariant: String,
    /// In the rows of so many tenants; zero for what belongs to the installation.
    pub tenants: u64,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnseenView {
    pub what: String,
    pub why: String,
}

/// Where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DoctorQuery {
    /// The rows of this tenant alone. Without it: everything that the key covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Names of invariants with commas between them. Without it: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
}

/// What is to be mended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairRequest {
    /// At most 1,000. Absent: all that is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub findings: Option<Vec<FindingName>>,
}

/// What names a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingName {
    pub invariant: String,
    #[serde(default)]
    pub tenant: Option<String>,
    pub subject: String,
}

/// What was done, and how it looks then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairView {
    pub repaired: Vec<RepairedView>,
    /// The second look.
    pub after: DoctorView,
}

/// What became of one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepairedView {
    pub invariant: String,
    #[schema(required)]
    pub tenant: Option<String>,
    pub subject: String,
    /// `mended`, `nothing_to_do`, `impossible`, or `unknown` if the store did not answer.
    pub became: String,
    /// Why, for the last two.
    #[schema(required)]
    pub reason: Option<String>,
}
