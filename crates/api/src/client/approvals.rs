//! Calls about approvals.

use interlock_model::approval::Verdict;

use super::paths::path;
use super::{Client, Result};
use crate::approvals::{ApprovalView, ResolvedApproval, VerdictRequest};
use crate::{Page, PageQuery};

impl Client {
    pub async fn approvals(&self, query: &PageQuery) -> Result<Page<ApprovalView>> {
        self.get(&path(&[&"approvals"])).query(query).read().await
    }

    pub async fn resolve_approval(
        &self,
        job: &str,
        verdict: Verdict,
        reason: Option<String>,
    ) -> Result<ResolvedApproval> {
        let verb = match verdict {
            Verdict::Approved => "approve",
            Verdict::Rejected => "reject",
        };
        self.post(&path(&[&"approvals", &job, &verb])).body(&VerdictRequest { reason }).read().await
    }
}
