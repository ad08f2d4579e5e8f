//! The dispatch policy.

use interlock_api::dispatch_policy::{CheckView, DispatchPolicyView, PolicyServiceView, RuleLook};
use interlock_control::Control;
use interlock_control::dispatch_policy::{Explanation, Look, ServiceStanding};
use interlock_model::TenantId;
use interlock_model::dispatch_policy::Rule;

/// Rules that name other tenants are not this one's to see.
pub(crate) fn view(control: &Control, tenant: &TenantId) -> DispatchPolicyView {
    let concerns = |rule: &&Rule| rule.tenants.is_empty() || rule.tenants.contains(tenant);
    let only_this = |rule: &Rule| {
        let mut rule = rule.clone();
        rule.tenants.retain(|named| named == tenant);
        rule
    };
    DispatchPolicyView {
        rules: control.settings().dispatch_policy.rules.iter().filter(concerns).map(only_this).collect(),
        service: control.service_standing(tenant).map(service),
        fail_open_total: control.fail_opens(),
    }
}

pub(crate) fn explained(tenant: TenantId, explanation: Explanation) -> CheckView {
    let Explanation { looks, judgement, service: standing } = explanation;
    let is_seen = |look: &Look| look.rule.tenants.is_empty() || look.rule.tenants.contains(&tenant);
    CheckView {
        decision: judgement.decision().to_owned(),
        reason: judgement.words(),
        rules: looks.into_iter().filter(is_seen).map(look).collect(),
        service: standing.map(service),
        tenant,
    }
}

fn look(look: Look) -> RuleLook {
    RuleLook {
        name: look.rule.name.to_string(),
        decision: look.rule.action.name().to_owned(),
        matches: look.mismatch.is_none(),
        mismatch: look.mismatch.map(|mismatch| mismatch.words().to_owned()),
    }
}

fn service(standing: ServiceStanding) -> PolicyServiceView {
    let ServiceStanding { place, state, away_since, failure } = standing;
    let away_since = away_since.map(Into::into);
    PolicyServiceView { url: place, state: state.name().to_owned(), away_since, failure }
}
