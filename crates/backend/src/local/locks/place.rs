//! Where the rows of one lock are.

use interlock_model::lock::{LockName, StageLock};
use interlock_model::{TenantId, Timestamp};

/// The home of the control plane's own locks. No tenant can have this name.
pub(super) const SYSTEM: &str = ":system";

/// The first part of its keys, and the second.
#[derive(Debug, Clone)]
pub(super) struct Place {
    home: String,
    name: String,
}

impl Place {
    pub(super) fn of(lock: &LockName) -> Self {
        match lock {
            // The parts of a key are told apart by '/', and a resource may have one.
            LockName::Of(tenant, resource) => Self {
                home: tenant.to_string(),
                name: resource.as_str().replace('%', "%25").replace('/', "%2F"),
            },
            LockName::Stage(stage) => Self { home: SYSTEM.to_owned(), name: stage.key().to_owned() },
        }
    }

    /// The lock whose rows have `name` in the home of `tenant`, or among our own.
    pub(super) fn lock(tenant: Option<&TenantId>, name: &str) -> Option<LockName> {
        match tenant {
            Some(tenant) => {
                let resource = name.replace("%2F", "/").replace("%25", "%").parse().ok()?;
                Some(LockName::Of(tenant.clone(), resource))
            }
            None => StageLock::ALL.into_iter().find(|stage| stage.key() == name).map(LockName::Stage),
        }
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
