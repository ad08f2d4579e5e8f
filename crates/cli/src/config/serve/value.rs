//! Values of settings, and how flags, variables and the file write them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use interlock_model::retry::RetryPolicy;
use interlock_model::trace::SampleRatio;

/// A value as text. An error says what is expected.
pub(super) trait SettingValue: Sized {
    fn read(text: &str) -> Result<Self, String>;
}

/// What a process of `serve` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServeRole {
    Gateway,
    Engine,
    Scheduler,
}

impl ServeRole {
    const ALL: [Self; 3] = [Self::Gateway, Self::Engine, Self::Scheduler];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Engine => "engine",
            Self::Scheduler => "scheduler",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A text that must not reach a log.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(secret)")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A duration in whole milliseconds, of at least `MIN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis<const MIN: u64>(pub(crate) Duration);

impl<const MIN: u64> SettingValue for Millis<MIN> {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number >= MIN);
        let number = number.ok_or_else(|| format!("expected whole milliseconds, at least {MIN}"))?;
        Ok(Self(Duration::from_millis(number)))
    }
}

/// Names of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostNames(pub(crate) Vec<String>);

impl SettingValue for HostNames {
    fn read(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(Self(names.map(str::to_owned).collect()))
    }
}

/// An empty text leaves the setting unset.
impl<T: SettingValue> SettingValue for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::read(text).map(Some) }
    }
}

impl SettingValue for BTreeSet<ServeRole> {
    fn read(text: &str) -> Result<Self, String> {
        let choices = ServeRole::ALL.map(|role| (role.name(), role));
        text.split(',').map(|name| choose(name.trim(), choices)).collect()
    }
}

fn choose<T, const N: usize>(text: &str, choices: [(&str, T); N]) -> Result<T, String> {
    let names = choices.each_ref().map(|(name, _)| *name).join(", ");
    let chosen = choices.into_iter().find(|(name, _)| *name == text).map(|(_, choice)| choice);
    chosen.ok_or_else(|| format!("expected one of: {names}"))
}

macro_rules! read_as {
    ($($kind:ty => |$text:ident| $read:expr;)*) => {
        $(impl SettingValue for $kind {
            fn read($text: &str) -> Result<Self, String> {
                $read
            }
        })*
    };
}

fn not_empty<'a, T: From<&'a str>>(text: &'a str) -> Result<T, String> {
    if text.is_empty() { Err("expected a value that is not empty".to_owned()) } else { Ok(text.into()) }
}

const COUNT: &str = "expected a whole number, at least 1";

read_as! {
    String => |text| not_empty(text);
    PathBuf => |text| not_empty(text);
    Secret => |text| not_empty(text);
    SocketAddr => |text| text.parse().map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8081".to_owned());
    NonZeroU32 => |text| text.parse().map_err(|_| COUNT.to_owned());
    NonZeroUsize => |text| text.parse().map_err(|_| COUNT.to_owned());
    SampleRatio => |text| text.parse().map_err(|_| "expected a number from 0 to 1".to_owned());
    RetryPolicy => |text| text.parse().map_err(|error: interlock_model::retry::InvalidPolicy| error.to_string());
    LogFormat => |text| choose(text, [("text", Self::Text), ("json", Self::Json)]);
    AdmissionStrategy => |text| choose(text, [Self::Atomic, Self::Lock].map(|strategy| (strategy.name(), strategy)));
    RunStrategy => |text| choose(text, [Self::Inbox, Self::Lock].map(|strategy| (strategy.name(), strategy)));
}
