//! Who sent a request, for which tenant, and what it may do.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};
use interlock_api::Code;
use interlock_backend::Page;
use interlock_backend::keys::{KeyScope, Role};
use interlock_backend::verbs::ReadRun;
use interlock_control::api_keys::{Principal, Recognition};
use interlock_model::api_key::WorkflowPattern;
use interlock_model::{RunId, TenantId, Timestamp, WorkflowId, named_enum};

use crate::error::Refusal;
use crate::origin;
use crate::state::App;

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");

/// The tenant of a request that names none, with a key that covers all.
const TENANT_DEFAULT: &str = "default";

/// Patterns of a key that a refusal names.
const NAMED_MAX: usize = 5;

/// An authenticated request: who sent it, for which tenant, and what serves it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub app: App,
    pub tenant: TenantId,
    pub name: String,
    role: Role,
    scope: KeyScope,
    /// The only workflows that the key may do something about.
    workflows: Option<Vec<WorkflowPattern>>,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
}

named_enum! {
    /// What a request needs. The name completes the sentence "this key may not …".
    pub enum Permission {
        ReadRuns = "read workflows and runs",
        ReadJobs = "read jobs",
        ReadRest = "read approvals, dead letters, workers, locks, limits, budgets, policies and findings",
        Start = "start runs",
        SendEvents = "send events",
        Work = "claim jobs or report on them",
        Approve = "approve or reject",
        Cancel = "cancel",
        HandleDeadLetters = "retry or delete dead letters",
        Repair = "repair what the doctor finds",
        Lock = "acquire or release locks",
        Spend = "reserve from budgets",
        AdjustBudget = "adjust budgets",
        ForceRelease = "force-release a lock",
        Drain = "drain workers",
        Queue = "pause limits or workflows, or move queued runs",
        Tune = "change retry policies or rollouts",
        Administer = "change workflows, limits, budgets or keys, or delete runs",
    }
}

impl Permission {
    /// The roles that have it, besides admins.
    fn roles(self) -> &'static [Role] {
        use Role::{Operator, Starter, Viewer, Worker};
        match self {
            Self::ReadRuns => &[Operator, Starter, Viewer],
            Self::ReadJobs => &[Operator, Worker, Viewer],
            Self::ReadRest => &[Operator, Viewer],
            Self::Start => &[Starter],
            Self::SendEvents => &[Operator, Starter],
            Self::Work => &[Worker],
            Self::Lock => &[Operator, Worker],
            Self::Spend => &[Operator, Starter, Worker],
            Self::Approve
            | Self::Cancel
            | Self::HandleDeadLetters
            | Self::Repair
            | Self::AdjustBudget
            | Self::ForceRelease
            | Self::Drain
            | Self::Queue
            | Self::Tune => &[Operator],
            Self::Administer => &[],
        }
    }
}

/// A key that is limited to workflows passes only the checks that know the workflow of a request: every other request is
/// refused to it, new routes included.
impl Caller {
    /// For what is about no workflow.
    pub(crate) fn may(&self, permission: Permission) -> Result<(), Refusal> {
        self.has(permission)?;
        if self.workflows.is_some() {
            let limits = self.limits();
            return Err(Refusal::forbidden(format!("{limits}; it may not {}", permission.name())));
        }
        Ok(())
    }

    /// For what is about this workflow.
    pub(crate) fn may_for(&self, permission: Permission, workflow: &WorkflowId) -> Result<(), Refusal> {
        self.has(permission)?;
        if self.sees(workflow) {
            return Ok(());
        }
        Err(Refusal::forbidden(format!("{}; {workflow} is not among them", self.limits())))
    }

    /// For what is about this run. One of another workflow does not exist for the caller.
    pub(crate) async fn may_for_run(&self, permission: Permission, run: RunId) -> Result<(), Refusal> {
        self.has(permission)?;
        if self.workflows.is_none() {
            return Ok(());
        }
        let found = self.app.store.call(ReadRun { tenant: self.tenant.clone(), run }).await?;
        if found.is_some_and(|found| self.sees(&found.start.workflow)) {
            return Ok(());
        }
        Err(Refusal::not_found("run", &run.to_string()))
    }

    /// For a list, of which the caller gets what [`seen`](Self::seen) leaves.
    pub(crate) fn may_list(&self, permission: Permission) -> Result<(), Refusal> {
        self.has(permission)
    }

    /// The part of a page that is about workflows of the key. The next page begins where it would without a limit.
    pub(crate) fn seen<T>(&self, mut page: Page<T>, workflow: impl Fn(&T) -> &WorkflowId) -> Page<T> {
        page.items.retain(|item| self.sees(workflow(item)));
        page
    }

    fn sees(&self, workflow: &WorkflowId) -> bool {
        self.workflows.as_ref().is_none_or(|named| named.iter().any(|pattern| pattern.matches(workflow)))
    }

    fn limits(&self) -> String {
        let named: Vec<_> =
            self.workflows.iter().flatten().take(NAMED_MAX).map(ToString::to_string).collect();
        format!("this key is limited to workflows ({})", named.join(", "))
    }

    fn has(&self, permission: Permission) -> Result<(), Refusal> {
        if self.role == Role::Admin || permission.roles().contains(&self.role) {
            return Ok(());
        }
        let role = self.role.name();
        Err(Refusal::forbidden(format!("a key with the role {role} may not {}", permission.name())))
    }

    /// Whether the key covers this tenant too, whatever the request is for.
    pub(crate) fn covers(&self, tenant: &TenantId) -> Result<(), Refusal> {
        match &self.scope {
            KeyScope::All => Ok(()),
            KeyScope::Tenant(own) if own == tenant => Ok(()),
            KeyScope::Tenant(_) => {
                Err(Refusal::forbidden(format!("this key does not cover the tenant {tenant}")))
            }
        }
    }

    /// Whether the key covers every tenant, as changes of the whole system need.
    pub(crate) fn covers_all(&self) -> Result<(), Refusal> {
        match &self.scope {
            KeyScope::All => Ok(()),
            KeyScope::Tenant(own) => {
                Err(Refusal::forbidden(format!("this key covers the tenant {own}, not the whole system")))
            }
        }
    }

    fn recognise(parts: &Parts, app: &App) -> Result<Self, Refusal> {
        let headers = &parts.headers;
        let Principal { name, role, scope, workflows, expires_at } =
            match app.keys.recognise(presented(headers)) {
                Recognition::Known(principal) => principal,
                // All keys may have been revoked since the gateway was bound to a public address.
                Recognition::NoKeysConfigured if app.is_loopback => {
                    origin::check(parts, &app.settings.host_names)?;
                    let (name, role, scope) = ("anonymous".to_owned(), Role::Admin, KeyScope::All);
                    Principal { name, role, scope, workflows: None, expires_at: None }
                }
                Recognition::Expired => {
                    return Err(Refusal::new(
                        Code::Unauthorized,
                        "the API key has expired; ask an admin for a new one",
                    ));
                }
                Recognition::NoKeysConfigured | Recognition::Unknown => return Err(unauthorized(headers)),
            };
        let tenant = match (named_tenant(headers)?, &scope) {
            (Some(tenant), _) => tenant,
            (None, KeyScope::Tenant(own)) => own.clone(),
            (None, KeyScope::All) => TENANT_DEFAULT.parse().map_err(Refusal::invalid)?,
        };
        let caller = Self { app: app.clone(), tenant, name, role, scope, workflows, expires_at };
        caller.covers(&caller.tenant)?;
        Ok(caller)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let caller = Self::recognise(parts, app)?;
        // For what reads the body.
        parts.extensions.insert(caller.tenant.clone());
        Ok(caller)
    }
}

pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get(&API_KEY) {
        // A key that is not text is a wrong key, not an absent one.
        return Some(key.to_str().unwrap_or_default().trim());
    }
    let sent = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    let (scheme, key) = sent.split_once(' ').unwrap_or((sent, ""));
    Some(if scheme.eq_ignore_ascii_case("bearer") { key.trim() } else { "" })
}

fn unauthorized(headers: &HeaderMap) -> Refusal {
    let sentence = match presented(headers) {
        None => "an API key is needed: send it as X-API-Key or as Authorization: Bearer",
        Some(_) => "unknown API key",
    };
    Refusal::new(Code::Unauthorized, sentence)
}

fn named_tenant(headers: &HeaderMap) -> Result<Option<TenantId>, Refusal> {
    let mut named = headers.get_all(&TENANT).iter();
    let Some(first) = named.next() else { return Ok(None) };
    if named.any(|other| other != first) {
        return Err(Refusal::invalid("X-Tenant-ID is given more than once, with different values"));
    }
    let text = first.to_str().map_err(|_| Refusal::invalid("X-Tenant-ID is not ASCII text"))?;
    let tenant = text.trim().parse();
    tenant.map(Some).map_err(|error| Refusal::invalid(format!("X-Tenant-ID: {error}")))
}
