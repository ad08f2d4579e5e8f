//! API keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::WorkflowId;
use crate::ids::string_conversions;

crate::named_enum! {
    /// What a key allows.
    #[derive(Hash)]
    pub enum KeyRole {
        /// Everything.
        Admin = "admin",
        /// Read; approve, cancel, release locks, repair.
        Operator = "operator",
        /// Start runs and read them.
        Starter = "starter",
        /// Claim jobs and report them.
        Worker = "worker",
        /// Read.
        Viewer = "viewer",
    }
}

/// Workflows that a key is limited to: one id, or all ids that begin with what stands before a `*`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkflowPattern(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a workflow is named by its id, or by the beginning of ids and '*', such as deploy-*")]
pub struct InvalidPattern;

impl WorkflowPattern {
    pub fn matches(&self, workflow: &WorkflowId) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => workflow.as_str().starts_with(beginning),
            None => workflow.as_str() == self.0,
        }
    }
}

impl FromStr for WorkflowPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let beginning = text.strip_suffix('*').unwrap_or(text);
        let is_valid = text == "*" || beginning.parse::<WorkflowId>().is_ok();
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidPattern) }
    }
}

impl fmt::Display for WorkflowPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for WorkflowPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}

string_conversions!(WorkflowPattern, InvalidPattern, r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63}\*?)$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_one_id_or_all_that_begin_like_it() {
        let matches = |pattern: &str, id: &str| {
            pattern.parse::<WorkflowPattern>().unwrap().matches(&id.parse().unwrap())
        };
        assert!(matches("deploy", "deploy") && !matches("deploy", "deploy-web"));
        assert!(matches("deploy-*", "deploy-web") && !matches("deploy-*", "deploy"));
        assert!(matches("*", "anything"));
        for text in ["", "-a", "a*b", "**", "a/b", "*a"] {
            assert!(text.parse::<WorkflowPattern>().is_err(), "{text}");
        }
    }
}
