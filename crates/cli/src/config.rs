//! Settings: flags over environment over file over defaults. The only place that reads the environment.

mod serve;

use std::collections::BTreeMap;

use interlock_api::client::Settings;

use crate::arguments::ConnectionFlags;

pub(crate) use serve::{
    ContentionChoices, DispatchPolicyChoices, LockChoices, LogFormat, Machines, PolicyServiceChoices, Role,
    Secret, ServeConfig, ServeFlags,
};

const GATEWAY_DEFAULT: &str = "http://127.0.0.1:8081";

/// The variables of the environment that are ours, read once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub(crate) fn of_process() -> Self {
        let text = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::new(text)
    }

    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_ours = |name: &str| name.starts_with("INTERLOCK_") || name.starts_with("CORDUM_");
        Self { variables: variables.into_iter().filter(|(name, _)| is_ours(name)).collect() }
    }

    /// The first of these variables that says something. An empty one says nothing.
    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().filter_map(|name| self.variables.get(*name)).find(|value| !value.is_empty()).cloned()
    }
}

/// The gateway that was named, if one was.
pub(crate) fn gateway(flags: &ConnectionFlags, environment: &Environment) -> Option<String> {
    flags.gateway.clone().or_else(|| environment.first(&["INTERLOCK_GATEWAY", "CORDUM_GATEWAY"]))
}

/// How to reach the gateway, and as whom. The names of Cordum are for people who come from there.
pub(crate) fn connection(flags: &ConnectionFlags, environment: &Environment) -> Settings {
    let given = |flag: &Option<String>, names: &[&str]| flag.clone().or_else(|| environment.first(names));
    let gateway = gateway(flags, environment);
    let tenant_names = ["INTERLOCK_TENANT_ID", "INTERLOCK_TENANT", "CORDUM_TENANT_ID"];
    Settings {
        api_key: given(&flags.api_key, &["INTERLOCK_API_KEY", "CORDUM_API_KEY"]),
        tenant: given(&flags.tenant, &tenant_names),
        ..Settings::new(gateway.unwrap_or_else(|| GATEWAY_DEFAULT.to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn flags(gateway: Option<&str>) -> ConnectionFlags {
        ConnectionFlags { gateway: gateway.map(str::to_owned), ..ConnectionFlags::default() }
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_our_names_over_cordums() {
        let both = environment(&[("CORDUM_GATEWAY", "http://cordum"), ("INTERLOCK_GATEWAY", "http://ours")]);
        let cordum = environment(&[("CORDUM_GATEWAY", "http://cordum")]);
        assert_eq!(connection(&flags(Some("http://flag")), &both).gateway, "http://flag");
        assert_eq!(connection(&flags(None), &both).gateway, "http://ours");
        assert_eq!(connection(&flags(None), &cordum).gateway, "http://cordum");
        assert_eq!(connection(&flags(None), &environment(&[])).gateway, GATEWAY_DEFAULT);
    }

    #[test]
    fn an_empty_variable_says_nothing() {
        let found = environment(&[
            ("INTERLOCK_TENANT_ID", ""),
            ("CORDUM_TENANT_ID", "acme"),
            ("INTERLOCK_API_KEY", ""),
        ]);
        let settings = connection(&flags(None), &found);
        assert_eq!(settings.tenant.as_deref(), Some("acme"));
        assert_eq!(settings.api_key, None);
    }

    #[test]
    fn variables_of_others_are_not_kept() {
        assert!(environment(&[("HOME", "/root"), ("AWS_SECRET", "x")]).variables.is_empty());
    }
}
