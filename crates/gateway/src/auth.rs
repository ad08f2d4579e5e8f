//! Who is asking, for which tenant, and what they may do.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};
use interlock_api::Code;
use interlock_backend::keys::{KeyScope, Role};
use interlock_control::api_keys::{Principal, Recognition};
use interlock_model::TenantId;

use crate::error::Refusal;
use crate::state::{App, Shared};

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");

/// The tenant of whoever names none and whose key covers all.
const TENANT_DEFAULT: &str = "default";

/// Who is asking, and for which tenant.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub tenant: TenantId,
    pub name: String,
    role: Role,
    scope: KeyScope,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Look at workflows, runs and their history.
    ReadRuns,
    ReadJobs,
    /// Look at approvals, dead letters, workers, locks and limits.
    ReadRest,
    Start,
    /// Claim jobs and report on them.
    Work,
    Approve,
    Cancel,
    HandleLetters,
    /// Mend what must not be.
    Repair,
    /// Take locks, renew and release them.
    Lock,
    /// Take a lock away from its holder.
    ForceRelease,
    /// Send workers home.
    Drain,
    /// Change retry policies, begin and end roll-outs.
    Tune,
    /// Create and delete workflows, delete runs, set limits, make keys.
    Administer,
}

impl Permission {
    fn is_given_to(self, role: Role) -> bool {
        use Permission as P;
        match role {
            Role::Admin => true,
            Role::Operator => {
                matches!(
                    self,
                    P::ReadRuns
                        | P::ReadJobs
                        | P::ReadRest
                        | P::Approve
                        | P::Cancel
                        | P::HandleLetters
                        | P::Repair
                        | P::Lock
                        | P::ForceRelease
                        | P::Drain
                        | P::Tune
                )
            }
            Role::Starter => matches!(self, P::ReadRuns | P::Start),
            Role::Worker => matches!(self, P::Work | P::ReadJobs | P::Lock),
            Role::Viewer => matches!(self, P::ReadRuns | P::ReadJobs | P::ReadRest),
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::ReadRuns => "read workflows and runs",
            Self::ReadJobs => "read jobs",
            Self::ReadRest => "read approvals, dead letters, workers, locks, limits, policies and findings",
            Self::Start => "start runs",
            Self::Work => "claim jobs or report on them",
            Self::Approve => "approve or reject",
            Self::Cancel => "cancel",
            Self::HandleLetters => "retry or delete dead letters",
            Self::Repair => "repair what the doctor finds",
            Self::Lock => "take or release locks",
            Self::ForceRelease => "take a lock away from its holder",
            Self::Drain => "drain workers",
            Self::Tune => "change retry policies or roll-outs",
            Self::Administer => "change workflows, limits or keys, or delete runs",
        }
    }
}

impl Caller {
    pub(crate) fn may(&self, permission: Permission) -> Result<(), Refusal> {
        if permission.is_given_to(self.role) {
            return Ok(());
        }
        let role = self.role.name();
        Err(Refusal::forbidden(format!("a key with the role {role} may not {}", permission.verb())))
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

    /// Whether the key covers every tenant: what holds for the whole system needs that.
    pub(crate) fn covers_all(&self) -> Result<(), Refusal> {
        match &self.scope {
            KeyScope::All => Ok(()),
            KeyScope::Tenant(own) => {
                Err(Refusal::forbidden(format!("this key covers the tenant {own}, not the whole system")))
            }
        }
    }

    fn recognise(headers: &HeaderMap, app: &Shared) -> Result<Self, Refusal> {
        let Principal { name, role, scope } = match app.keys.recognise(presented(headers)) {
            Recognition::Known(principal) => principal,
            // Keys may all have been revoked since we were bound to an address that others can reach.
            Recognition::NoKeysConfigured if app.is_loopback => {
                Principal { name: "anonymous".to_owned(), role: Role::Admin, scope: KeyScope::All }
            }
            Recognition::NoKeysConfigured | Recognition::Unknown => return Err(unauthorized(headers)),
        };
        let tenant = match (named_tenant(headers)?, &scope) {
            (Some(tenant), _) => tenant,
            (None, KeyScope::Tenant(own)) => own.clone(),
            (None, KeyScope::All) => TENANT_DEFAULT.parse().map_err(Refusal::invalid)?,
        };
        let caller = Self { tenant, name, role, scope };
        caller.covers(&caller.tenant)?;
        Ok(caller)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Self::recognise(&parts.headers, app)
    }
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get(&API_KEY) {
        // What is not text is a wrong key, not an absent one.
        return Some(key.to_str().unwrap_or_default().trim());
    }
    let sent = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    let (scheme, key) = sent.split_once(' ').unwrap_or((sent, ""));
    Some(if scheme.eq_ignore_ascii_case("bearer") { key.trim() } else { "" })
}

fn unauthorized(headers: &HeaderMap) -> Refusal {
    let sentence = match presented(headers) {
        None => "an API key is needed: send it as X-API-Key or as Authorization: Bearer",
        Some(_) => "this API key is not known here",
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
