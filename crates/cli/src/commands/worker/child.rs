//! One job as one process: input on stdin, output from stdout, outcome by exit code. The process leads its own group,
//! and dropping the future kills the group: nothing of it may continue once another worker has the job.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use interlock_api::jobs::ClaimedJob;
use interlock_api::worker::HandlerOutcome;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::task::AbortOnDropHandle;

use crate::commands::group::ProcessGroup;

/// The server's limit on a body.
const OUTPUT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How much of the end of the error output is reported.
const ERROR_BYTES_MAX: usize = 4 * 1024;
const ERROR_LINES_MAX: usize = 20;

/// `EX_DATAERR` of sysexits.h: a retry will not help.
const EXIT_WITHOUT_RETRY: i32 = 65;

pub(super) async fn execute(command: &[OsString], job: &ClaimedJob) -> HandlerOutcome {
    match attempt(command, job).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            HandlerOutcome::Failed { error: format!("could not run `{name}`: {error}"), retryable: true }
        }
    }
}

async fn attempt(command: &[OsString], job: &ClaimedJob) -> std::io::Result<HandlerOutcome> {
    let (mut child, mut group) = spawn(command, job)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("all three are piped") };
    let errors = AbortOnDropHandle::new(tokio::spawn(read_tail(stderr)));
    let ((), output) = tokio::join!(write_input(stdin, &job.input), read_bounded(stdout));
    let Some(output) = output? else {
        // Dropping the group kills it: it would block forever on a pipe without a reader.
        let error = format!("the output is larger than {OUTPUT_BYTES_MAX} bytes");
        return Ok(HandlerOutcome::Failed { error, retryable: false });
    };
    let status = child.wait().await?;
    group.disarm();
    let errors = errors.await.map_err(std::io::Error::other)??;
    Ok(outcome(status, &output, &errors))
}

fn spawn(command: &[OsString], job: &ClaimedJob) -> std::io::Result<(Child, ProcessGroup)> {
    let (program, arguments) = command.split_first().expect("the arguments require a command");
    let child = Command::new(program)
        .args(arguments)
        .env("INTERLOCK_JOB_ID", job.job_id.to_string())
        .env("INTERLOCK_RUN_ID", job.run_id.to_string())
        .env("INTERLOCK_STEP_ID", job.step_id.to_string())
        .env("INTERLOCK_FENCE", job.fence.to_string())
        .env("INTERLOCK_ATTEMPT", job.attempt.to_string())
        .envs(job.traceparent.map(|parent| ("TRACEPARENT", parent.to_string())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = ProcessGroup::of(&child);
    Ok((child, group))
}

/// A command may close its input, or end, before all of it is written.
async fn write_input(mut stdin: ChildStdin, input: &Value) {
    let _written = stdin.write_all(input.to_string().as_bytes()).await;
    let _closed = stdin.shutdown().await;
}

/// All of it, or none if it is too large.
async fn read_bounded(from: impl AsyncRead + Unpin) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    Ok((bytes.len() <= OUTPUT_BYTES_MAX).then_some(bytes))
}

/// The end of it. All of it is read, so that the command never blocks on a full pipe.
async fn read_tail(mut from: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    let mut chunk = [0; 4 * 1024];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(tail);
        }
        tail.extend_from_slice(&chunk[..count]);
        let surplus = tail.len().saturating_sub(ERROR_BYTES_MAX);
        tail.drain(..surplus);
    }
}

fn outcome(status: ExitStatus, output: &[u8], errors: &[u8]) -> HandlerOutcome {
    if status.success() {
        return HandlerOutcome::Completed { output: parse_output(output) };
    }
    let retryable = status.code() != Some(EXIT_WITHOUT_RETRY);
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => format!("the command ended with exit code {code}"),
        (None, Some(number)) => format!("the command was killed by signal {number}"),
        (None, None) => "the command ended without an exit code".to_owned(),
    };
    let lines = last_lines(errors);
    let error = if lines.is_empty() { ending } else { format!("{ending}: {lines}") };
    HandlerOutcome::Failed { error, retryable }
}

/// JSON, null if it is empty, or else the text without its last line break.
fn parse_output(output: &[u8]) -> Value {
    if output.trim_ascii().is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(output).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(output);
        let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
        Value::String(text.to_owned())
    })
}

fn last_lines(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(ERROR_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests;
