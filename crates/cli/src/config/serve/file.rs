//! The TOML file of `serve`: read from, and printed as a template.

use std::fmt::Write as _;

use interlock_model::spelling::nearest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::ServeConfig;
use super::settings::SETTINGS;

/// Tables, which no flag can hold.
const TABLES: [&str; 2] = ["pools", "dispatch_policy"];

/// Applies the file's text. An error names the line.
pub(super) fn apply(text: &str, config: &mut ServeConfig) -> Result<(), String> {
    let at = |start: usize, error: &str| {
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        format!("line {line}: {error}")
    };
    let unreadable = |error: toml::de::Error| at(error.span().map_or(0, |span| span.start), error.message());
    for (key, value) in DeTable::parse(text).map_err(unreadable)?.into_inner() {
        let (start, key) = (key.span().start, key.into_inner());
        match &*key {
            "pools" => config.pools = table(value).map_err(unreadable)?,
            "dispatch_policy" => config.dispatch_policy = table(value).map_err(unreadable)?,
            key => {
                let setting = SETTINGS.iter().find(|setting| setting.key == key);
                let setting = setting.ok_or_else(|| at(start, &unknown(key)))?;
                let wrong = |error: String| at(start, &format!("{key}: {error}"));
                let value =
                    plain(value.get_ref()).ok_or_else(|| wrong("expected a plain value".to_owned()))?;
                (setting.set)(config, &value).map_err(wrong)?;
                config.listen_is_given |= key == "listen";
            }
        }
    }
    Ok(())
}

fn table<'de, T: Deserialize<'de>>(value: Spanned<DeValue<'de>>) -> Result<T, toml::de::Error> {
    T::deserialize(ValueDeserializer::from(value))
}

/// The value as a flag would have it.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| plain(item.get_ref())).collect();
            Some(items?.join(","))
        }
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn unknown(key: &str) -> String {
    let known = SETTINGS.iter().map(|setting| setting.key).chain(TABLES);
    let hint = nearest(key, known).map_or_else(
        || "`interlock serve --print-config` lists all keys".to_owned(),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    format!("unknown key `{key}`; {hint}")
}

/// A file with every setting at its default, commented out.
pub(super) fn template() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = write!(text, "\n# ==== {section} ====\n");
        }
        let is_number = setting.default.parse::<f64>().is_ok();
        let quote = if is_number { "" } else { "\"" };
        let _ = write!(text, "\n# {}\n#{} = {quote}{}{quote}\n", setting.help, setting.key, setting.default);
    }
    text + TAIL
}

const HEAD: &str = "\
# Settings of `interlock serve --config FILE`, with their defaults. To change one, remove the # in front of it.
# Each is also a flag (--poll-ms) and an environment variable (INTERLOCK_POLL_MS). A flag overrides the
# variable, and the variable overrides this file. \"\" leaves a setting unset. Times are in milliseconds.
";

const TAIL: &str = "
# ==== Tables, only in this file ====

# Pools of workers: topics that only these workers serve (docs/concepts/scheduling.md)
# [pools.gpu]
# topics = [\"train\"]
# requires = [\"cuda\"]

# Dispatch policy: rules and a service that decide whether a job may go to a worker (docs/concepts/dispatch-policy.md)
# [[dispatch_policy.rules]]
# name = \"people-first\"
# topics = [\"deploy.*\"]
# decision = \"require_approval\"
";
