//! The commands of the runbook, run as written.

use std::process::Command;

use serde_json::{Value, json};

use super::super::Machines;
use super::inventory::{BUSY, STAGES, names_its_holder, shown};

fn commands() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/lock-runbook.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh runbook\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().trim().to_owned()).collect()
}

#[tokio::test]
async fn the_seven_commands_of_the_runbook_print_what_the_page_says() {
    let machines = Machines::start_with(2, &BUSY).await;
    let caller = &machines.callers("acme")[0];
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("worker-1", "work", 1).await.remove(0);
    for stage in STAGES {
        shown(&machines, stage).await;
    }
    let snapshot = shown(&machines, "sys:workers:snapshot").await;
    assert!(snapshot["captured_at"].is_string() || snapshot["captured_at"].is_u64(), "{snapshot}");
    assert!(snapshot["writer"].is_string(), "{snapshot}");

    let commands = commands();
    assert_eq!(commands.len(), 7);
    for command in commands {
        let line = command
            .replace("redis-cli", &format!("redis-cli -p {}", machines.redis.port()))
            .replace("JOB_ID", job["job_id"].as_str().unwrap())
            .replace("RUN_ID", &run);
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed = printed.trim();
        if command.contains("IDLETIME") {
            assert!(printed.parse::<u64>().unwrap() <= 60, "{line}: {printed}");
        } else if command.contains("wf:run:lock") {
            // A run whose only job is with a worker has no turn.
            assert_eq!(printed, "", "{line}");
        } else {
            let held: Value = serde_json::from_str(printed).unwrap_or_else(|_| panic!("{line}: {printed}"));
            assert!(names_its_holder(&held), "{line}: {printed}");
        }
    }
}
