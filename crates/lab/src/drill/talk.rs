//! What the drill and its processes say to each other: lines of JSON, in on standard input, out on standard output.

use std::fmt;
use std::path::PathBuf;

use interlock_model::{LockToken, Resource, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use super::plan::What;
use super::verdict::Answer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Holder,
    Contender,
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Holder => "holder",
            Self::Contender => "contender",
        })
    }
}

/// The first line to a process. It comes this way, and not as arguments, because no list of processes may show a key.
#[derive(Clone, Serialize, Deserialize)]
pub struct Brief {
    pub role: Role,
    pub gateway: String,
    pub api_key: Option<String>,
    pub tenant: Option<String>,
    pub worker: WorkerId,
    pub topic: Topic,
    pub resource: Resource,
    pub ttl_ms: u64,
    pub ledger: PathBuf,
    pub guarded: bool,
}

/// Every further line to a process. When the lines end, so does the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ask for the lock and the job, and do not wait.
    Try,
    /// Take the lock and the job, wait for them if need be, and work under them.
    Take,
    /// What the work has waited for has come: write down the result, and end.
    Finish,
}

/// One of the two things that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holding {
    Lock,
    Job,
}

impl fmt::Display for Holding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Lock => "lock",
            Self::Job => "job",
        })
    }
}

/// A line from a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Did(Deed),
    /// It has written everything once more.
    Round(Holding),
    /// It has written the last.
    Done(Holding),
}

/// Something that a process did, and what it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// What it was told to do at the time.
    pub order: Order,
    pub what: What,
    pub fence: Option<u64>,
    pub answer: Answer,
    pub words: String,
    /// How old the lease was, by the process's own clock, when the answer had come.
    pub lease_age_ms: u64,
    /// Of a lock that was granted, so that it can be given back for a process that is dead.
    pub token: Option<LockToken>,
}
