//! What limits would do to a start now. Nothing is started.

use std::collections::BTreeMap;

use interlock_backend::limits::{HeldSlot, JOINED_AMONG_MAX};
use interlock_backend::verbs::{ListQueuedRuns, ListSlots, ReadDebouncedRun, ReadRun};
use interlock_backend::{PageRequest, StoreError, StoreReader};
use interlock_model::limit::group::{Fullness, Quiet};
use interlock_model::limit::judge::{Arrival, RuledGroup, judge, replaces_in};
use interlock_model::limit::place::Blocked;
use interlock_model::limit::rule::{NoGroup, SlotClaim, StartFacts, claims, fair_claims};
use interlock_model::{LimitName, RunId, TenantId, Timestamp, WorkflowId};

use super::Limits;
use crate::limit_books;
use crate::limit_usage::{self, TenantLimits};

/// Holders of a group that are looked at.
const HOLDERS_LOOKED_AT: usize = 100;

/// What limits would do to a start.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub arrival: Arrival,
    /// The run that waits for newer starts and would take this one in.
    pub taken_in_by: Option<(RunId, Quiet)>,
    /// All groups that the start counts in, the narrowest first; the tenant's own last.
    pub groups: Vec<MatchedGroup>,
    pub now: Timestamp,
}

/// A group that the start counts in.
#[derive(Debug, Clone)]
pub struct MatchedGroup {
    pub claim: SlotClaim,
    pub ruled: RuledGroup,
    /// Why no newcomer can start in it now.
    pub fullness: Option<Fullness>,
}

impl MatchedGroup {
    /// The group as an obstacle.
    pub fn blocked(&self, fullness: Fullness) -> Blocked {
        self.ruled.blocked(&self.claim, fullness)
    }
}

impl Limits {
    /// Decides about a start as the store would. `Err` inside: a limit cannot tell in which group it counts.
    pub async fn explain(
        &self,
        tenant: &TenantId,
        facts: &StartFacts<'_>,
    ) -> Result<Result<Explanation, NoGroup>, StoreError> {
        let (store, now) = (self.process.reader(), self.process.now());
        let limits = TenantLimits::read(&store, tenant).await?;
        let book = limit_books::compile(tenant, limits.book.clone())?;
        match fair_claims(&book.rules, facts).and_then(|_| claims(&book.rules, facts)) {
            Ok(claims) => explain_in(&store, tenant, (&limits, claims), (facts.workflow, now)).await.map(Ok),
            Err(no_group) => Ok(Err(no_group)),
        }
    }

    /// The same of any start of a workflow: limits that need the input or the labels to tell the group are named, and decide
    /// nothing.
    pub async fn explain_workflow(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
    ) -> Result<(Explanation, Vec<LimitName>), StoreError> {
        let (store, now) = (self.process.reader(), self.process.now());
        let limits = TenantLimits::read(&store, tenant).await?;
        let (input, labels) = (serde_json::json!({}), BTreeMap::new());
        let facts = StartFacts { workflow, input: &input, labels: &labels };
        let book = limit_books::compile(tenant, limits.book.clone())?;
        let (mut rules, mut unknown) = (Vec::new(), Vec::new());
        for rule in &book.rules {
            match claims(std::slice::from_ref(rule), &facts) {
                Ok(_) => rules.push(rule.clone()),
                Err(_) => unknown.push(rule.name.clone()),
            }
        }
        let claims = claims(&rules, &facts).unwrap_or_default();
        let explanation = explain_in(&store, tenant, (&limits, claims), (workflow, now)).await?;
        Ok((explanation, unknown))
    }
}

async fn explain_in(
    store: &StoreReader,
    tenant: &TenantId,
    (limits, claims): (&TenantLimits, Vec<SlotClaim>),
    (workflow, now): (&WorkflowId, Timestamp),
) -> Result<Explanation, StoreError> {
    let mut groups = Vec::new();
    for claim in claims.into_iter().chain([SlotClaim::tenant_runs()]) {
        let rule = limits.rule(&claim.limit);
        let group = limit_usage::group(store, tenant, &claim).await?;
        let fullness = group.fullness_for_newcomer(&rule, now);
        groups.push(MatchedGroup { claim, ruled: RuledGroup { rule, group, freed: 0 }, fullness });
    }
    free_by_replacement(store, tenant, &mut groups, now).await?;
    let ruled: Vec<RuledGroup> = groups.iter().map(|matched| matched.ruled).collect();
    let mut arrival = judge(&ruled, true, now);
    if let Arrival::Join { at, .. } = arrival
        && !can_join(store, tenant, &groups[at].claim, workflow).await?
    {
        arrival = judge(&ruled, false, now);
    }
    let mut taken_in_by = None;
    if let Arrival::Debounce { at, .. } = arrival {
        taken_in_by = debounced_run(store, tenant, &groups[at].claim, workflow).await?;
        if taken_in_by.is_none() {
            arrival = judge(&ruled, false, now);
        }
    }
    Ok(Explanation { arrival, taken_in_by, groups, now })
}

/// Marks what the run frees that the start would replace.
async fn free_by_replacement(
    store: &StoreReader,
    tenant: &TenantId,
    groups: &mut [MatchedGroup],
    now: Timestamp,
) -> Result<(), StoreError> {
    let ruled: Vec<RuledGroup> = groups.iter().map(|matched| matched.ruled).collect();
    let Some(at) = replaces_in(&ruled, now) else { return Ok(()) };
    let Some(victim) = holders(store, tenant, &groups[at].claim, 1).await?.first().map(|held| held.run)
    else {
        return Ok(());
    };
    for matched in groups {
        let held = holders(store, tenant, &matched.claim, HOLDERS_LOOKED_AT).await?;
        let is_freed =
            matched.claim == SlotClaim::tenant_runs() || held.iter().any(|held| held.run == victim);
        matched.ruled.freed = u32::from(is_freed);
    }
    Ok(())
}

async fn holders(
    store: &StoreReader,
    tenant: &TenantId,
    claim: &SlotClaim,
    limit: usize,
) -> Result<Vec<HeldSlot>, StoreError> {
    let SlotClaim { limit: name, group } = claim.clone();
    store.call(ListSlots { tenant: tenant.clone(), name, group, limit }).await
}

/// The run of the workflow that waits for newer starts in the group.
async fn debounced_run(
    store: &StoreReader,
    tenant: &TenantId,
    claim: &SlotClaim,
    workflow: &WorkflowId,
) -> Result<Option<(RunId, Quiet)>, StoreError> {
    let (SlotClaim { limit: name, group }, workflow) = (claim.clone(), workflow.clone());
    let read = ReadDebouncedRun { tenant: tenant.clone(), name, group, workflow };
    Ok(store.call(read).await?.and_then(|found| Some((found.run, found.quiet?))))
}

/// Whether a run of the workflow is live in the group, or waits in its queue.
async fn can_join(
    store: &StoreReader,
    tenant: &TenantId,
    claim: &SlotClaim,
    workflow: &WorkflowId,
) -> Result<bool, StoreError> {
    let SlotClaim { limit: name, group } = claim.clone();
    let page = PageRequest { limit: JOINED_AMONG_MAX, after: None };
    let waiting = ListQueuedRuns { tenant: tenant.clone(), name, group, page };
    let held = holders(store, tenant, claim, JOINED_AMONG_MAX).await?.into_iter().map(|held| held.run);
    let waiting = store.call(waiting).await?.items.into_iter().map(|queued| queued.run);
    let runs: Vec<RunId> = held.chain(waiting).take(JOINED_AMONG_MAX).collect();
    for run in runs {
        let found = store.call(ReadRun { tenant: tenant.clone(), run }).await?;
        if found.is_some_and(|found| found.start.workflow == *workflow) {
            return Ok(true);
        }
    }
    Ok(false)
}
