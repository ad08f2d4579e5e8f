//! A real browser shows a hostile page on the machine of a server without keys: the page changes and reads nothing.

mod site;

use interlock_poll::until;
use interlock_servers::Browser;
use serde_json::{Value, json};

use super::server::{Caller, Server};
use site::Site;

/// Part of the input of the owner's run, and the name of the owner.
const PRIVATE: [&str; 2] = ["for the owner alone", "the-owner"];

/// Attempts that a browser sends without a preflight, so that they reach the server whatever it answers to one.
const SIMPLE_POSTS_OF_KEYS: u64 = 12;

/// A server with one run that waits.
struct Victim {
    server: Server,
    owner: Caller,
    run: String,
    _folder: tempfile::TempDir,
}

impl Victim {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path());
        // A page cannot set the header with a tenant in a simple request: the default one is what it reaches.
        let owner = server.caller("default");
        server.caller(PRIVATE[1]).limit(1).await;
        owner.workflow("private", json!({"ask": {"type": "approval"}})).await;
        let run = owner.start("private", None, &json!({"note": PRIVATE[0]})).await.expect(200).text("run_id");
        owner.when(&run, |run| run["status"] == "waiting").await;
        Self { server, owner, run, _folder: folder }
    }

    /// How often the server refused to create a key.
    async fn refused(&self) -> u64 {
        let metrics =
            reqwest::get(format!("{}/metrics", self.server.base)).await.unwrap().text().await.unwrap();
        let route = "http_requests_total{method=\"POST\",route=\"/api/v1/keys\",status=\"4";
        let counts = metrics.lines().filter(|line| line.starts_with(route));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Everything that a page could have changed.
    async fn state(&self) -> Value {
        let list = async |path: &str| self.owner.get(path).await.expect(200).body["items"].clone();
        json!({
            "keys": list("/keys").await,
            "workflows": list("/workflows").await,
            "runs": list("/workflow-runs").await,
            "limit": self.owner.get("/config/effective").await.expect(200).body,
        })
    }
}

/// Opens the page of a new site under this name, lets it attack the server as `base`, and returns what it could read by
/// each attempt.
async fn attack(browser: &mut Browser, name: &str, base: &str, victim: &Victim) -> Value {
    let site = Site::start(&victim.server.base).await;
    let page = browser.open(&site.page(name)).await.unwrap();
    browser.evaluate(&page, &format!("attack({base:?}, {:?})", victim.run)).await.unwrap()
}

/// As [`attack`], and expects that nothing comes of it.
async fn attack_in_vain(browser: &mut Browser, name: &str, base: &str, victim: &Victim) -> Value {
    let (before, refused) = (victim.state().await, victim.refused().await);
    let seen = attack(browser, name, base, victim).await;
    for (attempt, seen) in seen.as_object().unwrap() {
        let seen = seen.as_str().unwrap();
        let is_private = PRIVATE.iter().any(|text| seen.contains(text));
        assert!(!is_private && !seen.starts_with("20"), "{name}: {attempt}: {seen}");
    }
    // The answer to a beacon does not reach the page, which may be done before it was sent.
    until("every attempt has arrived", async || {
        let arrived = victim.refused().await - refused;
        if arrived < SIMPLE_POSTS_OF_KEYS { Err(arrived) } else { Ok(()) }
    })
    .await;
    assert_eq!(victim.state().await, before, "{name}: {seen:#}");
    seen
}

#[tokio::test]
async fn a_page_of_another_origin_changes_and_reads_nothing() {
    let victim = Victim::start().await;
    let base = &victim.server.base;
    let mut browser = Browser::start("*.example").await.unwrap();
    // Another port, another name of the same machine, and a name of another machine.
    for name in ["127.0.0.1", "localhost", "evil.example"] {
        attack_in_vain(&mut browser, name, base, &victim).await;
    }
    // The attacker makes a name lead to this machine, so that page and server are of one origin.
    let seen = attack_in_vain(&mut browser, "evil.example", "", &victim).await;
    assert!(seen["read workflows"].as_str().unwrap().contains("answers only to loopback names"), "{seen:#}");

    // Under a name of the server the page is its own, and JSON succeeds: the attempts are real ones.
    let seen = attack(&mut browser, "127.0.0.1", "", &victim).await;
    assert!(seen["text"].as_str().unwrap().starts_with("415"), "{seen:#}");
    assert!(seen["JSON"].as_str().unwrap().starts_with("201"), "{seen:#}");
}
