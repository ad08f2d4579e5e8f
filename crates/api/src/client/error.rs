//! Why a call did not do its work.

use std::time::Duration;

use crate::{Code, Problem};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused, and said why.
    #[error("{}", .0.error)]
    Problem(Box<Problem>),
    /// No answer came. What was asked may have happened.
    #[error("could not reach {gateway}: {reason}")]
    Unreachable { gateway: String, reason: String },
    /// An answer came that is not one of ours.
    #[error("the answer to {action} (status {status}) cannot be read: {reason}")]
    Malformed { action: String, status: u16, reason: String },
    /// The client cannot be made like this.
    #[error("{0}")]
    Settings(String),
}

impl Error {
    /// The code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. } | Self::Malformed { .. } | Self::Settings(_) => None,
        }
    }

    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Problem(problem) => matches!(problem.status, 408 | 429 | 500..),
            Self::Unreachable { .. } => true,
            // Something between us and the gateway answered for it.
            Self::Malformed { status, .. } => *status >= 500,
            Self::Settings(_) => false,
        }
    }

    /// How long the server asked to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after_ms.map(Duration::from_millis),
            Self::Unreachable { .. } | Self::Malformed { .. } | Self::Settings(_) => None,
        }
    }
}
