//! Locks over HTTP and on the command line.

use std::process::{Command, Output, Stdio};

use interlock_poll::{until, until_matches};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::server::{Answer, BINARY, Caller, Server};

/// The `interlock locks` command.
struct LockShell<'a>(&'a Server);

impl LockShell<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["--gateway", &self.0.base, "--tenant", "acme", "locks"]).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// What it prints. Asserts that it succeeds.
    fn print(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// What it prints with `--json`. Asserts the exit code.
    fn json(&self, arguments: &[&str], exit: i32) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(exit), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

async fn acquire(caller: &Caller, resource: &str, owner: &str) -> Answer {
    caller.post("/locks/acquire", json!({"resource": resource, "owner": owner, "ttl_ms": 600_000})).await
}

fn wait_for(caller: &Caller, resource: &str, owner: &str) -> JoinHandle<Answer> {
    let caller = caller.clone();
    let body = json!({"resource": resource, "owner": owner, "ttl_ms": 600_000, "wait_ms": 60_000});
    tokio::spawn(async move { caller.post("/locks/acquire", body).await })
}

async fn release(caller: &Caller, grant: &Answer) -> Answer {
    caller
        .post("/locks/release", json!({"resource": grant.body["resource"], "token": grant.body["token"]}))
        .await
}

async fn until_waiting(caller: &Caller, resource: &str, count: u64) {
    let path = format!("/locks?resource={resource}");
    let lock = async || caller.get(&path).await.expect(200);
    until_matches(&format!("{count} wait"), lock, |lock| lock.number("waiting") == count).await;
}

#[tokio::test]
async fn a_lock_is_acquired_shown_renewed_and_released_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = LockShell(&server);
    let token = shell.print(&["acquire", "db", "--owner", "ada", "--ttl-ms", "600000"]);
    let shown = shell.json(&["show", "db"], 0);
    assert_eq!((&shown["token"], &shown["owner"]), (&json!(token), &json!("ada")));
    assert!(shell.print(&["show", "db"]).contains(&token));
    assert!(shell.print(&["list"]).contains("ada"));
    let held = shell.json(&["acquire", "db", "--owner", "ada"], 1);
    assert_eq!(
        (&held["code"], &held["holder"], &held["position"]),
        (&json!("lock_held"), &json!("ada"), &json!(1))
    );
    let again = shell.json(&["acquire", "db", "--owner", "ada", "--token", &token], 0);
    assert_eq!((&again["token"], &again["fence"]), (&shown["token"], &shown["fence"]));
    assert_eq!(shell.print(&["renew", "db", "--token", &token, "--ttl-ms", "700000"]), token);
    assert_eq!(shell.json(&["release", "db", "--token", "t-other"], 1)["code"], "stale_fence");
    for _ in 0..2 {
        assert_eq!(
            shell.json(&["release", "db", "--token", &token], 0),
            json!({"resource": "db", "released": true})
        );
    }
    assert_eq!(shell.json(&["show", "db"], 1)["code"], "not_found");
    let history = shell.print(&["history", "db"]);
    assert!(history.contains("released") && history.contains("acquired"), "{history}");
    for wrong in
        [&["acquire"][..], &["acquire", "a b"], &["acquire", "r", "--ttl-ms", "99"], &["release", "r"]]
    {
        assert_eq!(shell.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_forced_release_is_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = LockShell(&server);
    let token = shell.print(&["acquire", "db", "--owner", "ada", "--request-id", "r1"]);
    let force = |token: &str| {
        shell.json(
            &["force-release", "db", "--expect-token", token, "--reason", "gone"],
            i32::from(token == "other"),
        )
    };
    assert_eq!(force("other")["code"], "stale_fence");
    assert_eq!(force(&token), json!({"resource": "db", "released": true}));
    assert_eq!(shell.json(&["release", "db", "--token", &token], 1)["code"], "stale_fence");
    let end = &shell.json(&["history", "db"], 0)["items"][0];
    assert_eq!((&end["cause"], &end["reason"]), (&json!("force_released"), &json!("gone")));
    assert!(end["by"].is_string());
}

#[tokio::test]
async fn waiters_are_served_in_order_and_a_killed_client_leaves_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--lock-silence-ms", "600000"]);
    let (shell, caller) = (LockShell(&server), server.caller("acme"));
    let mut held = acquire(&caller, "db", "ada").await.expect(200);
    let mut killed = shell
        .command(&["acquire", "db", "--owner", "killed", "--wait-ms", "60000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_waiting(&caller, "db", 1).await;
    let mut queue = Vec::new();
    for number in 1..=3 {
        queue.push(wait_for(&caller, "db", &format!("w{number}")));
        until_waiting(&caller, "db", number + 1).await;
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The closed connection removes it at once, not after ten minutes of silence.
    until_waiting(&caller, "db", 3).await;
    let mut fence = held.number("fence");
    for (number, waiting) in (1..).zip(queue) {
        release(&caller, &held).await.expect(204);
        held = waiting.await.unwrap().expect(200);
        assert_eq!(held.text("owner"), format!("w{number}"));
        assert!(held.number("fence") > fence);
        fence = held.number("fence");
    }
}

#[tokio::test]
async fn leases_and_histories_survive_a_kill_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let held = acquire(&server.caller("acme"), "db", "ada").await.expect(200);
    server.kill();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    assert_eq!(acquire(&caller, "db", "bob").await.expect(409).text("holder"), "ada");
    let renew = json!({"resource": "db", "token": held.body["token"], "ttl_ms": 600_000});
    assert_eq!(caller.post("/locks/renew", renew).await.expect(200).number("fence"), held.number("fence"));
    release(&caller, &held).await.expect(204);
    assert!(acquire(&caller, "db", "bob").await.expect(200).number("fence") > held.number("fence"));
    let history = caller.get("/locks/history?resource=db").await.expect(200).body;
    assert_eq!(history["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn lock_quotas_are_settings_and_count_per_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let limits =
        ["--locks-per-tenant-max", "1", "--lock-line-max", "1", "--lock-waiters-per-tenant-max", "1"];
    let server = Server::start_with(folder.path(), &limits);
    let caller = server.caller("acme");
    acquire(&caller, "one", "ada").await.expect(200);
    let refused = acquire(&caller, "two", "ada").await.expect(429);
    assert_eq!((refused.text("code"), refused.number("limit")), ("lock_quota".to_owned(), 1));
    assert!(refused.headers.contains_key("retry-after"));
    acquire(&server.caller("globex"), "two", "ada").await.expect(200);
    let _waiting = wait_for(&caller, "one", "bob");
    until_waiting(&caller, "one", 1).await;
    let full = json!({"resource": "one", "owner": "cleo", "ttl_ms": 1_000, "wait_ms": 1_000});
    assert!(caller.post("/locks/acquire", full).await.expect(409).text("error").contains("queue is full"));
    let policies = caller.get("/status").await.expect(200).body["policies"]["lock_limits"].clone();
    assert_eq!(policies["lock_line_max"], 1);
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_is_killed_when_the_lock_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let (shell, caller) = (LockShell(&server), server.caller("acme"));
    let script = "test \"$INTERLOCK_LOCK_TOKEN\" && echo $INTERLOCK_FENCE";
    let fence: u64 = shell.print(&["run", "db", "--", "sh", "-c", script]).parse().unwrap();
    let history = caller.get("/locks/history?resource=db").await.expect(200).body;
    assert_eq!(
        (&history["items"][0]["cause"], &history["items"][0]["fence"]),
        (&json!("released"), &json!(fence))
    );
    assert_eq!(shell.run(&["run", "db", "--", "sh", "-c", "exit 7"]).status.code(), Some(1));

    let began = folder.path().join("began");
    let late = folder.path().join("late");
    let endless = format!("touch {}; sleep 600; touch {}", began.display(), late.display());
    let mut running = shell.command(&["run", "db", "--ttl-ms", "1500", "--", "sh", "-c", &endless]);
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    until("the command begins", async || began.exists()).await;
    let token = caller.get("/locks?resource=db").await.expect(200).text("token");
    let force = json!({"resource": "db", "expect_token": token, "reason": "a test"});
    caller.post("/locks/force-release", force).await.expect(204);
    let ended = tokio::task::spawn_blocking(|| running.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let printed = String::from_utf8(ended.stderr).unwrap();
    assert!(printed.contains("db was lost, and the command was killed"), "{printed}");
    assert!(!late.exists());
}

#[tokio::test]
async fn the_inventory_without_a_server_equals_that_of_the_server() {
    let inventory = |more: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["--gateway", "nowhere", "locks", "inventory"]).args(more);
        let output = command.output().expect("the binary runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(inventory(&[]).contains("cordum:scheduler:job:<job>"));
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--reconcile-ms", "1000"]);
    let of_server = server.caller("acme").get("/locks/inventory").await.expect(200).body;
    let printed: Value = serde_json::from_str(&inventory(&["--json"])).unwrap();
    let of = |list: &Value, key: &str| {
        let items = list["items"].as_array().unwrap();
        items.iter().find(|item| item["key"] == key).unwrap().clone()
    };
    for key in ["cordum:wf:run:lock:<run>", "cordum:lock:{<tenant>}:<resource>"] {
        assert_eq!(of(&printed, key), of(&of_server, key));
    }
    // The server shows its own settings.
    let reconciler = of(&of_server, "cordum:reconciler:default");
    assert_eq!((&reconciler["ttl_ms"], &reconciler["renew_ms"]), (&json!(2_000), &json!(1_000)));
}
