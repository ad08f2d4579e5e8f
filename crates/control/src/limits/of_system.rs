//! Named limits of the system: what an operator of the installation does with them.

use std::sync::Arc;

use interlock_backend::limits::StoredLimit;
use interlock_backend::{Quota, StoreError};
use interlock_model::LimitName;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::owner::{SYSTEM_LIMITS_MAX, name_in_tenants};
use interlock_model::limit::rule::{LimitRule, SYSTEM_MATCHING_MAX, check_matching};

use super::{Limits, SaveLimitError};
use crate::system_limits::SystemBook;

impl Limits {
    /// All named limits of the system.
    pub async fn of_system(&self) -> Result<Arc<SystemBook>, StoreError> {
        self.system.load().await
    }

    /// Checks the document beside the other limits of the system and saves it. `replaces`: only if that is its revision.
    pub async fn save_for_system(
        &self,
        name: &LimitName,
        document: LimitDocument,
        replaces: Option<u64>,
    ) -> Result<u64, SaveLimitError> {
        let name = name_in_tenants(name)?;
        LimitRule::compile(name.clone(), &document)?;
        let saved_at = self.process.now();
        let save = |limits: &mut Vec<StoredLimit>, revision: u64| {
            let before = taken(limits, &name);
            check_revision(before.as_ref(), replaces)?;
            if before.is_none() && limits.len() >= SYSTEM_LIMITS_MAX {
                let most = u32::try_from(SYSTEM_LIMITS_MAX).unwrap_or(u32::MAX);
                return Err(StoreError::QuotaReached { quota: Quota::Limits, most }.into());
            }
            let (name, document) = (name.clone(), document.clone());
            let rules_before = rules(limits.iter().chain(&before))?;
            let paused = before.and_then(|limit| limit.paused);
            limits.push(StoredLimit { name, document, revision, saved_at, paused });
            check_matching(&rules(limits.iter())?, &rules_before, SYSTEM_MATCHING_MAX)?;
            Ok(revision)
        };
        self.system.change(save).await
    }

    /// Deletes a limit of the system. Runs that wait for it are re-evaluated in each tenant.
    pub async fn delete_for_system(
        &self,
        name: &LimitName,
        replaces: Option<u64>,
    ) -> Result<(), SaveLimitError> {
        let in_tenants = name_in_tenants(name)?;
        let delete = |limits: &mut Vec<StoredLimit>, _| {
            let before = taken(limits, &in_tenants);
            let found = before.ok_or_else(|| StoreError::not_found("limit", name))?;
            check_revision(Some(&found), replaces)
        };
        self.system.change(delete).await
    }

    /// Pauses a limit of the system in every tenant, or resumes it.
    pub async fn pause_for_system(
        &self,
        name: &LimitName,
        pause: Option<Pause>,
    ) -> Result<u64, SaveLimitError> {
        let in_tenants = name_in_tenants(name)?;
        let change = |limits: &mut Vec<StoredLimit>, revision: u64| {
            let limit = limits.iter_mut().find(|limit| limit.name == in_tenants);
            let limit = limit.ok_or_else(|| StoreError::not_found("limit", name))?;
            (limit.paused, limit.revision) = (pause.clone(), revision);
            Ok(revision)
        };
        self.system.change(change).await
    }
}

fn taken(limits: &mut Vec<StoredLimit>, name: &LimitName) -> Option<StoredLimit> {
    let at = limits.iter().position(|limit| limit.name == *name)?;
    Some(limits.remove(at))
}

fn check_revision(before: Option<&StoredLimit>, replaces: Option<u64>) -> Result<(), SaveLimitError> {
    let revision = before.map_or(0, |limit| limit.revision);
    if replaces.is_some_and(|expected| expected != revision) {
        return Err(SaveLimitError::Changed { revision });
    }
    Ok(())
}

fn rules<'a>(limits: impl Iterator<Item = &'a StoredLimit>) -> Result<Vec<LimitRule>, SaveLimitError> {
    let compiled = limits.map(|limit| LimitRule::compile(limit.name.clone(), &limit.document));
    Ok(compiled.collect::<Result<_, _>>()?)
}
