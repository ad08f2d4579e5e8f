//! One job as one process: input on stdin, output from stdout, verdict by exit code. The process leads a group of its
//! own, and the whole group dies when the future is dropped: nothing of it may go on once the job is another's.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use interlock_api::jobs::ClaimedJob;
use interlock_api::worker::Outcome;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::task::AbortOnDropHandle;

use crate::commands::group::Group;

/// What the server takes as a body.
const OUTPUT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What is kept of the error output, from its end.
const ERROR_BYTES_MAX: usize = 4 * 1024;
const ERROR_LINES_MAX: usize = 20;

/// `EX_DATAERR` of sysexits.h: trying again will not help.
const EXIT_FOR_GOOD: i32 = 65;

pub(super) async fn execute(command: &[OsString], job: &ClaimedJob) -> Outcome {
    match attempt(command, job).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            Outcome::Failed { error: format!("could not run {name}: {error}"), retryable: true }
        }
    }
}

async fn attempt(command: &[OsString], job: &ClaimedJob) -> std::io::Result<Outcome> {
    let (mut child, mut group) = spawn(command, job)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("all three are piped") };
    let errors = AbortOnDropHandle::new(tokio::spawn(read_tail(stderr)));
    let ((), output) = tokio::join!(give(stdin, &job.input), read_bounded(stdout));
    let Some(output) = output? else {
        // Dropping the group kills it: it would write for ever into a pipe that nobody reads.
        let error = format!("the output is larger than {OUTPUT_BYTES_MAX} bytes");
        return Ok(Outcome::Failed { error, retryable: false });
    };
    let status = child.wait().await?;
    group.disarm();
    let errors = errors.await.map_err(std::io::Error::other)??;
    Ok(judge(status, &output, &errors))
}

fn spawn(command: &[OsString], job: &ClaimedJob) -> std::io::Result<(Child, Group)> {
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
    let group = Group::of(&child);
    Ok((child, group))
}

/// A command that does not care for its input may close it or end before it is written.
async fn give(mut stdin: ChildStdin, input: &Value) {
    let _taken = stdin.write_all(input.to_string().as_bytes()).await;
    let _closed = stdin.shutdown().await;
}

/// Everything, or nothing if there is too much.
async fn read_bounded(from: impl AsyncRead + Unpin) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    Ok((bytes.len() <= OUTPUT_BYTES_MAX).then_some(bytes))
}

/// The end of it. All of it is read, so that the command never waits for us.
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

fn judge(status: ExitStatus, output: &[u8], errors: &[u8]) -> Outcome {
    if status.success() {
        return Outcome::Completed { output: parse_output(output) };
    }
    let retryable = status.code() != Some(EXIT_FOR_GOOD);
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => format!("the command ended with exit code {code}"),
        (None, Some(number)) => format!("the command was killed by signal {number}"),
        (None, None) => "the command ended in an unknown way".to_owned(),
    };
    let words = last_lines(errors);
    let error = if words.is_empty() { ending } else { format!("{ending}: {words}") };
    Outcome::Failed { error, retryable }
}

/// JSON if it is JSON, nothing if it is empty, and else the text as it stands, without the line's end.
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
