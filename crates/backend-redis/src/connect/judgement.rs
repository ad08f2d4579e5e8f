//! What an error says about the command, and about the connection it came over.

use std::io;

use interlock_backend::Effect;
use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::error::SendErrorKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) effect: Effect,
    pub(super) kind: SendErrorKind,
    pub(super) link: LinkState,
}

/// What to do with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Fine,
    /// It may be dead without having said so: ask it.
    Suspect,
    /// It is closed, or leads to the wrong server: replace it.
    Broken,
}

/// Codes with which a server refuses a command before it has changed anything. The first line holds also inside a
/// script: Redis looks at them only before a script's first write.
const REFUSED_BEFORE_FIRST_WRITE: [&str; 4] = ["READONLY", "OOM", "MISCONF", "NOREPLICAS"];
const REFUSED_BEFORE_RUNNING: [&str; 16] = [
    "NOSCRIPT",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "CROSSSLOT",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "WRONGTYPE",
    "BUSY",
    "NOPROTO",
    "DENIED",
    "EXECABORT",
];
/// `ERR` says little by itself; these are the ones that come from before the command runs.
const REFUSED_ERR: [&str; 6] = [
    "unknown command",
    "unknown subcommand",
    "wrong number of arguments",
    "max number of clients",
    "Number of keys",
    "syntax error",
];

/// Judges `error`. In doubt the effect is unknown: to call a command that happened "not done" starts a run twice.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "redis-rs may add kinds; a kind we do not know is unknown"
)]
pub(super) fn judge(error: &RedisError) -> Judgement {
    let (effect, kind, link) = match error.kind() {
        ErrorKind::Server(server) => {
            let kind = if server == ServerErrorKind::NoScript {
                SendErrorKind::NoScript
            } else {
                SendErrorKind::Refused
            };
            let wrong_server = matches!(server, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown);
            (effect_of_refusal(error), kind, if wrong_server { LinkState::Broken } else { LinkState::Fine })
        }
        ErrorKind::Extension => (effect_of_refusal(error), SendErrorKind::Refused, LinkState::Fine),
        ErrorKind::Io if error.is_connection_refusal() => {
            (Effect::NotDone, SendErrorKind::NotConnected, LinkState::Broken)
        }
        ErrorKind::Io if error.is_timeout() => (Effect::Unknown, SendErrorKind::Lost, LinkState::Suspect),
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::RESP3NotSupported => (Effect::NotDone, SendErrorKind::NotConnected, LinkState::Broken),
        // Io of any other kind, an answer that cannot be parsed, and kinds that redis-rs may add.
        _ => (Effect::Unknown, SendErrorKind::Lost, LinkState::Broken),
    };
    Judgement { effect, kind, link }
}

fn effect_of_refusal(error: &RedisError) -> Effect {
    let code = error.code().unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    // Redis 7 says "script: <sha>, on @user_script:1." at the end, Redis 6.2 "@user_script: 1:" in the middle.
    let in_script = ["user_script", "user_function"].iter().any(|mark| detail.contains(mark));
    let before_running = REFUSED_BEFORE_RUNNING.contains(&code)
        || (code == "ERR" && REFUSED_ERR.iter().any(|start| detail.starts_with(start)));
    let is_not_done = REFUSED_BEFORE_FIRST_WRITE.contains(&code) || (before_running && !in_script);
    if is_not_done && (code == "OOM" || detail.contains("No space left on device")) {
        Effect::StorageFull
    } else if is_not_done {
        Effect::NotDone
    } else {
        Effect::Unknown
    }
}

/// The error of a server that leads nowhere: the command was never handed to a socket.
pub(super) fn never_sent(reason: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionRefused, reason).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> Judgement {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        judge(&value.extract_error().unwrap_err())
    }

    fn refused(effect: Effect, link: LinkState) -> Judgement {
        Judgement { effect, kind: SendErrorKind::Refused, link }
    }

    fn broke(kind: io::ErrorKind) -> Judgement {
        judge(&io::Error::new(kind, "test").into())
    }

    #[test]
    fn a_script_that_is_not_loaded_did_nothing() {
        let expected =
            Judgement { effect: Effect::NotDone, kind: SendErrorKind::NoScript, link: LinkState::Fine };
        assert_eq!(answered("NOSCRIPT No matching script. Please use EVAL."), expected);
    }

    #[test]
    fn what_a_server_refuses_before_running_it_is_not_done() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'set' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "ERR unknown command 'FROB', with args beginning with: ",
            "ERR wrong number of arguments for 'get' command",
            "ERR max number of clients reached",
        ] {
            assert_eq!(answered(line), refused(Effect::NotDone, LinkState::Fine), "{line}");
        }
    }

    #[test]
    fn a_server_that_is_no_master_did_nothing_and_the_connection_is_replaced() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "READONLY You can't write against a read only replica. script: 5f3c, on @user_script:1.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        ] {
            assert_eq!(answered(line), refused(Effect::NotDone, LinkState::Broken), "{line}");
        }
    }

    #[test]
    fn a_script_that_failed_while_running_may_have_written() {
        for line in [
            "ERR user_script:1: attempt to index a nil value script: 5f3c, on @user_script:1.",
            "ERR Error running script (call to f_5f3c): @user_script:1: user_script:1: boom",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: 5f3c, on @user_script:1.",
            "NOPERM this user has no permissions script: 5f3c, on @user_script:1.",
            "ERR something a script made up",
            "BOOM a code a script made up",
        ] {
            assert_eq!(answered(line), refused(Effect::Unknown, LinkState::Fine), "{line}");
        }
    }

    #[test]
    fn memory_ends_only_before_the_first_write_of_a_script() {
        let line = "OOM command not allowed when used memory > 'maxmemory'. script: 5f3c, on @user_script:1.";
        assert_eq!(answered(line), refused(Effect::StorageFull, LinkState::Fine));
        for line in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Errors writing to the AOF file: No space left on device",
        ] {
            assert_eq!(answered(line), refused(Effect::StorageFull, LinkState::Fine), "{line}");
        }
    }

    #[test]
    fn a_time_out_is_unknown_and_the_connection_suspect() {
        let expected =
            Judgement { effect: Effect::Unknown, kind: SendErrorKind::Lost, link: LinkState::Suspect };
        assert_eq!(broke(io::ErrorKind::TimedOut), expected);
    }

    #[test]
    fn a_connection_that_breaks_leaves_the_effect_unknown() {
        let expected =
            Judgement { effect: Effect::Unknown, kind: SendErrorKind::Lost, link: LinkState::Broken };
        for kind in [
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::Other,
        ] {
            assert_eq!(broke(kind), expected, "{kind}");
        }
        assert_eq!(judge(&(ErrorKind::Parse, "not an answer").into()), expected);
        assert_eq!(judge(&(ErrorKind::Client, "dropped inside the client").into()), expected);
    }

    #[test]
    fn without_a_connection_nothing_was_done() {
        let expected =
            Judgement { effect: Effect::NotDone, kind: SendErrorKind::NotConnected, link: LinkState::Broken };
        assert_eq!(broke(io::ErrorKind::ConnectionRefused), expected);
        assert_eq!(judge(&never_sent("no connection")), expected);
        for kind in [
            ErrorKind::ClusterConnectionNotFound,
            ErrorKind::AuthenticationFailed,
            ErrorKind::InvalidClientConfig,
            ErrorKind::RESP3NotSupported,
        ] {
            assert_eq!(judge(&(kind, "test").into()), expected, "{kind:?}");
        }
    }
}
