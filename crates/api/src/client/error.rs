//! Why a call failed.

use std::time::Duration;

use crate::{Code, Problem};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request and says why.
    #[error("{}", .0.error)]
    Problem(Box<Problem>),
    /// No answer arrived. The request may have been done.
    #[error("could not reach the gateway {gateway}: {reason}")]
    Unreachable { gateway: String, reason: String },
    /// The answer is not one of an Interlock gateway.
    #[error("unexpected answer to {action} (status {status}): {reason}")]
    Malformed { action: String, status: u16, reason: String },
    /// The settings of the client are wrong.
    #[error("{0}")]
    Settings(String),
}

impl Error {
    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. } | Self::Malformed { .. } | Self::Settings(_) => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Problem(problem) => matches!(problem.status, 408 | 429 | 500..),
            Self::Unreachable { .. } => true,
            // Such as a proxy whose gateway is down.
            Self::Malformed { status, .. } => *status >= 500,
            Self::Settings(_) => false,
        }
    }

    /// How long the server asks to wait before a retry.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after_ms.map(Duration::from_millis),
            Self::Unreachable { .. } | Self::Malformed { .. } | Self::Settings(_) => None,
        }
    }
}
