//! What a server says about itself in INFO.

use std::collections::HashMap;

/// Which store it is: when one of the two differs, what was read before may not be true any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    /// A new one for each start of redis-server.
    run_id: String,
    /// The history of writes that the server follows; a promoted replica begins a new one.
    replication_id: String,
}

#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a line of INFO, and they do not depend on each other"
)]
pub(super) struct Facts {
    pub(super) identity: Identity,
    pub(super) version: String,
    pub(super) is_replica: bool,
    pub(super) is_cluster: bool,
    pub(super) is_loading: bool,
    /// Not every managed service tells.
    pub(super) eviction_policy: Option<String>,
    pub(super) append_only: bool,
}

impl Facts {
    /// Reads the answer to INFO. A field that is missing is taken for its harmless value.
    pub(super) fn parse(info: &str) -> Self {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let text = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let is = |name: &str, value: &str| fields.get(name).is_some_and(|found| *found == value);
        Self {
            identity: Identity { run_id: text("run_id"), replication_id: text("master_replid") },
            version: text("redis_version"),
            is_replica: is("role", "slave"),
            is_cluster: is("cluster_enabled", "1"),
            is_loading: is("loading", "1"),
            eviction_policy: fields.get("maxmemory_policy").map(|&policy| policy.to_owned()),
            append_only: is("aof_enabled", "1"),
        }
    }

    /// At least 6.2. A version that cannot be read is not.
    pub(super) fn is_new_enough(&self) -> bool {
        let mut numbers = self.version.split('.').map(|number| number.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) => (major, minor) >= (6, 2),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n\
        # Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\nmaster_replid:def\r\n\
        # Cluster\r\ncluster_enabled:0\r\n";

    #[test]
    fn the_facts_are_read_from_info() {
        let facts = Facts::parse(INFO);
        assert_eq!(facts.identity, Identity { run_id: "abc".to_owned(), replication_id: "def".to_owned() });
        assert_eq!(facts.eviction_policy.as_deref(), Some("noeviction"));
        assert!(facts.append_only && !facts.is_replica && !facts.is_cluster && !facts.is_loading);
        assert!(Facts::parse("role:slave\r\nloading:1\r\ncluster_enabled:1").is_replica);
    }

    #[test]
    fn redis_older_than_6_2_is_too_old() {
        for (version, expected) in [
            ("6.2.0", true),
            ("6.10.1", true),
            ("7.0.15", true),
            ("8.2", true),
            ("255.255.255", true),
            ("6.0.16", false),
            ("5.0.14", false),
            ("6", false),
            ("", false),
            ("unstable", false),
        ] {
            assert_eq!(
                Facts::parse(&format!("redis_version:{version}")).is_new_enough(),
                expected,
                "{version}"
            );
        }
    }
}
