//! The rules that every fenced resource follows.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use futures_util::future::join_all;
use interlock_poll::until_matches;
use rand::seq::SliceRandom as _;
use serde_json::json;

use super::super::server::{BINARY, Caller, Server, signal};
use super::{FencedResource, Stored, Write};

const WRITERS: u64 = 12;

/// The fences of two claims, the earlier first.
async fn two_fences() -> [u64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let mut fences = Vec::new();
    for worker in ["first", "second"] {
        caller.start("job", None, &json!({})).await.expect(200);
        let jobs = caller.claim(worker, "work", 1).await;
        fences.push(jobs[0]["fence"].as_u64().unwrap());
    }
    assert!(fences[0] < fences[1] && fences[1] < 1 << 53, "{fences:?}");
    fences.try_into().unwrap()
}

pub(super) async fn accepts_the_holders_writes_in_order_and_refuses_late_ones(
    resource: &impl FencedResource,
) {
    let [first, second] = two_fences().await;
    let item = "item";
    let write = |fence, version, body| resource.write(Write { item, fence, version, body });

    // The holder may write many times. A duplicate of its first write after its second is refused.
    assert_eq!(resource.take(item, first).await, Some(0));
    assert_eq!(write(first, 0, "one").await, Some(1));
    assert_eq!(write(first, 1, "it's \"two\" ☂").await, Some(2));
    assert_eq!(write(first, 0, "one").await, None);
    assert_eq!(resource.stored(item).await, Stored::new("it's \"two\" ☂", 2));

    // Another holder takes the item and has not written yet: the version is unchanged, but the first fence is stale.
    assert_eq!(resource.take(item, second).await, Some(2));
    assert_eq!(write(first, 2, "late").await, None);
    assert_eq!(resource.take(item, first).await, None);
    assert_eq!(resource.stored(item).await, Stored::new("it's \"two\" ☂", 2));

    // Taking it again, as after a lost answer, changes nothing.
    assert_eq!(resource.take(item, second).await, Some(2));
    assert_eq!(write(second, 2, "three").await, Some(3));
    assert_eq!(resource.stored(item).await, Stored::new("three", 3));
    assert_eq!(resource.take("other", first).await, Some(0), "each item has its own fences");
}

pub(super) async fn keeps_the_write_with_the_largest_fence(resource: &impl FencedResource) {
    let mut fences: Vec<u64> = (1..=WRITERS).collect();
    fences.shuffle(&mut rand::rng());
    let writers = fences.iter().map(async |&fence| {
        let version = resource.take("item", fence).await?;
        let version =
            resource.write(Write { item: "item", fence, version, body: &fence.to_string() }).await?;
        Some((version, fence))
    });
    let mut accepted: Vec<_> = join_all(writers).await.into_iter().flatten().collect();
    accepted.sort_unstable();

    let last = u64::try_from(accepted.len()).unwrap();
    assert_eq!(accepted.last(), Some(&(last, WRITERS)), "in the order {fences:?}");
    assert!(accepted.is_sorted_by_key(|(_, fence)| fence), "a smaller fence came later: {accepted:?}");
    assert_eq!(resource.stored("item").await, Stored::new(&WRITERS.to_string(), last));
}

/// A process, ended with its guard.
struct Worker(Child);

impl Worker {
    /// Runs the worker of the example around a script. The last line of `log` is how that ended.
    fn start(server: &Server, resource: &impl FencedResource, log: &Path, script: &str) -> Self {
        let (example, environment) = resource.worker();
        let around = r#"status=0; "$@" 2>> "$0" || status=$?; echo "exit $status" >> "$0"; exit $status"#;
        let child = Command::new(BINARY)
            .args(["--gateway", &server.base, "--tenant", "acme", "worker", "run", "--topic", "work"])
            .args(["--lease-ms", "1000", "--", "sh", "-c", around])
            .arg(log)
            .arg(example.join("worker.sh"))
            .args(["sh", "-c", script])
            .envs(environment)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("the worker runs"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes of a job, killed with their guard: a paused process does not end by itself.
struct ProcessGroup(String);

impl ProcessGroup {
    fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "there is no group {}", self.0);
    }

    fn try_signal(&self, name: &str) -> bool {
        let command = format!("kill -{name} -{} 2> /dev/null", self.0);
        Command::new("sh").args(["-c", &command]).status().expect("sh runs").success()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // An error means that the group has already ended.
        self.try_signal("KILL");
    }
}

/// The content of a file, once it matches.
async fn file_when(file: &Path, matches: impl Fn(&str) -> bool) -> String {
    let content = async || std::fs::read_to_string(file).unwrap_or_default();
    until_matches(&format!("{} matches", file.display()), content, |text| matches(text)).await
}

pub(super) async fn is_not_changed_by_a_worker_that_was_paused_past_its_lease(
    resource: &impl FencedResource,
) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let server = Server::start(&file("state"));
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let item = format!("{run}.work");

    // The first worker begins to write and is then paused with all of its processes.
    let (group, flag) = (file("group"), file("go-on"));
    let slow = format!(
        "cut -d ' ' -f 5 /proc/self/stat > '{}'; while [ -d '{}' ] && [ ! -e '{}' ]; do sleep 0.05; done; echo first",
        group.display(),
        folder.path().display(),
        flag.display()
    );
    let first = Worker::start(&server, resource, &file("first"), &slow);
    let group = ProcessGroup(file_when(&group, |text| text.ends_with('\n')).await.trim().to_owned());
    assert_eq!(resource.stored(&item).await, Stored::new("begun", 1));
    signal(first.0.id(), "STOP");
    group.signal("STOP");

    let _second = Worker::start(&server, resource, &file("second"), "echo second");
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({"work": "second"})));
    assert_eq!(file_when(&file("second"), |text| text.contains("exit ")).await, "exit 0\n");
    assert_eq!(resource.stored(&item).await, Stored::new("second", 3));

    // The first command continues and writes before its worker learns that its lease has expired.
    std::fs::write(&flag, "").unwrap();
    group.signal("CONT");
    let log = file_when(&file("first"), |text| text.contains("exit ")).await;
    assert!(log.contains("refused: ") && log.ends_with("exit 1\n"), "{log}");
    let fences = [fence_of(&caller, &run, 1).await, fence_of(&caller, &run, 2).await];
    assert!(
        fences[0] < fences[1] && fences.iter().all(|fence| log.contains(&fence.to_string())),
        "{fences:?}: {log}"
    );
    assert_eq!(resource.stored(&item).await, Stored::new("second", 3));
    signal(first.0.id(), "CONT");
}

async fn fence_of(caller: &Caller, run: &str, attempt: u32) -> u64 {
    caller.get(&format!("/jobs/{run}:work@{attempt}")).await.expect(200).number("fence")
}
