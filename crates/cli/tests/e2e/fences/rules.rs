//! What every guarded place keeps to.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::seq::SliceRandom as _;
use serde_json::json;

use super::super::server::{BINARY, Caller, LIMIT, Server, signal};
use super::{Kept, Place, Write};

const WRITERS: u64 = 24;

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

pub(super) async fn takes_the_holders_writes_in_their_order_and_refuses_the_late(place: &impl Place) {
    let [first, second] = two_fences().await;
    let item = "item";
    let write = |fence, version, body| place.write(Write { item, fence, version, body });

    // The holder writes as often as it likes. A duplicate of its first write that comes after its second is refused.
    assert_eq!(place.take(item, first).await, Some(0));
    assert_eq!(write(first, 0, "one").await, Some(1));
    assert_eq!(write(first, 1, "it's \"two\" ☂").await, Some(2));
    assert_eq!(write(first, 0, "one").await, None);
    assert_eq!(place.kept(item).await, Kept::new("it's \"two\" ☂", 2));

    // Another takes it, and has not written yet: the version is still the one that the first has. Its fence is not.
    assert_eq!(place.take(item, second).await, Some(2));
    assert_eq!(write(first, 2, "late").await, None);
    assert_eq!(place.take(item, first).await, None);
    assert_eq!(place.kept(item).await, Kept::new("it's \"two\" ☂", 2));

    // Taking it again, as after a lost answer, changes nothing.
    assert_eq!(place.take(item, second).await, Some(2));
    assert_eq!(write(second, 2, "three").await, Some(3));
    assert_eq!(place.kept(item).await, Kept::new("three", 3));
    assert_eq!(place.take("other", first).await, Some(0), "each item has fences of its own");
}

pub(super) async fn belongs_to_the_largest_fence_of_many(place: &impl Place) {
    let mut fences: Vec<u64> = (1..=WRITERS).collect();
    fences.shuffle(&mut rand::rng());
    let writers = fences.iter().map(async |&fence| {
        let version = place.take("item", fence).await?;
        let version = place.write(Write { item: "item", fence, version, body: &fence.to_string() }).await?;
        Some((version, fence))
    });
    let mut accepted: Vec<_> = join_all(writers).await.into_iter().flatten().collect();
    accepted.sort_unstable();

    let last = u64::try_from(accepted.len()).unwrap();
    assert_eq!(accepted.last(), Some(&(last, WRITERS)), "in the order {fences:?}");
    assert!(accepted.is_sorted_by_key(|(_, fence)| fence), "a smaller fence came later: {accepted:?}");
    assert_eq!(place.kept("item").await, Kept::new(&WRITERS.to_string(), last));
}

/// A process, ended with its guard.
struct Worker(Child);

impl Worker {
    /// Runs the worker of the example around a script. The last line of `log` is how that ended.
    fn start(server: &Server, place: &impl Place, log: &Path, script: &str) -> Self {
        let (example, environment) = place.worker();
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

/// The processes of a job, ended with their guard: whoever was stopped does not end by itself.
struct Group(String);

impl Group {
    fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "there is no group {}", self.0);
    }

    fn try_signal(&self, name: &str) -> bool {
        let command = format!("kill -{name} -{} 2> /dev/null", self.0);
        Command::new("sh").args(["-c", &command]).status().expect("sh runs").success()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Gone already is fine.
        self.try_signal("KILL");
    }
}

/// What a file has, once `is_so` holds for it.
async fn file_when(file: &Path, is_so: impl Fn(&str) -> bool) -> String {
    let until = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if is_so(&text) {
            return text;
        }
        assert!(Instant::now() < until, "it did not come to that in time: {}: {text}", file.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn is_not_changed_by_a_worker_that_was_stopped_past_its_lease(place: &impl Place) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let server = Server::start(&file("state"));
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let item = format!("{run}.work");

    // The first writes that it has begun, and is then stopped with everything that it has started.
    let (group, flag) = (file("group"), file("go-on"));
    let slow = format!(
        "cut -d ' ' -f 5 /proc/self/stat > '{}'; while [ -d '{}' ] && [ ! -e '{}' ]; do sleep 0.05; done; echo first",
        group.display(),
        folder.path().display(),
        flag.display()
    );
    let first = Worker::start(&server, place, &file("first"), &slow);
    let group = Group(file_when(&group, |text| text.ends_with('\n')).await.trim().to_owned());
    assert_eq!(place.kept(&item).await, Kept::new("begun", 1));
    signal(first.0.id(), "STOP");
    group.signal("STOP");

    let _second = Worker::start(&server, place, &file("second"), "echo second");
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({"work": "second"})));
    assert_eq!(file_when(&file("second"), |text| text.contains("exit ")).await, "exit 0\n");
    assert_eq!(place.kept(&item).await, Kept::new("second", 3));

    // What the first had begun goes on, and comes to its write before the first learns that its time is over.
    std::fs::write(&flag, "").unwrap();
    group.signal("CONT");
    let log = file_when(&file("first"), |text| text.contains("exit ")).await;
    assert!(log.contains("refused: ") && log.ends_with("exit 1\n"), "{log}");
    let fences = [fence_of(&caller, &run, 1).await, fence_of(&caller, &run, 2).await];
    assert!(
        fences[0] < fences[1] && fences.iter().all(|fence| log.contains(&fence.to_string())),
        "{fences:?}: {log}"
    );
    assert_eq!(place.kept(&item).await, Kept::new("second", 3));
    signal(first.0.id(), "CONT");
}

async fn fence_of(caller: &Caller, run: &str, attempt: u32) -> u64 {
    caller.get(&format!("/jobs/{run}:work@{attempt}")).await.expect(200).number("fence")
}
