//! Settings of `serve`: defaults, overridden by the file, the environment and the flags, in this order.

mod dispatch_policy;
mod file;
mod flags;
mod settings;
mod value;

use std::path::Path;

use interlock_model::contention::Tuning;
use interlock_model::time::millis;

use super::{Environment, OTLP_ENDPOINT};
use crate::exit::{Failure, Result};
pub(crate) use dispatch_policy::{DispatchPolicyChoices, PolicyServiceChoices};
pub(crate) use flags::ServeFlags;
use settings::SETTINGS;
pub(crate) use settings::ServeConfig;
pub(crate) use value::{LogFormat, Secret, ServeRole};

/// A shorter admin key can be guessed.
const ADMIN_KEY_CHARS_MIN: usize = 24;

impl ServeConfig {
    pub(crate) fn resolve(flags: &ServeFlags, environment: &Environment) -> Result<Self> {
        let mut config = Self::default();
        let named = environment.first(&["INTERLOCK_CONFIG"]);
        if let Some(path) = flags.config.as_deref().or(named.as_deref().map(Path::new)) {
            let wrong = |error: String| Failure::Usage(format!("{}: {error}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            file::apply(&text, &mut config).map_err(wrong)?;
        }
        if let Some(service) = &mut config.dispatch_policy.service {
            service.bearer = environment.first(&["INTERLOCK_DISPATCH_POLICY_BEARER"]).map(Secret);
        }
        // Every exporter of OpenTelemetry reads this variable.
        config.otlp_endpoint = environment.first(&[OTLP_ENDPOINT]).or(config.otlp_endpoint);
        for setting in SETTINGS {
            let variable = setting.variable();
            let flag =
                flags.given.iter().find(|(key, _)| *key == setting.key).map(|(_, text)| text.0.clone());
            let given =
                [(environment.first(&[&variable]), variable), (flag, format!("--{}", setting.flag()))];
            for (text, name) in given {
                let Some(text) = text else { continue };
                let set = (setting.set)(&mut config, &text);
                set.map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
                config.listen_is_given |= setting.key == "listen";
            }
        }
        config.check()?;
        Ok(config)
    }

    /// What no setting can check by itself.
    fn check(&self) -> Result<()> {
        if self.redis.is_some() != self.nats.is_some() {
            return Err(Failure::Usage(
                "--redis and --nats need each other: give both or neither".to_owned(),
            ));
        }
        let has_enough = |key: &Secret| {
            key.0.chars().filter(|letter| !letter.is_whitespace()).count() >= ADMIN_KEY_CHARS_MIN
        };
        if self.admin_key.as_ref().is_some_and(|key| !has_enough(key)) {
            return Err(Failure::Usage(format!(
                "the admin key can be guessed: it needs at least {ADMIN_KEY_CHARS_MIN} characters, such as those of \
                 `openssl rand -hex 24`"
            )));
        }
        for (tuning, keys) in [
            (self.admission_tuning(), "admission_retry, admission_max_wait_ms, admission_lock_ttl_ms"),
            (self.lock_busy_tuning(), "lock_busy_retry, lock_busy_max_wait_ms, run_lease_ms"),
        ] {
            tuning.checked().map_err(|error| Failure::Usage(format!("{keys}: {error}")))?;
        }
        Ok(())
    }

    /// How starts wait for the admission lock.
    pub(crate) fn admission_tuning(&self) -> Tuning {
        Tuning {
            policy: self.admission_retry,
            max_wait_ms: millis(self.admission_max_wait_ms.0),
            lock_ttl_ms: millis(self.admission_lock_ttl_ms.0),
        }
    }

    /// How results wait for a leased run.
    pub(crate) fn lock_busy_tuning(&self) -> Tuning {
        Tuning {
            policy: self.lock_busy_retry,
            max_wait_ms: millis(self.lock_busy_max_wait_ms.0),
            lock_ttl_ms: millis(self.run_lease_ms.0),
        }
    }

    pub(crate) fn role_names(&self) -> Vec<String> {
        self.roles.iter().map(|role| role.name().to_owned()).collect()
    }

    /// A file with all settings, for `--print-config`.
    pub(crate) fn template() -> String {
        file::template()
    }
}

#[cfg(test)]
mod tests;
