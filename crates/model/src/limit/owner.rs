//! Whose a named limit is: a tenant's, or the system's, which applies to each tenant separately.

use super::checks::InvalidLimit;
use super::checks::require;
use crate::LimitName;

/// Named limits that the system may have.
pub const SYSTEM_LIMITS_MAX: usize = 16;

/// How the names of the system's limits begin in a tenant: a tenant's own limit may have the same name without it.
const PREFIX: &str = "system.";

/// Whether the tenant has this limit from the system, and cannot change it.
pub fn is_of_system(name: &LimitName) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// The name that a limit of the system has in each tenant.
pub fn name_in_tenants(name: &LimitName) -> Result<LimitName, InvalidLimit> {
    let problem = "the name of a limit of the system has at most 57 characters";
    format!("{PREFIX}{name}").parse().map_err(|_| InvalidLimit { field: "name", problem: problem.to_owned() })
}

/// The name that it has at the system. None: it is a tenant's own.
pub fn name_at_system(name: &LimitName) -> Option<LimitName> {
    name.as_str().strip_prefix(PREFIX)?.parse().ok()
}

/// Refuses a name of the system's for a limit of a tenant.
pub fn check_tenants_own(name: &LimitName) -> Result<(), InvalidLimit> {
    let problem = "names that begin with `system.` are those of the system's limits: use another name, or the scope system";
    require("name", !is_of_system(name), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_system_has_a_name_of_its_own_in_tenants() {
        let name: LimitName = "per-repo".parse().unwrap();
        let shown = name_in_tenants(&name).unwrap();
        assert_eq!(shown.as_str(), "system.per-repo");
        assert_eq!((name_at_system(&shown), name_at_system(&name)), (Some(name.clone()), None));
        assert!(is_of_system(&shown) && !is_of_system(&name));
        assert!(check_tenants_own(&name).is_ok());
        assert_eq!(check_tenants_own(&shown).unwrap_err().field, "name");
        assert_eq!(name_in_tenants(&"x".repeat(58).parse().unwrap()).unwrap_err().field, "name");
        assert!(name_in_tenants(&"x".repeat(57).parse().unwrap()).is_ok());
    }
}
