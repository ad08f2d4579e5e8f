//! What every route answers to whom. Written by hand, from the documentation: a route that is not here fails the matrix.

/// A route, with a query if it has several kinds of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) method: &'static str,
    /// Names of planted values stand in braces, here and in the body.
    pub(super) path: &'static str,
    permission: &'static str,
    /// The status for a role that may, about its own tenant's things.
    pub(super) own: u16,
    /// The same about things of another tenant.
    pub(super) foreign: u16,
    /// The same about its own tenant's things with a key that is limited to another workflow.
    pub(super) limited: u16,
    pub(super) body: &'static str,
}

impl Row {
    fn parse(line: &'static str) -> Self {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("a word is missing in {line}"));
        let (method, path, permission) = (word(), word(), word());
        let mut status = || word().parse().unwrap_or_else(|_| panic!("a status is wrong in {line}"));
        let (own, foreign, limited) = (status(), status(), status());
        Self { method, path, permission, own, foreign, limited, body: words.next().unwrap_or_default() }
    }

    /// Whether it needs no key.
    pub(super) fn is_public(self) -> bool {
        self.permission == "public"
    }

    pub(super) fn is_safe(self) -> bool {
        self.method == "GET"
    }

    /// Whether a role of one tenant may call it.
    pub(super) fn permits(self, role: &str) -> bool {
        let roles: &[&str] = match self.permission {
            "public" | "any" => &["operator", "starter", "worker", "viewer"],
            "read-runs" => &["operator", "starter", "viewer"],
            "read-jobs" => &["operator", "worker", "viewer"],
            "read-rest" => &["operator", "viewer"],
            "start" => &["starter"],
            "send" => &["operator", "starter"],
            "work" => &["worker"],
            "lock" => &["operator", "worker"],
            "spend" => &["operator", "starter", "worker"],
            "operate" => &["operator"],
            "administer" => &[],
            // An admin of one tenant may not change what holds for all.
            "install" => return role == "root",
            unknown => panic!("there is no permission {unknown}"),
        };
        matches!(role, "root" | "admin") || roles.contains(&role)
    }

    /// Whether a key that is limited to workflows can do it for one of them.
    pub(super) fn is_about_workflows(self) -> bool {
        self.limited != 403 || self.path.contains("{workflow}") || self.body.contains("{workflow}")
    }

    /// Method and path as the `OpenAPI` document has them, without the names of parameters.
    pub(super) fn route(self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        route(self.method, path)
    }
}

pub(super) fn route(method: &str, path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    let parts: Vec<_> = path.split('/').map(part).collect();
    format!("{method} {}", parts.join("/"))
}

pub(super) fn rows() -> Vec<Row> {
    ROWS.lines().filter(|line| !line.is_empty()).map(Row::parse).collect()
}

/// Method, path, permission, the three statuses, body.
const ROWS: &str = r#"
GET /healthz public 200 200 200
GET /readyz public 200 200 200
GET /metrics public 200 200 200
GET /openapi.json public 200 200 200
GET /api/v1/status any 200 200 200
POST /api/v1/workflows/{workflow}/runs start 200 404 403 {"secret":1}
POST /api/v1/workflow-runs/{ended}/rerun start 200 404 404
GET /api/v1/workflow-runs read-runs 200 200 200
GET /api/v1/workflow-runs?workflow_id={workflow} read-runs 200 200 403
GET /api/v1/workflow-runs/{run} read-runs 200 404 404
GET /api/v1/workflow-runs/{ended}?wait_ms=0 read-runs 200 404 404
DELETE /api/v1/workflow-runs/{run} administer 204 404 404
POST /api/v1/workflow-runs/{run}/cancel operate 204 404 404
POST /api/v1/workflows/{workflow}/runs/{run}/cancel operate 204 404 403
GET /api/v1/workflow-runs/{run}/timeline read-runs 200 404 404
GET /api/v1/workflow-runs/{ended}/events read-runs 200 404 404
POST /api/v1/events send 200 200 403 {"name":"go","key":"k"}
POST /api/v1/workflow-runs/{run}/events send 200 404 404 {"name":"go"}
POST /api/v1/workers/{worker}/claim work 200 200 403 {"topics":["{topic}"],"max_jobs":1,"wait_ms":0}
POST /api/v1/jobs/{job}/heartbeat work 200 404 404 {"fence":{fence}}
POST /api/v1/jobs/{job}/progress work 200 404 404 {"fence":{fence},"percent":7}
POST /api/v1/jobs/{job}/complete work 200 404 404 {"fence":{fence},"output":{}}
POST /api/v1/jobs/{job}/fail work 200 404 404 {"fence":{fence},"error":"no","retryable":false}
POST /api/v1/jobs/{job}/release work 200 404 404 {"fence":{fence},"reason":"drain"}
GET /api/v1/jobs read-jobs 200 200 200
GET /api/v1/jobs/{job} read-jobs 200 404 404
POST /api/v1/jobs/{job}/cancel operate 200 404 404
POST /api/v1/workflows administer 201 201 403 {"id":"{workflow}","name":"n","steps":{"a":{"type":"approval"}}}
GET /api/v1/workflows read-runs 200 200 200
GET /api/v1/workflows/{workflow} read-runs 200 404 403
POST /api/v1/workflows/{workflow}/pause operate 200 404 403 {"reason":"why"}
POST /api/v1/workflows/{workflow}/resume operate 200 404 403
DELETE /api/v1/workflows/{workflow} administer 204 404 403
GET /api/v1/approvals read-rest 200 200 200
POST /api/v1/approvals/{approval}/approve operate 200 404 404
POST /api/v1/approvals/{approval}/reject operate 200 404 404
GET /api/v1/dlq read-rest 200 200 403
GET /api/v1/dlq/{job} read-rest 200 404 404
DELETE /api/v1/dlq/{job} operate 204 404 404
POST /api/v1/dlq/{job}/retry operate 200 404 404
POST /api/v1/dlq/retry operate 200 200 403 {"run_id":"{run}"}
POST /api/v1/dlq/delete operate 200 200 403 {"run_id":"{run}"}
GET /api/v1/dispatch-policy read-rest 200 200 403
POST /api/v1/dispatch-policy/check read-rest 200 404 403 {"job_id":"{job}"}
GET /api/v1/doctor?tenant={tenant} read-rest 200 403 403
POST /api/v1/doctor/repair?tenant={tenant} operate 200 403 403
POST /api/v1/doctor/repair operate 200 403 403 {"findings":[{"invariant":"timer_missing","tenant":"{tenant}","subject":"x"}]}
GET /api/v1/limits read-rest 200 200 403
GET /api/v1/limits/{limit} read-rest 200 404 403
PUT /api/v1/limits/{limit} administer 200 200 403 {"max_runs":2}
DELETE /api/v1/limits/{limit} administer 204 404 403
POST /api/v1/limits/{limit}/pause operate 200 404 403 {"reason":"why"}
POST /api/v1/limits/{limit}/resume operate 200 404 403
GET /api/v1/limits/{limit}/queue read-rest 200 404 403
GET /api/v1/system/limits read-rest 200 200 403
GET /api/v1/system/limits/{everywhere} read-rest 200 200 403
PUT /api/v1/system/limits/{everywhere} install 200 200 403 {"max_runs":500}
DELETE /api/v1/system/limits/{everywhere} install 204 204 403
POST /api/v1/system/limits/{everywhere}/pause install 200 200 403 {"reason":"why"}
POST /api/v1/system/limits/{everywhere}/resume install 200 200 403
POST /api/v1/limits/explain read-rest 200 404 403 {"workflow":"{workflow}"}
POST /api/v1/workflow-runs/{queued}/move operate 204 404 404 {"to":"front"}
PUT /api/v1/config administer 204 403 403 {"scope":"org","scope_id":"{tenant}","data":{"limits":{"max_concurrent_runs":77}}}
PUT /api/v1/config install 204 204 403 {"scope":"system","data":{"limits":{"max_concurrent_runs":500}}}
GET /api/v1/config?scope=org&scope_id={tenant} read-rest 200 403 403
GET /api/v1/config/effective?org_id={tenant} read-rest 200 403 403
GET /api/v1/budgets read-rest 200 200 403
GET /api/v1/budgets/{budget} read-rest 200 404 403
PUT /api/v1/budgets/{budget} administer 200 200 403 {"unit":"usd","amount":"7","per":"total"}
DELETE /api/v1/budgets/{budget} administer 204 404 403
POST /api/v1/budgets/{budget}/reserve spend 200 404 403 {"amount":"0.01","ttl_ms":600000,"request_id":"{owner}"}
POST /api/v1/budgets/{budget}/renew spend 200 404 403 {"permit":"{permit}","ttl_ms":600000}
POST /api/v1/budgets/{budget}/settle spend 200 404 403 {"permit":"{permit}","amount":"0.02"}
POST /api/v1/budgets/{budget}/release spend 200 404 403 {"permit":"{permit}"}
POST /api/v1/budgets/{budget}/adjust operate 200 404 403 {"delta":"1","reason":"why"}
POST /api/v1/locks/acquire lock 200 404 403 {"resource":"{resource}","owner":"{owner}","ttl_ms":600000,"token":"{token}"}
POST /api/v1/locks/renew lock 200 404 403 {"resource":"{resource}","token":"{token}","ttl_ms":600000}
POST /api/v1/locks/release lock 204 404 403 {"resource":"{resource}","token":"{token}"}
POST /api/v1/locks/force-release operate 204 404 403 {"resource":"{resource}","expect_token":"{token}","reason":"why"}
GET /api/v1/locks read-rest 200 200 403
GET /api/v1/locks?resource={resource} read-rest 200 404 403
GET /api/v1/locks/history?resource={resource} read-rest 200 404 403
GET /api/v1/locks/inventory read-rest 200 200 403
GET /api/v1/retry-policies read-rest 200 200 403
GET /api/v1/retry-policies/{scope} read-rest 200 200 403
PUT /api/v1/retry-policies/{scope} install 200 200 403 {"policy":"fixed:250ms"}
POST /api/v1/retry-policies/{scope}/rollback install 200 200 403
POST /api/v1/rollouts install 201 201 403 {"candidate":"fixed:250ms","share_percent":10}
GET /api/v1/rollouts read-rest 200 200 403
GET /api/v1/rollouts/{rollout} read-rest 200 200 403
POST /api/v1/rollouts/{rollout}/abort install 200 200 403
POST /api/v1/rollouts/{rollout}/promote install 200 200 403
GET /api/v1/workers read-rest 200 200 403
GET /api/v1/workers/{worker} read-rest 200 404 403
POST /api/v1/workers/{worker}/drain operate 200 404 403 {"draining":true}
POST /api/v1/keys administer 201 403 403 {"name":"n","role":"viewer","tenant":"{tenant}"}
GET /api/v1/keys administer 200 200 403
DELETE /api/v1/keys/{key} administer 204 404 403
POST /api/v1/keys/{key}/rotate administer 201 404 403
GET /api/v1/why?run_id={run} read-runs 200 404 404
GET /api/v1/why?job_id={job} read-jobs 200 404 404
GET /api/v1/why?workflow_id={workflow} read-runs 200 404 403
GET /api/v1/why?resource={resource} read-rest 200 200 403
"#;
