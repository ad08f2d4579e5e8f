//! What the shell is told: 0 done, 1 refused, failed or findings, 2 wrong usage, 3 could not reach or look.

use std::io;
use std::process::ExitCode;

use interlock_api::client::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Refused,
    Usage,
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
        }
    }
}

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Api(#[from] Error),
    /// What was typed, or a file that was named, is wrong.
    #[error("{0}")]
    Usage(String),
    /// There is nothing of what was asked for.
    #[error("{0}")]
    Nothing(&'static str),
    /// Something on this machine does not work.
    #[error("could not {action}: {source}")]
    Local { action: &'static str, source: io::Error },
    /// Whoever reads the output has gone. Not worth a word.
    #[error("nobody reads the output any more")]
    Unread,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn local(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Local { action, source }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Api(Error::Problem(_)) | Self::Nothing(_) | Self::Local { .. } => Exit::Refused,
            Self::Api(Error::Unreachable { .. } | Error::Malformed { .. }) => Exit::Unreachable,
            Self::Api(Error::Settings(_)) | Self::Usage(_) => Exit::Usage,
            Self::Unread => Exit::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use interlock_api::{Code, Problem};

    use super::*;

    #[test]
    fn a_refusal_is_one_whatever_its_code() {
        for code in Code::ALL {
            let failure = Failure::from(Error::Problem(Box::new(Problem::new(code, "no"))));
            assert_eq!(failure.exit().code(), 1, "{code:?}");
        }
    }

    #[test]
    fn a_gateway_that_is_not_there_or_not_ours_is_three() {
        let gateway = String::from("http://127.0.0.1:1");
        let gone = Error::Unreachable { gateway, reason: "refused".to_owned() };
        let strange = Error::Malformed { action: "GET /".to_owned(), status: 200, reason: "html".to_owned() };
        assert_eq!(Failure::from(gone).exit().code(), 3);
        assert_eq!(Failure::from(strange).exit().code(), 3);
    }

    #[test]
    fn wrong_usage_is_two() {
        assert_eq!(Failure::Usage("no".to_owned()).exit().code(), 2);
        assert_eq!(Failure::from(Error::Settings("no".to_owned())).exit().code(), 2);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        assert_eq!(Failure::Unread.exit().code(), 0);
    }
}
