//! Pools reserve topics for certain workers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Edge;
use crate::queue::Kind;
use crate::{Tag, Topic};

/// Pools by name. Workers outside all pools serve the topics that no pool names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pools(BTreeMap<String, Pool>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The topics that its workers serve.
    pub topics: BTreeSet<Topic>,
    /// Capabilities that each worker must have, in addition to a job's requirements.
    #[serde(default)]
    pub requires: BTreeSet<Tag>,
}

impl Pools {
    pub fn new(pools: BTreeMap<String, Pool>) -> Self {
        Self(pools)
    }

    /// The pools that name the topic.
    pub fn of<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = (&'a str, &'a Pool)> {
        let named = self.0.iter().filter(move |(_, pool)| pool.topics.contains(topic));
        named.map(|(name, pool)| (name.as_str(), pool))
    }

    /// Whether such a worker may get jobs of the topic. HTTP workers join a pool by claiming its topics, NATS workers by
    /// naming it.
    pub fn admit(&self, topic: &Topic, edge: Edge, pool: Option<&str>, capabilities: &[String]) -> bool {
        let mut naming = self.of(topic).peekable();
        if naming.peek().is_none() {
            // A worker of a known pool serves only that pool's topics.
            return edge == Edge::Http || pool.is_none_or(|pool| !self.0.contains_key(pool));
        }
        let mut naming = naming.filter(|(name, _)| edge == Edge::Http || pool == Some(name));
        naming.any(|(_, pool)| Kind::of(&pool.requires).fits(capabilities))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Pools {
        let pool = |topics: &[&str], requires: &[&str]| Pool {
            topics: topics.iter().map(|topic| topic.parse().unwrap()).collect(),
            requires: requires.iter().map(|tag| tag.parse().unwrap()).collect(),
        };
        let pools = [("large", pool(&["train", "infer"], &["gpu"])), ("small", pool(&["infer"], &[]))];
        Pools::new(pools.into_iter().map(|(name, pool)| (name.to_owned(), pool)).collect())
    }

    fn admits(topic: &str, edge: Edge, pool: Option<&str>, capabilities: &[&str]) -> bool {
        let capabilities: Vec<String> = capabilities.iter().map(|&name| name.to_owned()).collect();
        pools().admit(&topic.parse().unwrap(), edge, pool, &capabilities)
    }

    #[test]
    fn only_the_workers_of_a_pool_serve_its_topics() {
        assert!(admits("train", Edge::Nats, Some("large"), &["gpu"]));
        assert!(!admits("train", Edge::Nats, Some("small"), &["gpu"]));
        assert!(!admits("train", Edge::Nats, None, &["gpu"]));
        assert!(admits("infer", Edge::Nats, Some("small"), &[]));
    }

    #[test]
    fn the_workers_of_a_pool_need_its_capabilities() {
        assert!(!admits("train", Edge::Nats, Some("large"), &[]));
        assert!(!admits("infer", Edge::Nats, Some("large"), &[]));
        assert!(!admits("train", Edge::Http, None, &[]));
        assert!(admits("train", Edge::Http, None, &["gpu"]));
        assert!(admits("infer", Edge::Http, None, &[]), "one of the topic's pools requires nothing");
    }

    #[test]
    fn workers_outside_all_pools_serve_the_other_topics() {
        assert!(admits("build", Edge::Nats, None, &[]));
        assert!(admits("build", Edge::Nats, Some("unknown"), &[]));
        assert!(!admits("build", Edge::Nats, Some("large"), &["gpu"]));
        assert!(admits("build", Edge::Http, None, &[]));
    }
}
