//! Suspects: runs that holder after holder neither committed nor released. The processes died, hung or panicked, and the run
//! may be why. They are tried alone, so that only their own turns count against them, and quarantined after too many.

use std::time::Duration;

use interlock_model::{Fence, InstanceId, RunId, TenantId};
use serde::{Deserialize, Serialize};

use crate::runs::AcquiredRun;
use crate::verb::verb;
use crate::wire;

/// Acquires one suspect of the tenant, or quarantines it. A quarantined run is acquired only to be cancelled, with nothing
/// else in its inbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AcquireSuspect {
    pub tenant: TenantId,
    pub holder: InstanceId,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
    /// Abandoned turns in a row after which a run is quarantined.
    pub tries_max: u32,
    /// Dead letters that the tenant may have; the oldest make room.
    pub dead_letters_max: u32,
}
verb!(write => AcquireSuspect, "acquire_suspect", "acquire a suspect run", SuspectOutcome);

/// The answer to acquiring a suspect.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum SuspectOutcome {
    /// The tenant has no suspect that is free.
    Nothing,
    Acquired(Box<Suspect>),
    /// It was tried too often. Nothing acquires it until a person retries or cancels it.
    Quarantined(RunId),
}

/// A suspect that was acquired.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Suspect {
    pub run: AcquiredRun,
    /// Abandoned turns in a row so far.
    pub tries: u32,
}

/// Says that the holder of a suspect computes a turn of it from now on, as this try in a row, and extends its lease. What is
/// lost before that is not the run's fault. A quarantined run is cancelled by this try, or asked for again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BeginTry {
    pub tenant: TenantId,
    pub run: RunId,
    pub fence: Fence,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
    /// Which try this is.
    pub number: u32,
}
verb!(write => BeginTry, "begin_try", "begin a try of a suspect run", ());
