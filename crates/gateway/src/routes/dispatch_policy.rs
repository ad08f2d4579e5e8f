//! The dispatch policy: what is in force, and what it would decide.

use std::collections::BTreeSet;

use interlock_api::dispatch_policy::{
    CheckRequest, CheckView, DispatchPolicyView, PolicyServiceView, RuleCheck,
};
use interlock_control::policy::{self, ExplainTarget, PolicyExplanation, ServiceHealth};
use interlock_model::dispatch_policy::Rule;
use interlock_model::meta::{JobMeta, TAGS_MAX};
use interlock_model::{Tag, TenantId};

use super::{Answer, Caller, Json, Payload, Permission, Refusal, endpoints};

endpoints!("dispatch policy": show, check);

/// What is in force for the tenant.
#[utoipa::path(get, path = "/api/v1/dispatch-policy", responses((status = 200, body = DispatchPolicyView)))]
async fn show(caller: Caller) -> Answer<DispatchPolicyView> {
    caller.may(Permission::ReadRest)?;
    let Caller { app, tenant, .. } = caller;
    // Not the names of other tenants.
    let only_own = |rule: &Rule| {
        let mut rule = rule.clone();
        rule.tenants.retain(|named| *named == tenant);
        rule
    };
    let rules = app.stages.process.settings().dispatch_policy.rules.iter();
    Ok(Json(DispatchPolicyView {
        rules: rules.filter(|rule| concerns(rule, &tenant)).map(only_own).collect(),
        service: app.stages.policy.service_health(&tenant).map(service_view),
        fail_open_total: app.stages.policy.fail_opens(),
    }))
}

/// A tenant does not see rules for other tenants.
fn concerns(rule: &Rule, tenant: &TenantId) -> bool {
    rule.tenants.is_empty() || rule.tenants.contains(tenant)
}

fn service_view(health: ServiceHealth) -> PolicyServiceView {
    let ServiceHealth { place, state, away_since, failure } = health;
    let away_since = away_since.map(Into::into);
    PolicyServiceView { url: place, state: state.name().to_owned(), away_since, failure }
}

/// What would be decided, and why: the rules up to the one that decides, and the answer of the service. Changes nothing.
#[utoipa::path(post, path = "/api/v1/dispatch-policy/check", request_body = CheckRequest,
    responses((status = 200, body = CheckView),
    (status = 404, description = "There is no such job (`not_found`)")))]
async fn check(caller: Caller, Payload(request): Payload<CheckRequest>) -> Answer<CheckView> {
    caller.may(Permission::ReadRest)?;
    let (policy, tenant) = (&caller.app.stages.policy, caller.tenant);
    let target = match request {
        CheckRequest { job_id: Some(job), topic: None, capability: None, risk_tags, requires }
            if risk_tags.is_empty() && requires.is_empty() =>
        {
            policy.target(&tenant, &job).await?
        }
        CheckRequest { job_id: None, topic: Some(topic), capability, risk_tags, requires } => {
            let (risk_tags, requires) = (tags("risk_tags", risk_tags)?, tags("requires", requires)?);
            let meta = JobMeta { capability, risk_tags, requires, ..JobMeta::default() };
            ExplainTarget::Imagined { topic, meta }
        }
        _ => return Err(Refusal::invalid("either job_id alone, or topic and what else is known of the job")),
    };
    let PolicyExplanation { checks, judgement, service } = policy.explain(&tenant, &target).await;
    Ok(Json(CheckView {
        decision: judgement.decision().to_owned(),
        reason: judgement.words(),
        rules: checks.iter().filter(|check| concerns(&check.rule, &tenant)).map(check_view).collect(),
        service: service.map(service_view),
        tenant,
    }))
}

fn check_view(check: &policy::RuleCheck) -> RuleCheck {
    RuleCheck {
        name: check.rule.name.to_string(),
        decision: check.rule.action.name().to_owned(),
        matches: check.mismatch.is_none(),
        mismatch: check.mismatch.map(|mismatch| mismatch.words().to_owned()),
    }
}

fn tags(field: &str, tags: Vec<Tag>) -> Result<BTreeSet<Tag>, Refusal> {
    if tags.len() > TAGS_MAX {
        return Err(Refusal::invalid(format!("{field}: at most {TAGS_MAX}")));
    }
    Ok(tags.into_iter().collect())
}
