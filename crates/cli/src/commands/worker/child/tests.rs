use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::*;

fn job() -> ClaimedJob {
    let run = "0192f0c1-0000-7000-8000-000000000001";
    serde_json::from_value(json!({
        "job_id": format!("{run}:build[3]@2"), "run_id": run, "step_id": "build[3]", "topic": "t", "attempt": 2,
        "fence": 1_794_700_800_123_000_u64, "input": {"n": 7}, "lease_ms": 15_000, "deadline_ms": null,
        "traceparent": "00-0192f0c100007000800000000000000f-00f067aa0ba902b7-01"
    }))
    .unwrap()
}

async fn shell(script: &str) -> HandlerOutcome {
    execute(&["sh", "-c", script].map(OsString::from), &job()).await
}

fn completed(output: Value) -> HandlerOutcome {
    HandlerOutcome::Completed { output }
}

fn failed(error: &str, retryable: bool) -> HandlerOutcome {
    HandlerOutcome::Failed { error: error.to_owned(), retryable }
}

#[test]
fn output_is_json_if_it_can_be_and_else_text() {
    assert_eq!(parse_output(b"{\"a\": 12345678901234567890}\n").to_string(), r#"{"a":12345678901234567890}"#);
    assert_eq!(parse_output(b" 17 \n"), json!(17));
    assert_eq!(parse_output(b"two words\n"), json!("two words"));
    assert_eq!(parse_output(b"{\"a\": 1} {\"b\": 2}\n"), json!("{\"a\": 1} {\"b\": 2}"));
    assert_eq!(parse_output(b"a\r\nb\r\n"), json!("a\r\nb"));
    assert_eq!(parse_output(b" \n"), Value::Null);
    assert_eq!(parse_output(b"\xff"), json!("\u{fffd}"));
}

#[test]
fn only_the_last_lines_of_the_errors_are_reported() {
    let text = (0..100).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n");
    let kept = last_lines(text.as_bytes());
    assert_eq!(kept.lines().count(), ERROR_LINES_MAX);
    assert!(kept.ends_with("line 99"));
}

#[tokio::test]
async fn the_command_gets_the_input_and_the_ids_of_its_job() {
    let script = r#"printf '{"input": %s, "who": "%s"}' "$(cat)" \
        "$INTERLOCK_JOB_ID $INTERLOCK_RUN_ID $INTERLOCK_STEP_ID $INTERLOCK_FENCE $INTERLOCK_ATTEMPT $TRACEPARENT""#;
    let run = job().run_id;
    let who = format!(
        "{run}:build[3]@2 {run} build[3] 1794700800123000 2 00-0192f0c100007000800000000000000f-00f067aa0ba902b7-01"
    );
    assert_eq!(shell(script).await, completed(json!({"input": {"n": 7}, "who": who})));
}

#[tokio::test]
async fn the_exit_code_decides_whether_trying_again_may_help() {
    assert_eq!(shell("exit 0").await, completed(Value::Null));
    assert_eq!(shell("echo no >&2; exit 75").await, failed("the command ended with exit code 75: no", true));
    assert_eq!(shell("exit 1").await, failed("the command ended with exit code 1", true));
    assert_eq!(
        shell("echo bad >&2; exit 65").await,
        failed("the command ended with exit code 65: bad", false)
    );
    assert_eq!(shell("kill -9 $$").await, failed("the command was killed by signal 9", true));
}

#[tokio::test]
async fn a_command_that_is_not_there_fails_the_job() {
    let outcome = execute(&[OsString::from("/nowhere/at/all")], &job()).await;
    assert!(
        matches!(outcome, HandlerOutcome::Failed { retryable: true, error } if error.contains("/nowhere/at/all"))
    );
}

#[tokio::test]
async fn an_endless_output_is_cut_off() {
    assert_eq!(shell("yes").await, failed("the output is larger than 2097152 bytes", false));
}

#[tokio::test]
async fn errors_without_end_do_not_stop_the_command() {
    assert_eq!(shell("head -c 1000000 /dev/zero >&2; echo 1").await, completed(json!(1)));
}

/// The pipe's last writer is a grandchild; its end is seen only when that one is dead, too.
#[tokio::test]
async fn dropping_the_job_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let script = format!("(echo alive; exec sleep 1000) > {} & wait", pipe.display());
    let working = tokio::spawn(async move { shell(&script).await });
    let opened = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    let mut lines = BufReader::new(opened).lines();
    let patience = Duration::from_secs(20);
    let first = loop {
        // Before the writer has come, the pipe reads as ended.
        if let Some(line) = tokio::time::timeout(patience, lines.next_line()).await.unwrap().unwrap() {
            break line;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(first, "alive");
    working.abort();
    let end = tokio::time::timeout(patience, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(end, None);
}
