//! Approvals: asked by a run, answered by a person.

use interlock_model::approval::{Approval, Decision, Resolution};
use interlock_model::{JobId, TenantId};
use serde::Serialize;

use crate::verb::verb;
use crate::{Page, PageRequest};

/// Records the decision and puts it into the run's inbox, in one step. The first decision counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResolveApproval {
    pub tenant: TenantId,
    pub job: JobId,
    pub decision: Decision,
}
verb!(write => ResolveApproval, "resolve_approval", "resolve an approval", Resolution);

/// The open ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListApprovals {
    pub tenant: TenantId,
    pub page: PageRequest,
}
verb!(read => ListApprovals, "list_approvals", "list approvals", Page<Approval>);
