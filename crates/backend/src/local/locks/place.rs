//! Where the rows of one lock are.

use interlock_model::lock::LockName;
use interlock_model::{TenantId, Timestamp};

/// The first part of its keys, and the second.
#[derive(Debug, Clone)]
pub(super) struct Place {
    home: String,
    name: String,
}

impl Place {
    pub(super) fn of(lock: &LockName) -> Self {
        match lock {
            // '/' separates the parts of a key, and a resource may contain one.
            LockName::Of(tenant, resource) => Self {
                home: tenant.to_string(),
                name: resource.as_str().replace('%', "%25").replace('/', "%2F"),
            },
            // Each of our own is at home by itself. No tenant's name begins so.
            LockName::Stage(stage) => {
                Self { home: format!(":{}", stage.key()), name: stage.key().to_owned() }
            }
            // Beside its tenant's locks, and not among them: it counts for no quota and is in no list.
            LockName::Admission(tenant) => {
                Self { home: format!(":admission:{tenant}"), name: "admission".to_owned() }
            }
        }
    }

    /// The tenant's lock whose rows have `name`.
    pub(super) fn lock(tenant: &TenantId, name: &str) -> Option<LockName> {
        let resource = name.replace("%2F", "/").replace("%25", "%").parse().ok()?;
        Some(LockName::Of(tenant.clone(), resource))
    }

    pub(super) fn home(&self) -> &str {
        &self.home
    }

    pub(super) fn row(&self) -> String {
        format!("{}/{}", self.home, self.name)
    }

    pub(super) fn line(&self) -> String {
        format!("{}/{}/", self.home, self.name)
    }

    pub(super) fn waiter(&self, ticket: u64) -> String {
        format!("{}/{}/{ticket:015}", self.home, self.name)
    }

    pub(super) fn history(&self) -> String {
        self.line()
    }

    pub(super) fn event(&self, number: u64) -> String {
        self.waiter(number)
    }

    pub(super) fn listed(&self, since: Timestamp) -> String {
        format!("{}/{:015}/{}", self.home, since.as_millis(), self.name)
    }

    pub(super) fn swept(&self, at: Timestamp) -> String {
        self.listed(at)
    }
}
