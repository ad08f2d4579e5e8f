use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use interlock_backend::local::Table;

use crate::rows::{get, open, put};

/// Set for the child: the folder in which it writes until it is killed.
const FOLDER: &str = "INTERLOCK_TEST_KILLED_FOLDER";
/// Set for the child: the first number that it writes.
const FIRST: &str = "INTERLOCK_TEST_KILLED_FIRST";

#[test]
fn what_was_answered_is_there_after_a_kill() {
    if let (Some(folder), Some(first)) = (std::env::var_os(FOLDER), std::env::var_os(FIRST)) {
        write_until_killed(Path::new(&folder), first.to_str().unwrap().parse().unwrap());
    } else {
        kill_again_and_again();
    }
}

/// Each round dies at another point; all rounds share the folder, as restarts do.
fn kill_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut answered = Vec::new();
    for round in 0..6 {
        let first = round * 1_000_000;
        let until = 20 + 137 * usize::try_from(round).unwrap();
        let printed = kill_after(until, start(folder.path(), first));
        assert!(printed.len() >= until, "the child ended by itself");
        answered.extend(printed);
        let tables = open(folder.path()).expect("a dead process holds no lock");
        runtime.block_on(async {
            for number in &answered {
                let found = get(&tables, Table::Heads, &key(*number)).await;
                assert_eq!(found, Some(*number), "round {round} lost an answer");
            }
        });
    }
}

fn start(folder: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "kills::what_was_answered_is_there_after_a_kill"])
        .env(FOLDER, folder)
        .env(FIRST, OsStr::new(&first.to_string()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child once it has printed `until` answers, and returns all that it printed before it died.
fn kill_after(until: usize, mut child: Child) -> Vec<u64> {
    let mut printed = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some(number) = line.strip_prefix("answered ").and_then(|rest| rest.strip_suffix('.')) else {
            continue;
        };
        printed.push(number.parse().unwrap());
        if printed.len() == until {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    printed
}

fn write_until_killed(folder: &Path, first: u64) {
    let tables = Arc::new(open(folder).unwrap());
    let next = Arc::new(AtomicU64::new(first));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> =
            (0..8).map(|_| tokio::spawn(write_numbers(Arc::clone(&tables), Arc::clone(&next)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// The full stop tells a whole line from one that was cut off.
async fn write_numbers(tables: Arc<interlock_backend_embedded::EmbeddedTables>, next: Arc<AtomicU64>) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        put(&tables, Table::Heads, &key(number), number).await.unwrap();
        std::io::stdout().lock().write_all(format!("\nanswered {number}.\n").as_bytes()).unwrap();
    }
}

fn key(number: u64) -> String {
    format!("acme/{number}")
}
