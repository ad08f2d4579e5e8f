//! Pausing a workflow: by a limit of its own, which exists as long as it is paused.

use interlock_backend::StoreError;
use interlock_backend::verbs::ListLimits;
use interlock_model::limit::RUNS_MAX_BOUND;
use interlock_model::limit::checks::InvalidLimit;
use interlock_model::limit::document::{AppliesTo, LimitDocument, OnFull, Pause};
use interlock_model::{LimitName, TenantId, WorkflowId};

use super::{Limits, SaveLimitError};

const PREFIX: &str = "workflow.";

/// Characters of a limit's name.
const NAME_MAX: usize = 64;

/// The limit by which a workflow is paused. The end of a long id gives way to a hash of it.
pub fn pausing_limit(workflow: &WorkflowId) -> LimitName {
    let id = workflow.as_str();
    let whole = format!("{PREFIX}{id}");
    let name = if whole.len() <= NAME_MAX {
        whole
    } else {
        // FNV-1a: the same in every release.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{}.{hash:016x}", &whole[..NAME_MAX - 17])
    };
    name.parse().expect("the prefix and the characters of an id make a name")
}

/// A limit that any number of runs are within.
fn document(workflow: &WorkflowId, on_full: OnFull) -> LimitDocument {
    let workflows = vec![workflow.to_string()];
    LimitDocument {
        applies_to: Some(AppliesTo { workflows }),
        max_runs: Some(RUNS_MAX_BOUND),
        on_full,
        ..LimitDocument::default()
    }
}

/// A limit by which a workflow is paused applies to that one alone: pausing it must not pause others.
pub(super) fn check_pausing(name: &LimitName, document: &LimitDocument) -> Result<(), InvalidLimit> {
    if !name.as_str().starts_with(PREFIX) {
        return Ok(());
    }
    let only = document.applies_to.as_ref().and_then(|applies| match &applies.workflows[..] {
        [only] => only.parse().ok(),
        _ => None,
    });
    if only.is_some_and(|workflow| pausing_limit(&workflow) == *name) {
        return Ok(());
    }
    let problem =
        "limits named `workflow.ID` pause that workflow: apply it to that one alone, or use another name";
    Err(InvalidLimit { field: "applies_to.workflows", problem: problem.to_owned() })
}

impl Limits {
    /// Pauses a workflow: its starts are rejected, or wait if `on_full` says so. Its live runs continue. Returns the limit
    /// that pauses it.
    pub async fn pause_workflow(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
        (pause, on_full): (Pause, Option<OnFull>),
    ) -> Result<LimitName, SaveLimitError> {
        let name = pausing_limit(workflow);
        let before = self.pausing_document(tenant, &name).await?;
        let base = before.clone().unwrap_or_else(|| document(workflow, OnFull::Reject));
        if check_pausing(&name, &base).is_err() {
            let reason = format!(
                "limit {name} applies to more than the workflow {workflow} and would pause all of that; nothing was \
                 changed. Save it under another name and delete this one, or pause it: interlock limits pause {name}"
            );
            return Err(StoreError::Conflict(reason).into());
        }
        let after = LimitDocument { on_full: on_full.unwrap_or(base.on_full), ..base };
        if before.as_ref() != Some(&after) {
            self.save(tenant, name.clone(), after, None).await?;
        }
        self.pause(tenant, name.clone(), Some(pause)).await?;
        Ok(name)
    }

    /// Resumes a workflow, if it is paused: runs that wait for that start. What an operator has made of its limit stays.
    pub async fn resume_workflow(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
    ) -> Result<(), SaveLimitError> {
        let name = pausing_limit(workflow);
        match self.pausing_document(tenant, &name).await? {
            None => Ok(()),
            Some(found) if found == document(workflow, found.on_full) => {
                match self.delete(tenant, name, None).await {
                    Err(SaveLimitError::Store(StoreError::NotFound { .. })) => Ok(()),
                    deleted => deleted,
                }
            }
            Some(_) => Ok(self.pause(tenant, name, None).await.map(drop)?),
        }
    }

    async fn pausing_document(
        &self,
        tenant: &TenantId,
        name: &LimitName,
    ) -> Result<Option<LimitDocument>, StoreError> {
        let book = self.process.call(ListLimits { tenant: tenant.clone() }).await?;
        let found = book.limits.into_iter().find(|limit| limit.name == *name);
        Ok(found.map(|limit| limit.document))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workflow_has_a_limit_of_its_own_to_be_paused_by() {
        let name = |id: &str| pausing_limit(&id.parse().unwrap()).to_string();
        assert_eq!(name("review"), "workflow.review");
        let (long, other) = (format!("{}a", "x".repeat(63)), format!("{}b", "x".repeat(63)));
        assert_eq!(name(&long).len(), NAME_MAX);
        assert_ne!(name(&long), name(&other));
    }

    #[test]
    fn a_limit_that_pauses_a_workflow_applies_to_that_one_alone() {
        let check = |name: &str, workflows: Option<&[&str]>| {
            let workflows = workflows.map(|ids| ids.iter().map(ToString::to_string).collect());
            let applies_to = workflows.map(|workflows| AppliesTo { workflows });
            let document = LimitDocument { applies_to, max_runs: Some(1), ..LimitDocument::default() };
            check_pausing(&name.parse().unwrap(), &document).is_ok()
        };
        assert!(check("workflow.review", Some(&["review"])));
        assert!(check("workflows", None), "it pauses none");
        for other in [None, Some(&["review*"][..]), Some(&["review", "deploy"]), Some(&["deploy"])] {
            assert!(!check("workflow.review", other), "{other:?}");
        }
        let long = "x".repeat(64);
        assert!(check(pausing_limit(&long.parse().unwrap()).as_str(), Some(&[&long])));
    }
}
