//! A file that is written through a program that compares fences.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use interlock_poll::until;
use tokio::io::AsyncWriteExt as _;

use super::{FencedResource, Stored, Write, example, printed, rules};

struct FileStore {
    folder: tempfile::TempDir,
}

impl FileStore {
    fn start() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn item(&self, item: &str) -> PathBuf {
        self.folder.path().join(item)
    }

    async fn run(&self, fence: u64, arguments: &[&str], content: &str) -> Option<u64> {
        let program = example("files/store.py");
        let mut command = tokio::process::Command::new(&program);
        command.args(arguments).env("INTERLOCK_FENCE", fence.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        child.stdin.take().unwrap().write_all(content.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let is_refused = output.status.code() == Some(1) && output.stderr.starts_with(b"refused: ");
        (!is_refused).then(|| printed(&program, &output).parse().unwrap())
    }
}

impl FencedResource for FileStore {
    fn worker(&self) -> (PathBuf, Vec<(&'static str, String)>) {
        (example("files"), vec![("STORE_FOLDER", self.folder.path().display().to_string())])
    }

    async fn take(&self, item: &str, fence: u64) -> Option<u64> {
        self.run(fence, &["take", &self.item(item).display().to_string()], "").await
    }

    async fn write(&self, Write { item, fence, version, body }: Write<'_>) -> Option<u64> {
        let arguments = ["write", &self.item(item).display().to_string(), &version.to_string()];
        self.run(fence, &arguments, body).await
    }

    async fn stored(&self, item: &str) -> Stored {
        let body = std::fs::read_to_string(self.item(item).join("data")).unwrap();
        let guard = std::fs::read(self.item(item).join("guard")).unwrap();
        let guard: serde_json::Value = serde_json::from_slice(&guard).unwrap();
        Stored { body, version: guard["version"].as_u64().unwrap() }
    }
}

#[tokio::test]
async fn a_file_accepts_the_holders_writes_in_order_and_refuses_late_ones() {
    rules::accepts_the_holders_writes_in_order_and_refuses_late_ones(&FileStore::start()).await;
}

#[tokio::test]
async fn a_file_with_many_writers_keeps_the_write_with_the_largest_fence() {
    rules::keeps_the_write_with_the_largest_fence(&FileStore::start()).await;
}

#[tokio::test]
async fn a_worker_that_was_paused_past_its_lease_cannot_change_its_file() {
    rules::is_not_changed_by_a_worker_that_was_paused_past_its_lease(&FileStore::start()).await;
}

#[tokio::test]
async fn a_write_that_was_cut_short_makes_other_writers_read_again() {
    let store = FileStore::start();
    let write = |version, body| store.write(Write { item: "item", fence: 10, version, body });
    store.take("item", 10).await;
    assert_eq!(write(0, "one").await, Some(1));
    // The writer fails after it has written the guard, because it cannot write the content.
    std::fs::create_dir(store.item("item").join("data.new")).unwrap();
    let program = example("files/store.py");
    let mut writer = Command::new(program);
    writer.arg("write").arg(store.item("item")).arg("1").env("INTERLOCK_FENCE", "10");
    let died = writer.stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&died.stderr).contains("IsADirectoryError"), "{died:?}");
    std::fs::remove_dir(store.item("item").join("data.new")).unwrap();

    assert_eq!(store.stored("item").await, Stored::new("one", 2));
    assert_eq!(write(1, "from what was read before").await, None);
    assert_eq!(store.take("item", 10).await, Some(2));
    assert_eq!(write(2, "two").await, Some(3));
}

/// Whether a process waits for the lock of this folder.
fn is_waited_for(folder: &Path) -> bool {
    let inode = format!(":{}", std::fs::metadata(folder).unwrap().ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|lock| lock.contains("->") && lock.split_whitespace().any(|word| word.ends_with(&inode)))
}

#[tokio::test]
async fn a_writer_compares_fences_only_under_the_lock() {
    let store = FileStore::start();
    let folder = store.item("item");
    std::fs::create_dir(&folder).unwrap();
    let mut other = Command::new("flock");
    other.arg(&folder).args(["sh", "-c", "echo locked; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut printed = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut printed).unwrap();
    assert_eq!(printed, "locked\n");

    let release = async {
        until("a writer waits for the lock", async || is_waited_for(&folder)).await;
        assert!(!folder.join("guard").exists(), "it was written while another process held the lock");
        drop(other.stdin.take());
    };
    let (taken, ()) = tokio::join!(store.take("item", 10), release);
    assert_eq!(taken, Some(0));
    other.wait().unwrap();
}
