//! `interlock limits`, and what other commands say of limits.

use std::process::{Command, Stdio};

use serde_json::json;

use super::super::commands::Shell;
use super::super::server::BINARY;
use super::{Server, end_one, tenant};

#[tokio::test]
async fn limits_are_set_shown_explained_paused_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let caller = tenant(&server, "acme").await;
    let shell = Shell { server: &server, tenant: "acme" };
    shell.print(&["limits", "set", "per-key", "--key", "input.key", "--max-runs", "1", "--on-full", "queue"]);
    shell.print(&["limits", "set", "per-key", "--queue-max", "5"]);
    let shown = shell.json(&["limits", "show", "per-key"]);
    let document =
        json!({"key": "input.key", "max_runs": 1, "on_full": "queue", "queue": {"max": 5, "order": "fifo"}});
    assert_eq!(shown["document"], document, "a flag changes what it names");
    let input = r#"{"key": "a"}"#;
    let first = shell.print(&["run", "start", "job", "--input", input]);
    let queued =
        shell.run(&["run", "start", "job", "--input", input, "--label", "team=red", "--priority", "7"]);
    assert!(queued.status.success(), "{queued:?}");
    let said = String::from_utf8_lossy(&queued.stderr).into_owned();
    assert!(said.contains("Queued: limit `per-key` for `a` is full (1 of 1). 1st in the queue."), "{said}");
    let run = String::from_utf8_lossy(&queued.stdout).trim().to_owned();
    assert_eq!(caller.run(&run).await["labels"], json!({"team": "red"}));
    assert_eq!(shell.json(&["run", "list", "--status", "queued"])["items"][0]["id"], json!(run));
    assert!(shell.print(&["run", "get", &run]).contains("Queued: limit `per-key`"));
    let last = shell.print(&["run", "start", "job", "--input", input]);
    let cut = shell.run(&["limits", "queue", "per-key", "--group", "a", "--limit", "1"]);
    assert!(String::from_utf8_lossy(&cut.stderr).contains("There are more than these 1"), "{cut:?}");
    let without = shell.run(&["limits", "queue", "per-key"]);
    assert!(String::from_utf8_lossy(&without.stderr).contains("`a` (2 waiting)"), "{without:?}");
    shell.print(&["run", "move", &last, "--front"]);
    let queue = shell.json(&["limits", "queue", "per-key", "--group", "a"]);
    let order: Vec<_> = queue["items"].as_array().unwrap().iter().map(|it| it["run_id"].clone()).collect();
    assert_eq!(order, [json!(last), json!(run)]);
    assert_eq!(shell.exit(&["run", "move", &first, "--back"]), Some(1), "it does not wait");
    let listed = shell.print(&["limits", "list"]);
    assert!(listed.contains("1/10") && listed.contains("1 in 1 groups of 1 (+2 queued)"), "{listed}");
    let explained = shell.json(&["limits", "explain", "job", "--input", input]);
    assert_eq!((&explained["outcome"], &explained["decided_by"]), (&json!("queue"), &json!("per-key")));
    let why = shell.json(&["why", &run]);
    assert_eq!(why["causes"][0]["holders"][0]["name"], json!(first));

    shell.print(&["limits", "pause", "per-key", "--reason", "too hot"]);
    assert!(shell.print(&["limits", "show", "per-key"]).contains("too hot"));
    shell.print(&["limits", "resume", "per-key"]);
    // A run that waits is watched from its wait to its end.
    let mut watch = Command::new(BINARY);
    watch.args(["--gateway", &server.base, "--tenant", "acme", "run", "watch", &run]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    for expected in [&first, &last, &run] {
        assert_eq!(end_one(&caller).await, *expected);
    }
    let watched = watch.wait_with_output().unwrap();
    assert!(watched.status.success(), "{watched:?}");
    shell.print(&["limits", "delete", "per-key"]);
    assert_eq!(shell.exit(&["limits", "show", "per-key"]), Some(1));
}

#[tokio::test]
async fn limits_of_the_system_are_set_shown_paused_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let tenants = ["acme", "globex"];
    for name in tenants {
        tenant(&server, name).await;
    }
    let shell = Shell { server: &server, tenant: "acme" };
    let set = ["limits", "set", "one", "--system", "--max-runs", "1", "--on-full", "queue"];
    assert!(shell.print(&set).contains("limit system.one in force in every tenant"));
    shell.print(&["limits", "set", "one", "--system", "--queue-max", "5"]);
    assert_eq!(shell.json(&["limits", "show", "one", "--system"])["document"]["queue"]["max"], 5);
    for name in tenants {
        let of = Shell { server: &server, tenant: name };
        of.print(&["run", "start", "job"]);
        let queued = of.run(&["run", "start", "job"]);
        let said = String::from_utf8_lossy(&queued.stderr).into_owned();
        assert!(said.contains("Queued: limit `system.one` is full (1 of 1)"), "{said}");
        let listed = of.print(&["limits", "list"]);
        assert!(listed.contains("system.one") && listed.contains("1/1 (+1 queued)"), "{listed}");
        assert_eq!(of.exit(&["limits", "pause", "system.one"]), Some(1), "it is not the tenant's");
    }
    assert!(shell.print(&["limits", "pause", "one", "--system", "--reason", "audit"]).contains("audit"));
    assert!(shell.print(&["limits", "show", "system.one"]).contains("audit"));
    shell.print(&["limits", "resume", "one", "--system"]);
    assert!(shell.print(&["limits", "list", "--system"]).contains("system.one"));
    shell.print(&["limits", "delete", "one", "--system"]);
    assert_eq!(shell.exit(&["limits", "show", "one", "--system"]), Some(1));
    assert_eq!(
        shell.json(&["run", "list", "--status", "queued"])["items"],
        json!([]),
        "nothing waits any more"
    );
    assert_eq!(shell.exit(&["limits", "set", "acme", "--system", "--max-concurrent-runs", "1"]), Some(2));
}

#[tokio::test]
async fn users_share_the_slots_of_a_fair_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let caller = tenant(&server, "acme").await;
    let shell = Shell { server: &server, tenant: "acme" };
    let set = ["limits", "set", "shared", "--max-runs", "1", "--on-full", "queue", "--order", "fair"];
    shell.print(&[&set[..], &["--fair-by", "input.user", "--weight", "vip=3", "--weight", "a=b=2"]].concat());
    let queue = shell.json(&["limits", "show", "shared"])["document"]["queue"].clone();
    assert_eq!(queue, json!({"order": "fair", "fair_by": "input.user", "weights": {"vip": 3, "a=b": 2}}));
    let start =
        |user: &str| shell.print(&["run", "start", "job", "--input", &format!(r#"{{"user": "{user}"}}"#)]);
    let first = start("heavy");
    let heavy = [start("heavy"), start("heavy")];
    let light = start("light");
    let listed = shell.print(&["limits", "queue", "shared"]);
    let rows: Vec<_> = listed.lines().skip(1).collect();
    assert!(rows[0].contains(light.trim()) && rows[0].contains("light"), "{listed}");
    assert!(rows[1].contains(heavy[0].trim()) && rows[2].contains(heavy[1].trim()), "{listed}");
    assert_eq!(end_one(&caller).await, first.trim());
    assert_eq!(end_one(&caller).await, light.trim());
    assert_eq!(shell.exit(&["limits", "set", "shared", "--weight", "vip"]), Some(2), "it has no number");
}

#[tokio::test]
async fn what_a_tenant_may_use_is_set_as_before_and_mixtures_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    tenant(&server, "acme").await;
    let shell = Shell { server: &server, tenant: "acme" };
    shell.print(&["limits", "set", "--max-concurrent-runs", "2", "acme"]);
    assert_eq!(shell.json(&["limits", "get"])["data"]["limits"]["max_concurrent_runs"], 2);
    shell.print(&["limits", "set", "tenant-runs", "--max-runs", "3", "--on-full", "queue"]);
    assert_eq!(shell.json(&["limits", "get", "acme"])["data"]["limits"]["max_concurrent_runs"], 3);
    shell.print(&["limits", "set", "--max-concurrent-runs", "4"]);
    assert_eq!(shell.json(&["limits", "show", "tenant-runs"])["document"]["on_full"], "queue");
    let file = folder.path().join("limit.json");
    std::fs::write(&file, r#"{"max_runs": 7}"#).unwrap();
    shell.print(&["limits", "set", "from-file", "--file", &file.display().to_string()]);
    assert_eq!(shell.json(&["limits", "show", "from-file"])["document"]["max_runs"], 7);
    for wrong in [
        &["limits", "set", "x"][..],
        &["limits", "set", "--max-runs", "1"],
        &["limits", "set", "x", "--max-runs", "1", "--max-concurrent-runs", "1"],
        &["limits", "set", "x", "--max-runs", "1", "--file", "f"],
        &["limits", "set", "x", "--max-tenants", "1"],
        &["run", "move", "0192f0c1-0000-7000-8000-000000000001"],
        &["run", "start", "job", "--priority", "10"],
        &["run", "start", "job", "--label", "bad"],
    ] {
        assert_eq!(shell.exit(wrong), Some(2), "{wrong:?}");
    }
    assert_eq!(
        shell.exit(&["limits", "set", "x", "--on-full", "queue"]),
        Some(1),
        "it needs max_runs or rate"
    );
}
