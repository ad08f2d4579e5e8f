//! Exit codes: 0 done, 1 refused, failed or findings, 2 wrong usage, 3 could not reach or check.

use std::io;
use std::process::ExitCode;

use interlock_api::client::Error;

use crate::tls_hint::tls_hint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Refused = 1,
    Usage = 2,
    Unreachable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}{}", .0, tls_hint(.0))]
    Api(#[from] Error),
    /// An argument, a setting or a file is wrong.
    #[error("{0}")]
    Usage(String),
    /// The command needs an object that does not exist.
    #[error("{0}")]
    Nothing(&'static str),
    /// The command does not apply to the state of its object.
    #[error("{0}")]
    Refused(String),
    /// Something failed on this machine.
    #[error("could not {action}: {source}")]
    Local { action: &'static str, source: io::Error },
    /// The reader of standard output closed it. Not worth a message.
    #[error("standard output is closed")]
    Unread,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn local(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Local { action, source }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Api(Error::Problem(_)) | Self::Nothing(_) | Self::Refused(_) | Self::Local { .. } => {
                Exit::Refused
            }
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
    fn a_refusal_exits_with_1_whatever_its_code() {
        for code in Code::ALL {
            let failure = Failure::from(Error::Problem(Box::new(Problem::new(code, "no"))));
            assert_eq!(failure.exit().code(), 1, "{code:?}");
        }
    }

    #[test]
    fn an_unreachable_or_foreign_gateway_exits_with_3() {
        let gateway = String::from("http://127.0.0.1:1");
        let gone = Error::Unreachable { gateway, reason: "refused".to_owned() };
        let strange = Error::Malformed { action: "GET /".to_owned(), status: 200, reason: "html".to_owned() };
        assert_eq!(Failure::from(gone).exit().code(), 3);
        assert_eq!(Failure::from(strange).exit().code(), 3);
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        assert_eq!(Failure::Usage("no".to_owned()).exit().code(), 2);
        assert_eq!(Failure::from(Error::Settings("no".to_owned())).exit().code(), 2);
    }

    #[test]
    fn a_closed_output_is_not_a_failure() {
        assert_eq!(Failure::Unread.exit().code(), 0);
    }
}
