//! Permits: what was reserved, for whom, and what became of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Amount, KEY_BYTES_MAX, Window};
use crate::{BudgetName, BudgetRequest, Fence, JobId, PermitId, RunId, TenantId, Timestamp};

/// A key that no group can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key: 1 to {KEY_BYTES_MAX} bytes of text without control characters")]
pub struct InvalidKey;

fn escaped(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

/// Whose amount it is: one run's, one key's, both, or everyone's. Kept as text in which a key is escaped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetGroup(String);

impl BudgetGroup {
    pub fn new(run: Option<RunId>, key: Option<&str>) -> Result<Self, InvalidKey> {
        let mut text = run.map(|run| run.to_string()).unwrap_or_default();
        text.push(':');
        if let Some(key) = key {
            if !(1..=KEY_BYTES_MAX).contains(&key.len()) || key.chars().any(char::is_control) {
                return Err(InvalidKey);
            }
            text.extend(key.bytes().map(escaped));
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The group of a budget that has neither runs nor keys.
    pub fn everyone() -> Self {
        Self(":".to_owned())
    }

    /// The group of this text.
    pub fn written(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Stands for all groups of a window. No group has this name.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    pub fn run(&self) -> Option<RunId> {
        self.0.split_once(':')?.0.parse().ok()
    }

    /// The key as it was given.
    pub fn key(&self) -> Option<String> {
        let (_, escaped) = self.0.split_once(':')?;
        let mut bytes = Vec::with_capacity(escaped.len());
        let mut rest = escaped.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            } else {
                bytes.push(byte);
            }
        }
        String::from_utf8(bytes).ok().filter(|key| !key.is_empty())
    }

    /// Where its ledger is in this window.
    pub fn place(&self, window: &Window) -> String {
        format!("{window}/{self}")
    }
}

impl fmt::Display for BudgetGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The permit of a request: the same for each time that it is made, whichever process it comes to.
pub fn permit_id(tenant: &TenantId, name: &BudgetName, request: &BudgetRequest) -> PermitId {
    let hash = blake3::hash(format!("{tenant}/{name}/{request}").as_bytes()).to_hex();
    hash[..32].parse().expect("hexadecimal digits make a permit")
}

crate::named_enum! {
    /// What became of a permit.
    pub enum PermitState {
        /// Its amount is reserved until it expires.
        Open = "open",
        /// It expired, or its worker was lost. All of its amount counts as spent until it is settled.
        Unsettled = "unsettled",
        Settled = "settled",
        /// Nothing was spent.
        Released = "released",
    }
}

/// How the end of a job ends its permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitEnd {
    Settled(Amount),
    /// A worker had the job and did not say what it spent.
    Unsettled,
    /// No worker had the job.
    Released,
}

impl PermitEnd {
    /// Of a job that a worker had, or not, with what that worker reported.
    pub fn of(was_claimed: bool, usage: Option<Amount>) -> Self {
        match usage {
            Some(spent) => Self::Settled(spent),
            None if was_claimed => Self::Unsettled,
            None => Self::Released,
        }
    }
}

/// A reservation that was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    pub id: PermitId,
    pub window: Window,
    pub group: BudgetGroup,
    pub state: PermitState,
    /// What was asked for, and the least that would do.
    pub asked: Amount,
    pub least: Amount,
    pub granted: Amount,
    pub fence: Fence,
    pub granted_at: Timestamp,
    /// None: it belongs to a job, and ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The job of a step that it was reserved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What was spent, once it is settled.
    #[serde(default)]
    pub settled: Amount,
    /// When it expired, was settled or released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl Permit {
    /// Where its ledger is.
    pub fn place(&self) -> String {
        self.group.place(&self.window)
    }

    /// Why a call of a client cannot change it now: only the end of its job does.
    pub fn why_of_job(&self) -> Option<String> {
        let job = self.job.as_ref().filter(|_| self.state == PermitState::Open)?;
        Some(format!("the permit belongs to job {job}, whose result settles it"))
    }

    /// What was spent beyond what was granted.
    pub fn overdraft(&self) -> Amount {
        self.settled.minus(self.granted)
    }
}
