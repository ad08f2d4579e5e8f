//! `interlock why`: explain what something waits for, who holds that, and for about how long.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use interlock_api::Time;
use interlock_api::why::{CauseHolder, CauseView, WhyQuery, WhyView};
use interlock_model::{JobId, RunId};

use super::Session;
use crate::exit::{Failure, Result};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock why 0192f0c1-…                    # a run: each of its waiting steps
  interlock why 0192f0c1-…:build@1            # a job: its queue, its worker, its policy
  interlock why invoices/42                   # a lock: who holds it, who waits for it
  interlock why cordum:reconciler:default     # a lock of the control plane itself
  interlock why --workflow build              # a start: which runs use the tenant's slots";

#[derive(Debug, Args)]
pub(crate) struct WhyFlags {
    /// Run id, job id or name of a lock
    #[arg(required_unless_present = "workflow", conflicts_with = "workflow")]
    subject: Option<String>,
    /// Explain what a start of this workflow would wait for
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
}

pub(super) async fn run(flags: WhyFlags, session: &Session) -> Result<()> {
    let answer = session.client.why(&query(flags)?).await?;
    session.output.result(&answer, describe)
}

fn query(WhyFlags { subject, workflow }: WhyFlags) -> Result<WhyQuery> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| Failure::Usage(format!("{what}: {error}"));
    if let Some(workflow) = workflow {
        let id = workflow.parse().map_err(|error| wrong("--workflow", &error))?;
        return Ok(WhyQuery { workflow_id: Some(id), ..WhyQuery::default() });
    }
    let subject = subject.unwrap_or_default();
    if let Ok(run) = subject.parse::<RunId>() {
        return Ok(WhyQuery { run_id: Some(run), ..WhyQuery::default() });
    }
    if let Ok(job) = subject.parse::<JobId>() {
        return Ok(WhyQuery { job_id: Some(job), ..WhyQuery::default() });
    }
    let resource = subject.parse().map_err(|error| wrong("not a run id, a job id or a lock name", &error))?;
    Ok(WhyQuery { resource: Some(resource), ..WhyQuery::default() })
}

fn describe(why: &WhyView) -> String {
    let mut text = format!("{}: {}", why.subject, why.state);
    for cause in &why.causes {
        push(&mut text, cause, why.time);
    }
    if why.more > 0 {
        let _ = write!(text, "\n\nand {} more", why.more);
    }
    text
}

fn push(text: &mut String, cause: &CauseView, now: Time) {
    let _ = write!(text, "\n\n{}: {}", cause.code.name(), cause.detail);
    let ago = |since: Time| format!("{} ({} ago)", since, span(now.0.since(since.0)));
    let mut line = |name: &str, value: String| {
        let _ = write!(text, "\n  {name:<14}{value}");
    };
    if let Some(since) = cause.since {
        line("since", ago(since));
    }
    for CauseHolder { name, since, until } in &cause.holders {
        let since = since.map_or_else(String::new, |since| format!(", since {}", ago(since)));
        let until = until.map_or_else(String::new, |until| format!(", until {until} at the latest"));
        line("held by", format!("{name}{since}{until}"));
    }
    if let Some(position) = cause.position {
        line("position", position.to_string());
    }
    match (cause.expected_wait_ms, cause.until) {
        (Some(wait), _) => line("expected wait", format!("about {}", span(Duration::from_millis(wait)))),
        (None, Some(until)) => line("until", until.to_string()),
        (None, None) => {}
    }
    line("what to do", cause.what_to_do.clone());
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
