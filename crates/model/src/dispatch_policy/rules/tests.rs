use serde_json::{Value, json};

use super::*;

fn rules(documents: Value) -> Result<Rules, String> {
    serde_json::from_value(documents).map_err(|error| error.to_string())
}

fn meta(capability: Option<&str>, risk_tags: &[&str]) -> JobMeta {
    JobMeta {
        capability: capability.map(|tag| tag.parse().unwrap()),
        risk_tags: risk_tags.iter().map(|tag| tag.parse().unwrap()).collect(),
        ..JobMeta::default()
    }
}

fn decided(rules: &Rules, tenant: &str, topic: &str, meta: &JobMeta) -> Option<String> {
    let (tenant, topic) = (tenant.parse().unwrap(), topic.parse().unwrap());
    let facts = Facts { tenant: &tenant, topic: &topic, meta };
    rules.decide(facts).map(|rule| rule.name.to_string())
}

#[test]
fn the_first_rule_with_all_conditions_met_decides() {
    let rules = rules(json!([
        {"name": "acme", "tenants": ["acme"], "topics": ["deploy.*"], "decision": "deny"},
        {"name": "writes", "capabilities": ["db:write", "db:drop"], "risk_tags": ["prod", "pii"], "decision": "deny"},
        {"name": "exact", "topics": ["build"], "decision": "allow"},
    ]))
    .unwrap();
    let none = meta(None, &[]);
    assert_eq!(decided(&rules, "acme", "deploy.prod", &none).as_deref(), Some("acme"));
    assert_eq!(decided(&rules, "acme", "deploy", &none), None);
    assert_eq!(decided(&rules, "globex", "deploy.prod", &none), None);
    assert_eq!(decided(&rules, "globex", "build", &none).as_deref(), Some("exact"));
    assert_eq!(decided(&rules, "globex", "build2", &none), None);
    let risky = meta(Some("db:drop"), &["pii"]);
    assert_eq!(decided(&rules, "globex", "build", &risky).as_deref(), Some("writes"), "the first one");
    assert_eq!(decided(&rules, "acme", "deploy.prod", &risky).as_deref(), Some("acme"));
    assert_eq!(decided(&rules, "globex", "x", &meta(Some("db:drop"), &["dev"])), None);
    assert_eq!(decided(&rules, "globex", "x", &meta(None, &["pii"])), None);
}

#[test]
fn a_rule_without_conditions_matches_every_job() {
    let rules = rules(json!([{"name": "all", "decision": "deny"}])).unwrap();
    assert_eq!(decided(&rules, "acme", "x", &meta(None, &[])).as_deref(), Some("all"));
}

#[test]
fn a_mismatch_names_the_first_unmet_condition() {
    let rules = rules(json!([{
        "name": "narrow", "tenants": ["acme"], "topics": ["a.*"], "capabilities": ["c"], "risk_tags": ["r"],
        "decision": "deny",
    }]))
    .unwrap();
    let rule = rules.iter().next().unwrap();
    let mismatch = |tenant: &str, topic: &str, meta: &JobMeta| {
        let (tenant, topic) = (tenant.parse().unwrap(), topic.parse().unwrap());
        rule.mismatch(Facts { tenant: &tenant, topic: &topic, meta })
    };
    assert_eq!(mismatch("globex", "a.b", &meta(Some("c"), &["r"])), Some(Mismatch::Tenant));
    assert_eq!(mismatch("acme", "b", &meta(Some("c"), &["r"])), Some(Mismatch::Topic));
    assert_eq!(mismatch("acme", "a.b", &meta(None, &["r"])), Some(Mismatch::Capability));
    assert_eq!(mismatch("acme", "a.b", &meta(Some("c"), &[])), Some(Mismatch::RiskTags));
    assert_eq!(mismatch("acme", "a.b", &meta(Some("c"), &["r", "s"])), None);
}

#[test]
fn invalid_rules_are_rejected() {
    let invalid = [
        json!([{"name": "a", "decision": "throttle", "dispatches": 1}]),
        json!([{"name": "a", "decision": "throttle", "dispatches": 1, "period_ms": 86_400_001}]),
        json!([{"name": "a", "decision": "deny", "dispatches": 1, "period_ms": 1}]),
        json!([{"name": "a", "decision": "throttle", "dispatches": 0, "period_ms": 1}]),
        json!([{"name": "a", "decision": "denied"}]),
        json!([{"name": "a", "decision": "deny", "topic": ["x"]}]),
        json!([{"name": "a", "decision": "deny", "topics": ["x*y"]}]),
        json!([{"name": "a", "decision": "deny", "topics": [""]}]),
        json!([{"name": "a", "decision": "deny", "topics": ["**"]}]),
        json!([{"name": "a", "decision": "deny"}, {"name": "a", "decision": "allow"}]),
        json!([{"name": "a", "decision": "deny", "reason": "x".repeat(501)}]),
        json!([{"name": "a", "decision": "deny", "topics": vec!["x"; 65]}]),
        Value::Array((0..257).map(|at| json!({"name": format!("r{at}"), "decision": "deny"})).collect()),
    ];
    for documents in invalid {
        assert!(rules(documents.clone()).is_err(), "{documents}");
    }
    let bounds =
        (0..256).map(|at| json!({"name": format!("r{at}"), "topics": vec!["x.*"; 64], "decision": "deny"}));
    assert!(rules(bounds.collect()).is_ok());
}

#[test]
fn rules_round_trip() {
    let documents = json!([
        {"name": "a", "tenants": ["acme"], "topics": ["*", "b.c*"], "decision": "require_approval", "reason": "ask first"},
        {"name": "b", "decision": "throttle", "dispatches": 3, "period_ms": 1000},
    ]);
    assert_eq!(serde_json::to_value(rules(documents.clone()).unwrap()).unwrap(), documents);
}
