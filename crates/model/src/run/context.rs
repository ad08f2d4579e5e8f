//! The context of a run: what its storage steps have written, by path.
//!
//! Each write stands in the row of its step, which is written once. The context is what the writes of all rows make in their
//! order, so that no turn rewrites it as a whole, and a rerun has what the steps wrote that it keeps.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Run;

/// Approximate bytes of the context of one run.
pub const CONTEXT_BYTES_MAX: u64 = 256 << 10;

const PATH_BYTES_MAX: usize = 256;
const PATH_NAMES_MAX: usize = 8;

/// Members of `ctx` that every run has.
pub const RESERVED: [&str; 5] = ["run_id", "workflow_id", "workflow_version", "org_id", "steps"];

/// Where in the context a value is: names between dots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContextPath(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error(
        "use 1 to {} names between dots, of letters, digits, '_' and '-', with at most {} bytes in all",
        PATH_NAMES_MAX,
        PATH_BYTES_MAX
    )]
    Form,
    #[error("`{0}` is a member of every run's context and cannot be stored")]
    Reserved(&'static str),
}

impl FromStr for ContextPath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_part);
        let is_short = text.len() <= PATH_BYTES_MAX && text.split('.').count() <= PATH_NAMES_MAX;
        if !is_short || !text.split('.').all(is_name) {
            return Err(InvalidPath::Form);
        }
        let first = text.split('.').next();
        match RESERVED.into_iter().find(|reserved| first == Some(*reserved)) {
            Some(reserved) => Err(InvalidPath::Reserved(reserved)),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl TryFrom<String> for ContextPath {
    type Error = InvalidPath;

    fn try_from(text: String) -> Result<Self, InvalidPath> {
        text.parse()
    }
}

impl From<ContextPath> for String {
    fn from(path: ContextPath) -> Self {
        path.0
    }
}

impl ContextPath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (impl Iterator<Item = &str>, &str) {
        let (above, last) = self.0.rsplit_once('.').unwrap_or(("", &self.0));
        (above.split('.').filter(|name| !name.is_empty()), last)
    }
}

/// A change of the context, in the row of the step that made it. A write sets its path to the output of the row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextChange {
    /// Its place in the order of all changes of the run, from 1.
    pub number: u64,
    pub path: ContextPath,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deletes: bool,
}

/// What the storage steps of a run have written, and how many changes that took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    pub values: Map<String, Value>,
    pub changes: u64,
}

impl Context {
    pub fn of(run: &Run) -> Self {
        let changed =
            run.steps.values().filter_map(|step| Some((step.context_change.as_ref()?, &step.output)));
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by_key(|(change, _)| change.number);
        let mut context = Self::default();
        for (change, output) in changed {
            if change.deletes {
                context.delete(&change.path);
            } else {
                // What cannot be written there was not: only a rerun, which lacks a step, comes to this.
                let _ = context.write(&change.path, output.clone().unwrap_or_default());
            }
            context.changes = change.number;
        }
        context
    }

    /// The value at `path`; null if there is none.
    pub fn read(&self, path: &ContextPath) -> Value {
        let (mut above, last) = path.parts();
        let found = above.try_fold(&self.values, |values, name| values.get(name)?.as_object());
        found.and_then(|values| values.get(last)).cloned().unwrap_or_default()
    }

    /// Sets the value at `path`, within new objects where there are none. An error if something else is there.
    pub fn write(&mut self, path: &ContextPath, value: Value) -> Result<(), String> {
        let (above, last) = path.parts();
        let mut values = &mut self.values;
        for name in above {
            let next = values.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(next) = next else {
                return Err(format!("`{name}` in `{}` is no object", path.as_str()));
            };
            values = next;
        }
        values.insert(last.to_owned(), value);
        Ok(())
    }

    /// Removes the value at `path`, if there is one, and returns it.
    pub fn delete(&mut self, path: &ContextPath) -> Value {
        let (mut above, last) = path.parts();
        let found = above.try_fold(&mut self.values, |values, name| values.get_mut(name)?.as_object_mut());
        found.and_then(|values| values.remove(last)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> ContextPath {
        text.parse().unwrap()
    }

    #[test]
    fn values_are_written_read_and_deleted_by_path() {
        let mut context = Context::default();
        context.write(&path("a.b.c"), json!(1)).unwrap();
        context.write(&path("a.b.d"), json!({"e": 2})).unwrap();
        assert_eq!(Value::Object(context.values.clone()), json!({"a": {"b": {"c": 1, "d": {"e": 2}}}}));
        assert_eq!(context.read(&path("a.b.d.e")), json!(2));
        assert_eq!(context.read(&path("a.x.d")), Value::Null);
        assert_eq!(context.delete(&path("a.b.c")), json!(1));
        assert_eq!(context.delete(&path("a.b.c")), Value::Null);
        assert_eq!(context.delete(&path("a.b.d.e.f")), Value::Null);
        assert_eq!(Value::Object(context.values.clone()), json!({"a": {"b": {"d": {"e": 2}}}}));
        let refused = context.write(&path("a.b.d.e.f"), json!(1));
        assert_eq!(refused, Err("`e` in `a.b.d.e.f` is no object".to_owned()));
    }

    #[test]
    fn a_path_is_short_and_names_nothing_that_every_run_has() {
        for wrong in ["", ".", "a.", ".a", "a..b", "a b", "a/b", "ä", "a.b.c.d.e.f.g.h.i", &"a".repeat(257)]
        {
            assert_eq!(wrong.parse::<ContextPath>(), Err(InvalidPath::Form), "{wrong}");
        }
        for reserved in RESERVED {
            assert_eq!(reserved.parse::<ContextPath>(), Err(InvalidPath::Reserved(reserved)));
            assert_eq!(format!("{reserved}.x").parse::<ContextPath>(), Err(InvalidPath::Reserved(reserved)));
        }
        assert!("a.b.c.d.e.f.g.steps".parse::<ContextPath>().is_ok());
    }
}
