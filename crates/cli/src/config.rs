//! Settings: flags override the environment, which overrides the file, which overrides defaults. Only this module
//! reads the environment.

mod serve;

use std::collections::BTreeMap;

use interlock_api::client::ClientSettings;

use crate::arguments::ConnectionFlags;

pub(crate) use serve::{
    DispatchPolicyChoices, LogFormat, PolicyServiceChoices, Secret, ServeConfig, ServeFlags, ServeRole,
};

/// OpenTelemetry's own variable for the collector.
const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

const GATEWAY_DEFAULT: &str = "http://127.0.0.1:8081";

/// The environment variables of Interlock and Cordum, read once.
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
        let is_ours = |name: &str| {
            name.starts_with("INTERLOCK_") || name.starts_with("CORDUM_") || name == OTLP_ENDPOINT
        };
        Self { variables: variables.into_iter().filter(|(name, _)| is_ours(name)).collect() }
    }

    /// The first of these variables that is set and not empty.
    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().filter_map(|name| self.variables.get(*name)).find(|value| !value.is_empty()).cloned()
    }
}

/// The gateway that flags or environment name, if any.
pub(crate) fn gateway(flags: &ConnectionFlags, environment: &Environment) -> Option<String> {
    flags.gateway.clone().or_else(|| environment.first(&["INTERLOCK_GATEWAY", "CORDUM_GATEWAY"]))
}

/// How to reach the gateway, and as whom. Cordum's variables work for people who come from there.
pub(crate) fn connection(flags: &ConnectionFlags, environment: &Environment) -> ClientSettings {
    let given = |flag: &Option<String>, names: &[&str]| flag.clone().or_else(|| environment.first(names));
    let gateway = gateway(flags, environment);
    let tenant_names = ["INTERLOCK_TENANT_ID", "INTERLOCK_TENANT", "CORDUM_TENANT_ID"];
    ClientSettings {
        api_key: given(&flags.api_key, &["INTERLOCK_API_KEY", "CORDUM_API_KEY"]),
        tenant: given(&flags.tenant, &tenant_names),
        ca_file: flags.ca_file.clone().or_else(|| environment.first(&["INTERLOCK_CA_FILE"]).map(Into::into)),
        ..ClientSettings::new(gateway.unwrap_or_else(|| GATEWAY_DEFAULT.to_owned()))
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
    fn a_flag_overrides_the_environment_and_our_variables_override_cordums() {
        let both = environment(&[("CORDUM_GATEWAY", "http://cordum"), ("INTERLOCK_GATEWAY", "http://ours")]);
        let cordum = environment(&[("CORDUM_GATEWAY", "http://cordum")]);
        assert_eq!(connection(&flags(Some("http://flag")), &both).gateway, "http://flag");
        assert_eq!(connection(&flags(None), &both).gateway, "http://ours");
        assert_eq!(connection(&flags(None), &cordum).gateway, "http://cordum");
        assert_eq!(connection(&flags(None), &environment(&[])).gateway, GATEWAY_DEFAULT);
    }

    #[test]
    fn an_empty_variable_is_ignored() {
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
    fn other_variables_are_not_kept() {
        assert!(environment(&[("HOME", "/root"), ("AWS_SECRET", "x")]).variables.is_empty());
    }
}
