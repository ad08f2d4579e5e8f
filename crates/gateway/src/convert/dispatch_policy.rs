//! The dispatch policy.

use interlock_api::dispatch_policy::{CheckView, DispatchPolicyView, PolicyServiceView, RuleCheck};
use interlock_control::policy::{self, PolicyExplanation, ServiceHealth};
use interlock_model::TenantId;
use interlock_model::dispatch_policy::Rule;

use crate::state::Shared;

/// Rules that name other tenants are not this one's to see.
pub(crate) fn view(app: &Shared, tenant: &TenantId) -> DispatchPolicyView {
    let concerns = |rule: &&Rule| rule.tenants.is_empty() || rule.tenants.contains(tenant);
    let only_this = |rule: &Rule| {
        let mut rule = rule.clone();
        rule.tenants.retain(|named| named == tenant);
        rule
    };
    DispatchPolicyView {
        rules: app.process.settings().dispatch_policy.rules.iter().filter(concerns).map(only_this).collect(),
        service: app.policy.service_health(tenant).map(service),
        fail_open_total: app.policy.fail_opens(),
    }
}

pub(crate) fn explained(tenant: TenantId, explanation: PolicyExplanation) -> CheckView {
    let PolicyExplanation { checks, judgement, service: health } = explanation;
    let is_seen =
        |look: &policy::RuleCheck| look.rule.tenants.is_empty() || look.rule.tenants.contains(&tenant);
    CheckView {
        decision: judgement.decision().to_owned(),
        reason: judgement.words(),
        rules: checks.iter().filter(|look| is_seen(look)).map(look).collect(),
        service: health.map(service),
        tenant,
    }
}

fn look(look: &policy::RuleCheck) -> RuleCheck {
    RuleCheck {
        name: look.rule.name.to_string(),
        decision: look.rule.action.name().to_owned(),
        matches: look.mismatch.is_none(),
        mismatch: look.mismatch.map(|mismatch| mismatch.words().to_owned()),
    }
}

fn service(health: ServiceHealth) -> PolicyServiceView {
    let ServiceHealth { place, state, away_since, failure } = health;
    let away_since = away_since.map(Into::into);
    PolicyServiceView { url: place, state: state.name().to_owned(), away_since, failure }
}
