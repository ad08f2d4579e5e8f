//! What can follow an answer: the operations that take the ids, fences and tokens in it. People read them, and programs that
//! test the server walk along them.

use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::Operation;

/// From the success of an operation to another, with the parameters and the members of the body that are known then.
type LinkRow = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
);

const RUN: &[(&str, &str)] = &[("id", "$response.body#/run_id")];
const SAME_RUN: &[(&str, &str)] = &[("id", "$request.path.id")];
const ID: &[(&str, &str)] = &[("id", "$response.body#/id")];
const FIRST_ID: &[(&str, &str)] = &[("id", "$response.body#/items/0/id")];
const FIRST_JOB: &[(&str, &str)] = &[("job_id", "$response.body#/items/0/job_id")];
const CLAIMED: &[(&str, &str)] = &[("job_id", "$response.body#/jobs/0/job_id")];
const FENCE: &[(&str, &str)] = &[("fence", "$response.body#/jobs/0/fence")];
const NAME: &[(&str, &str)] = &[("name", "$request.path.name")];
const BUDGET: &[(&str, &str)] = &[("name", "$response.body#/name")];
const SAME_BUDGET: &[(&str, &str)] = &[("name", "$request.path.name")];
const PERMIT: &[(&str, &str)] = &[("permit", "$response.body#/permit")];
const WORKER: &[(&str, &str)] = &[("worker", "$request.path.worker")];
const LEASE: &[(&str, &str)] =
    &[("resource", "$response.body#/resource"), ("token", "$response.body#/token")];

#[rustfmt::skip]
pub(super) const LINKS: &[LinkRow] = &[
    ("workflows_create", "runs_start", ID, &[]),
    ("workflows_create", "workflows_get", ID, &[]),
    ("workflows_create", "workflows_delete", ID, &[]),
    ("workflows_create", "workflows_pause", ID, &[]),
    ("workflows_create", "workflows_resume", ID, &[]),
    ("workflows_create", "why_why", &[("workflow_id", "$response.body#/id")], &[]),
    ("workflows_create", "workflows_list", &[], &[]),
    ("workflows_list", "runs_start", FIRST_ID, &[]),
    ("runs_start", "runs_get", RUN, &[]),
    ("runs_start", "history_timeline", RUN, &[]),
    ("runs_start", "runs_cancel", RUN, &[]),
    ("runs_start", "runs_delete", RUN, &[]),
    ("runs_start", "runs_cancel_of_workflow",
        &[("workflow", "$request.path.id"), ("id", "$response.body#/run_id")], &[]),
    ("runs_start", "runs_list", &[], &[]),
    ("runs_start", "jobs_list", &[], &[]),
    ("runs_start", "workers_claim", &[], &[]),
    ("runs_start", "approvals_list", &[], &[]),
    ("runs_start", "why_why", &[("run_id", "$response.body#/run_id")], &[]),
    ("runs_start", "events_send", RUN, &[]),
    ("runs_start", "events_send_to_key", &[], &[]),
    ("runs_list", "runs_get", FIRST_ID, &[]),
    ("runs_cancel", "runs_rerun", SAME_RUN, &[]),
    ("runs_cancel", "history_stream", SAME_RUN, &[]),
    ("workers_claim", "workers_heartbeat", CLAIMED, FENCE),
    ("workers_claim", "workers_progress", CLAIMED, FENCE),
    ("workers_claim", "workers_complete", CLAIMED, FENCE),
    ("workers_claim", "workers_fail", CLAIMED, FENCE),
    ("workers_claim", "workers_release", CLAIMED, FENCE),
    ("workers_claim", "jobs_get", CLAIMED, &[]),
    ("workers_claim", "jobs_cancel", CLAIMED, &[]),
    ("workers_claim", "workers_get", WORKER, &[]),
    ("workers_claim", "workers_drain", WORKER, &[]),
    ("workers_claim", "dispatch_policy_check", &[], &[("job_id", "$response.body#/jobs/0/job_id")]),
    ("jobs_list", "jobs_get", FIRST_JOB, &[]),
    ("approvals_list", "approvals_approve", FIRST_JOB, &[]),
    ("approvals_list", "approvals_reject", FIRST_JOB, &[]),
    ("dead_letters_list", "dead_letters_get", FIRST_JOB, &[]),
    ("dead_letters_list", "dead_letters_retry", FIRST_JOB, &[]),
    ("dead_letters_list", "dead_letters_delete", FIRST_JOB, &[]),
    ("locks_acquire", "locks_renew", &[], LEASE),
    ("locks_acquire", "locks_release", &[], LEASE),
    ("locks_acquire", "locks_force_release", &[],
        &[("resource", "$response.body#/resource"), ("expect_token", "$response.body#/token")]),
    ("locks_acquire", "locks_history", &[("resource", "$response.body#/resource")], &[]),
    ("locks_acquire", "locks_list", &[("resource", "$response.body#/resource")], &[]),
    ("locks_acquire", "why_why", &[("resource", "$response.body#/resource")], &[]),
    ("named_limits_put", "named_limits_get", NAME, &[]),
    ("named_limits_put", "named_limits_delete", NAME, &[]),
    ("named_limits_put", "named_limits_pause", NAME, &[]),
    ("named_limits_put", "named_limits_resume", NAME, &[]),
    ("named_limits_put", "named_limits_queue", NAME, &[]),
    ("named_limits_put", "named_limits_list", &[], &[]),
    ("system_limits_put", "system_limits_get", NAME, &[]),
    ("system_limits_put", "system_limits_delete", NAME, &[]),
    ("system_limits_put", "system_limits_pause", NAME, &[]),
    ("system_limits_put", "system_limits_resume", NAME, &[]),
    ("system_limits_put", "system_limits_list", &[], &[]),
    ("workflows_create", "named_limits_explain", &[], &[("workflow", "$response.body#/id")]),
    ("budgets_put", "budgets_get", BUDGET, &[]),
    ("budgets_put", "budgets_delete", BUDGET, &[]),
    ("budgets_put", "budgets_reserve", BUDGET, &[]),
    ("budgets_put", "budgets_adjust", BUDGET, &[]),
    ("budgets_reserve", "budgets_renew", SAME_BUDGET, PERMIT),
    ("budgets_reserve", "budgets_settle", SAME_BUDGET, PERMIT),
    ("budgets_reserve", "budgets_release", SAME_BUDGET, PERMIT),
    ("retry_policies_set", "retry_policies_roll_back", &[("scope", "$request.path.scope")], &[]),
    ("rollouts_start", "rollouts_get", ID, &[]),
    ("rollouts_start", "rollouts_promote", ID, &[]),
    ("rollouts_start", "rollouts_abort", ID, &[]),
    ("keys_create", "keys_rotate", ID, &[]),
    ("keys_create", "keys_revoke", ID, &[]),
];

/// Adds the links of this operation to the answer of its success.
pub(super) fn add(id: &str, operation: &mut Operation) {
    let mut answers = operation.responses.responses.iter_mut();
    let Some((_, RefOr::T(success))) = answers.find(|(status, _)| status.starts_with('2')) else { return };
    for (_, target, parameters, members) in LINKS.iter().filter(|(from, ..)| *from == id) {
        let link = parameters.iter().fold(LinkBuilder::new().operation_id(*target), |link, (name, value)| {
            link.parameter(*name, *value)
        });
        let body: Map<_, _> =
            members.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let body = Some(Value::Object(body)).filter(|_| !members.is_empty());
        success.links.insert((*target).to_owned(), link.request_body(body).build().into());
    }
}
