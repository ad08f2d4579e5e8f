//! Named limits of the system: every tenant has the last version of them in time, and those of the version that it says.

use interlock_backend::documents::{Document, DocumentName};
use interlock_backend::limits::StoredLimit;
use interlock_backend::local::Table;
use interlock_model::limit::owner::is_of_system;

use super::Checker;
use super::limits::LimitRows;
use super::rows::Write;
use crate::Invariant;

/// The document, as it was written last.
#[derive(Default)]
pub(super) struct SystemLimits {
    version: u64,
    limits: Vec<StoredLimit>,
}

impl Checker {
    pub(super) fn take_system_limits(&mut self, writes: &[Write]) {
        let name = DocumentName::Limits.as_str();
        let row = writes.iter().find(|(table, key, _)| *table == Table::Documents && key == name);
        let Some((.., Some(row))) = row else { return };
        let document: Option<Document> = serde_json::from_str(row).ok();
        let limits = document.as_ref().and_then(|it| serde_json::from_str(&it.text).ok());
        match document.zip(limits) {
            Some((Document { version, .. }, limits)) => {
                self.system_limits = SystemLimits { version, limits };
            }
            None => self.violate(Invariant::NothingBreaks, format!("no limits of the system: {row}")),
        }
    }

    /// What a tenant has copied is what it says that it has.
    pub(super) fn judge_system_limits(&mut self, tenant: &str) {
        let SystemLimits { version, limits } = &self.system_limits;
        let rows: &LimitRows = self.tables.limits(tenant);
        if rows.tenant.system_revision == *version {
            let mut copied: Vec<_> =
                rows.limits.values().filter(|limit| is_of_system(&limit.name)).cloned().collect();
            copied.sort_by(|one, other| one.name.cmp(&other.name));
            if copied != *limits {
                let what = format!("tenant {tenant} has other limits of the system than version {version}");
                self.violate(Invariant::SystemLimitsApply, what);
            }
        }
    }

    /// Tenants that have an older version.
    pub(crate) fn behind_the_system(&mut self) -> Vec<String> {
        let version = self.system_limits.version;
        let tenants: Vec<String> = self.tenants.keys().map(ToString::to_string).collect();
        let is_behind = |tenant: &String| self.tables.limits(tenant).tenant.system_revision < version;
        tenants.into_iter().filter(is_behind).collect()
    }

    pub(crate) fn left_behind_the_system(&mut self) {
        let behind = self.behind_the_system();
        self.require(behind.is_empty(), Invariant::SystemLimitsApply, || {
            format!("the last limits of the system never came to {}", behind.join(", "))
        });
    }
}
