//! What a server's settings make of an acknowledged write.

use std::collections::HashMap;

use redis::{RedisResult, Value};

use super::facts::Facts;
use super::settings::Durability;

/// How a master keeps its data. `None` where the server does not let us ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Persistence {
    pub(super) append_only: bool,
    append_fsync: Option<String>,
    /// `no-appendfsync-on-rewrite`: while a child writes, nothing is synced, whatever `appendfsync` says.
    pauses_for_rewrite: Option<String>,
    snapshots: Option<String>,
}

impl Persistence {
    /// From CONFIG GET, as far as the server allows it.
    pub(super) fn new(facts: &Facts, config: &HashMap<String, String>) -> Self {
        Self {
            append_only: facts.append_only,
            append_fsync: config.get("appendfsync").cloned(),
            pauses_for_rewrite: config.get("no-appendfsync-on-rewrite").cloned(),
            snapshots: config.get("save").cloned(),
        }
    }

    /// Why an acknowledged write is not on the disk, if it is not.
    pub(super) fn objection_to_fsync(&self) -> Option<String> {
        let Some(fsync) = self.append_fsync.as_deref() else {
            return Some(
                "the server does not let us read its settings. Allow CONFIG GET, or choose \"as-configured\".".to_owned(),
            );
        };
        if !self.append_only {
            return Some(
                "the append-only file is off. Set appendonly yes and appendfsync always.".to_owned(),
            );
        }
        if fsync != "always" {
            return Some(format!("appendfsync is {fsync}. Set appendfsync always."));
        }
        (self.pauses_for_rewrite.as_deref() == Some("yes")).then(|| {
            "no-appendfsync-on-rewrite is yes, so nothing is synced while the file is rewritten. Set it to no.".to_owned()
        })
    }

    /// What can be lost for want of any persistence.
    pub(super) fn warning(&self) -> Option<String> {
        if self.append_only {
            return None;
        }
        match self.snapshots.as_deref() {
            Some("") => Some(
                "Redis keeps nothing on disk (no append-only file, no snapshots): when it restarts, all runs, slots \
                 and idempotency keys are lost. Set appendonly yes."
                    .to_owned(),
            ),
            Some(_) => Some(
                "Redis keeps only snapshots: when it restarts, everything since the last one is lost, acknowledged or \
                 not. Set appendonly yes."
                    .to_owned(),
            ),
            None => Some(
                "Redis has no append-only file and does not let us read whether it takes snapshots: a restart may lose \
                 acknowledged runs. Set appendonly yes."
                    .to_owned(),
            ),
        }
    }

    fn in_words(&self) -> &'static str {
        match (self.append_only, self.append_fsync.as_deref(), self.snapshots.as_deref()) {
            (true, Some("always"), _) if self.objection_to_fsync().is_none() => "on the disk of the master",
            (true, Some("no"), _) => {
                "in the append-only file of the master, synced when the system likes: a power cut can lose half a minute"
            }
            (true, Some(_), _) => {
                "in the append-only file of the master, synced every second: a power cut can lose up to two seconds"
            }
            (true, None, _) => {
                "in the append-only file of the master; when it is synced, the server does not say"
            }
            (false, _, Some("")) => "in the memory of the master only: its restart loses it",
            (false, _, _) => {
                "in the memory of the master: its restart loses what came after the last snapshot"
            }
        }
    }
}

/// What an acknowledged write is worth, given the master that keeps least.
pub(super) fn in_words(durability: Durability, masters: &[Persistence]) -> String {
    let weakest =
        masters.iter().max_by_key(|master| (!master.append_only, master.objection_to_fsync().is_some()));
    let kept = weakest.map_or("as the server keeps it", Persistence::in_words);
    match durability {
        Durability::AsConfigured | Durability::Fsync => format!("an acknowledged write is {kept}"),
        Durability::Replicas(1) => format!("an acknowledged write is {kept}, and in the memory of 1 replica"),
        Durability::Replicas(number) => {
            format!("an acknowledged write is {kept}, and in the memory of {number} replicas")
        }
    }
}

/// The patterns of CONFIG GET that are sent one by one: several in one command need Redis 7.
pub(super) const PATTERNS: [&str; 3] = ["*appendfsync*", "save", "maxmemory-policy"];

pub(super) fn config_get(pattern: &str) -> redis::Cmd {
    redis::cmd("CONFIG").arg("GET").arg(pattern).take()
}

pub(super) fn read_config(answer: Value) -> RedisResult<HashMap<String, String>> {
    Ok(redis::from_redis_value(answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn persistence(append_only: bool, fsync: Option<&str>, snapshots: Option<&str>) -> Persistence {
        Persistence {
            append_only,
            append_fsync: fsync.map(str::to_owned),
            pauses_for_rewrite: Some("no".to_owned()),
            snapshots: snapshots.map(str::to_owned),
        }
    }

    #[test]
    fn fsync_is_kept_only_by_an_append_only_file_that_is_always_synced() {
        assert_eq!(persistence(true, Some("always"), Some("")).objection_to_fsync(), None);
        for wrong in [
            persistence(true, Some("everysec"), Some("")),
            persistence(false, Some("always"), Some("")),
            persistence(true, None, None),
            Persistence {
                pauses_for_rewrite: Some("yes".to_owned()),
                ..persistence(true, Some("always"), Some(""))
            },
        ] {
            assert!(wrong.objection_to_fsync().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_server_without_an_append_only_file_is_warned_about() {
        assert_eq!(persistence(true, None, None).warning(), None);
        assert!(persistence(false, None, Some("")).warning().unwrap().contains("nothing on disk"));
        assert!(persistence(false, None, Some("3600 1")).warning().unwrap().contains("only snapshots"));
        assert!(persistence(false, None, None).warning().unwrap().contains("does not let us read"));
    }

    #[test]
    fn the_words_are_those_of_the_master_that_keeps_least() {
        let strong = persistence(true, Some("always"), Some(""));
        let weak = persistence(false, Some("always"), Some(""));
        let alone = in_words(Durability::Fsync, std::slice::from_ref(&strong));
        assert_eq!(alone, "an acknowledged write is on the disk of the master");
        assert!(
            in_words(Durability::AsConfigured, &[strong.clone(), weak, strong.clone()]).contains("memory")
        );
        assert!(in_words(Durability::Replicas(2), &[strong]).ends_with("in the memory of 2 replicas"));
    }
}
