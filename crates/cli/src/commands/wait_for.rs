//! `interlock run start --wait`: waits for the end of the run that was started.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Session, watch};
use crate::exit::{Exit, Result};
use crate::output::{pretty, say};
use interlock_model::run::RunStatus;

/// How long one request waits.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// Before the next request, if the gateway could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// How long to wait. None: until the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait(Option<Duration>);

/// Seconds, or nothing.
pub(super) fn wait_max(text: &str) -> std::result::Result<Wait, String> {
    if text == "unlimited" {
        return Ok(Wait(None));
    }
    let seconds = text.parse::<u32>().map_err(|_| "expected whole seconds")?;
    Ok(Wait(Some(Duration::from_secs(seconds.into()))))
}

/// Prints the output of the run when it has ended.
pub(super) async fn run(id: &str, Wait(wait): Wait, session: &Session) -> Result<Exit> {
    let Session { client, output, .. } = session;
    say(&format!("waiting for run {id}"));
    let deadline = wait.map(|wait| Instant::now() + wait);
    loop {
        let left =
            deadline.map_or(REQUEST_MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let is_over = deadline.is_some() && left.is_zero();
        let run = match client.run_after(id, left.min(REQUEST_MAX)).await {
            Ok(run) => run,
            // The run goes on without the gateway.
            Err(error) if error.is_transient() && !is_over => {
                sleep(error.retry_after().unwrap_or(PAUSE).min(left)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if run.summary.status.is_final() {
            output.result(&run, |run| pretty(run.output.as_ref().unwrap_or(&Value::Null)))?;
            say(&watch::epilogue(&run.summary));
            let succeeded = run.summary.status == RunStatus::Succeeded;
            return Ok(if succeeded { Exit::Done } else { Exit::Refused });
        }
        if is_over {
            let status = run.summary.status.name();
            say(&format!("run {id} has not ended: it is {status}. Follow it: interlock run watch {id}"));
            return Ok(Exit::Unreachable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_whole_seconds_or_no_end() {
        assert_eq!(wait_max("unlimited"), Ok(Wait(None)));
        assert_eq!(wait_max("5"), Ok(Wait(Some(Duration::from_secs(5)))));
        for text in ["", "-1", "1.5", "1s"] {
            assert!(wait_max(text).is_err(), "{text}");
        }
    }
}
