//! Secrets are in no log, no error and no answer. Every secret that a test gives to the binary or gets from it is written
//! down, and `cargo xtask test` looks for all of them in the output of all tests.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use interlock_poll::until;
use interlock_servers::{Certificate, Nats, NatsOptions, Redis, RedisOptions};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::server::{BINARY, Server};

/// The file that the test command looks into.
const FILE: &str = "INTERLOCK_TEST_SECRETS";

/// A shorter secret would also be found where it is another word.
const BYTES_MIN: usize = 12;

const KEY_PREFIX: &str = "ilk_";

const SECRET_VARIABLES: [&str; 3] =
    ["INTERLOCK_ADMIN_KEY", "INTERLOCK_API_KEY", "INTERLOCK_DISPATCH_POLICY_BEARER"];

/// Writes a secret down.
pub(crate) fn record(secret: &str) {
    assert!(secret.len() >= BYTES_MIN, "use a secret of at least {BYTES_MIN} characters");
    let Some(file) = std::env::var_os(FILE) else { return };
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{secret}\n").as_bytes()).unwrap();
}

/// Writes down the API key of an answer, if it has one.
pub(crate) fn record_key_of(answer: &Value) {
    if let Some(key) = answer["key"].as_str().filter(|key| key.starts_with(KEY_PREFIX)) {
        record(key);
    }
}

/// Writes down the keys and passwords that a command is started with.
pub(crate) fn record_of(command: &Command) {
    let arguments: Vec<String> =
        command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    for pair in arguments.windows(2).filter(|pair| pair[0] == "--admin-key" || pair[0] == "--api-key") {
        record(&pair[1]);
    }
    let mut texts = arguments;
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy().into_owned();
        if SECRET_VARIABLES.iter().any(|secret| name == *secret) {
            record(&value);
        }
        texts.push(value);
    }
    texts.iter().filter_map(|text| password_in(text)).for_each(record);
}

/// The password of `scheme://user:password@host`.
fn password_in(url: &str) -> Option<&str> {
    let (login, _) = url.split_once("://")?.1.split_once('@')?;
    login.split_once(':').map(|(_, password)| password)
}

const ADMIN: &str = "the-admin-key-of-a-secretive-server";
const REDIS_PASSWORD: &str = "passwordofredisinthetest";
const NATS_PASSWORD: &str = "passwordofnatsinthetest";

/// A replica that logs all that it can, and everything that it has said.
struct Talkative {
    redis: Redis,
    nats: Nats,
    server: Server,
    gateway: String,
    client: Client,
    certificate: Certificate,
    /// What was asked, and the answer.
    said: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Talkative {
    async fn start(folder: &Path) -> Self {
        let password = Some(REDIS_PASSWORD.to_owned());
        let redis = Redis::start(RedisOptions { password, ..RedisOptions::default() }).await.unwrap();
        let user = Some(("ada".to_owned(), NATS_PASSWORD.to_owned()));
        let nats = Nats::start(NatsOptions { user, ..NatsOptions::default() }).await.unwrap();
        let certificate = Certificate::make(folder).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]);
        command.args(["--redis", &redis.url(), "--nats", &nats.url(), "--poll-ms", "200"]);
        command.arg("--tls-cert").arg(&certificate.certificate).arg("--tls-key").arg(&certificate.key);
        command.env("INTERLOCK_ADMIN_KEY", ADMIN).stderr(File::create(folder.join("log")).unwrap());
        let server = Server::of(command);
        let trusted =
            reqwest::Certificate::from_pem(&std::fs::read(&certificate.certificate).unwrap()).unwrap();
        let client = Client::builder().tls_certs_merge([trusted]).build().unwrap();
        let gateway = server.base.replace("127.0.0.1", "localhost");
        let private_key = std::fs::read_to_string(&certificate.key).unwrap();
        let private_line = private_key.lines().nth(1).unwrap().to_owned();
        let secrets = [ADMIN, REDIS_PASSWORD, NATS_PASSWORD, &private_line].map(str::to_owned).to_vec();
        Self { redis, nats, server, gateway, client, certificate, said: Vec::new(), secrets }
    }

    /// Sends a request with this key and returns the status and the body.
    async fn send(&self, method: Method, path: &str, key: &str, body: &str) -> (u16, String) {
        let request = self.client.request(method, format!("{}{path}", self.gateway));
        let request =
            request.header("content-type", "application/json").bearer_auth(key).body(body.to_owned());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The same, and keeps what was said. Asserts the status.
    async fn ask(&mut self, method: Method, path: &str, key: &str, status: u16) {
        let (answered, text) = self.send(method.clone(), path, key, "").await;
        assert_eq!(answered, status, "{method} {path}: {text}");
        self.said.push((format!("{method} {path}"), text));
    }

    /// Creates a key, which is the one time that it is shown.
    async fn create(&mut self, request: Value) -> (String, String) {
        let (status, text) = self.send(Method::POST, "/api/v1/keys", ADMIN, &request.to_string()).await;
        assert_eq!(status, 201, "{request}");
        let made: Value = serde_json::from_str(&text).unwrap();
        record_key_of(&made);
        let [key, id] = ["key", "id"].map(|field| made[field].as_str().unwrap().to_owned());
        self.secrets.push(key.clone());
        (key, id)
    }

    /// Runs a command with this key, and keeps all that it prints.
    fn command(&mut self, key: &str, arguments: &[&str]) {
        let mut command = Command::new(BINARY);
        command
            .args(["--gateway", &self.gateway, "--ca-file"])
            .arg(&self.certificate.certificate)
            .args(arguments);
        let output = command.env("INTERLOCK_API_KEY", key).output().unwrap();
        let printed =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        self.said.push((format!("{arguments:?}"), printed));
    }

    async fn until_ready(&self) {
        until("the server is ready", async || self.send(Method::GET, "/readyz", "none", "").await.0 == 200)
            .await;
    }
}

/// Every use of a key: created, used, wrong, without a right, expired and revoked.
async fn use_keys(talkative: &mut Talkative) {
    let (key, id) = talkative.create(json!({"name": "w", "role": "viewer", "tenant": "default"})).await;
    let (short, _) = talkative
        .create(json!({"name": "s", "role": "viewer", "tenant": "default", "expires_in_sec": 1}))
        .await;
    let list = "/api/v1/workflow-runs";
    talkative.ask(Method::GET, list, &key, 200).await;
    talkative.ask(Method::GET, "/api/v1/status", &key, 200).await;
    talkative.ask(Method::GET, "/api/v1/keys", ADMIN, 200).await;
    talkative.ask(Method::POST, "/api/v1/workflows/none/runs", &key, 403).await;
    let wrong = format!("{key}0");
    talkative.ask(Method::GET, list, &wrong, 401).await;
    until("the key has expired", async || talkative.send(Method::GET, list, &short, "").await.0 == 401).await;
    talkative.ask(Method::GET, list, &short, 401).await;
    for arguments in [&["status"][..], &["keys", "list"], &["doctor"]] {
        talkative.command(ADMIN, arguments);
        talkative.command(&wrong, arguments);
    }
    talkative.ask(Method::DELETE, &format!("/api/v1/keys/{id}"), ADMIN, 204).await;
    talkative.ask(Method::GET, list, &key, 401).await;
    let bad = talkative
        .send(Method::POST, "/api/v1/keys", ADMIN, &format!("{{\"name\": {key:?}, \"x\": 1}}"))
        .await;
    assert_eq!(bad.0, 400);
}

/// Connections to Redis and NATS break and are made again.
async fn break_connections(talkative: &mut Talkative) {
    talkative.redis.kill().await.unwrap();
    let (status, text) = talkative.send(Method::GET, "/api/v1/workflow-runs", ADMIN, "").await;
    assert_eq!(status, 503, "{text}");
    talkative.said.push(("without Redis".to_owned(), text));
    talkative.ask(Method::GET, "/readyz", "none", 503).await;
    talkative.redis.start_again().await.unwrap();
    talkative.until_ready().await;
    talkative.nats.kill().await.unwrap();
    talkative.command(ADMIN, &["doctor"]);
    talkative.nats.start_again().await.unwrap();
    talkative.until_ready().await;
}

#[tokio::test]
async fn a_server_that_logs_all_that_it_can_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let mut talkative = Talkative::start(folder.path()).await;
    use_keys(&mut talkative).await;
    break_connections(&mut talkative).await;
    talkative.ask(Method::GET, "/metrics", "none", 200).await;
    talkative.ask(Method::GET, "/api/v1/doctor", ADMIN, 200).await;
    let Talkative { server, mut said, secrets, .. } = talkative;
    said.push(("ready".to_owned(), server.ready.clone()));
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains(" TRACE ") && log.contains(" WARN "), "the log is not the one of this server");
    said.push(("the log".to_owned(), log));
    for (what, text) in &said {
        for secret in &secrets {
            let shown = text.lines().find(|line| line.contains(secret.as_str()));
            let shown = shown.map(|line| line.replace(secret.as_str(), "(the secret)"));
            assert_eq!(shown, None, "{what}");
        }
    }
}
