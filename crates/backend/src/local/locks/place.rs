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
            // Each lock of a stage has a home of its own. No tenant's name begins with a colon.
            LockName::Stage(stage) => {
                Self { home: format!(":{}", stage.key()), name: stage.key().to_owned() }
            }
            // It has a home of its own, so that it counts for no quota and is in no list.
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

    /// Of all waiters, and of all events.
    pub(super) fn prefix(&self) -> String {
        format!("{}/{}/", self.home, self.name)
    }

    /// Of one waiter, or one event.
    pub(super) fn numbered(&self, number: u64) -> String {
        format!("{}/{}/{number:015}", self.home, self.name)
    }

    /// In the list of held locks, and where the sweep finds it.
    pub(super) fn timed(&self, at: Timestamp) -> String {
        format!("{}/{:015}/{}", self.home, at.as_millis(), self.name)
    }
}
