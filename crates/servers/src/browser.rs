//! A headless Chromium, driven over the pipe of its debugging protocol.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use interlock_poll::LIMIT;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use crate::process::{Process, log_tail};
use crate::programs;

/// Chromium reads commands from descriptor 3 and writes answers to 4. The shell opens them and becomes Chromium.
const LAUNCH: &str = r#"exec "$@" 3<>commands 4<>answers"#;

/// Without a sandbox, because tests may run as root; pages come from the tests alone.
const FLAGS: [&str; 11] = [
    "--headless",
    // Tests have pages without TLS.
    "--disable-features=HttpsUpgrades",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
];

const ANSWER_BYTES_MAX: u64 = 16 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// One browser with a profile of its own. Dropping it kills the browser and removes the profile.
#[must_use = "dropping it kills the browser"]
pub struct Browser {
    // Fields are dropped in order: the process before its folder.
    _process: Process,
    commands: pipe::Sender,
    answers: BufReader<pipe::Receiver>,
    sent: u64,
    folder: TempDir,
}

/// A page that a browser has opened.
#[derive(Debug, Clone)]
pub struct BrowserPage {
    session: String,
}

impl Browser {
    /// Starts a browser for which all names that match `names`, such as `*.example`, are this machine.
    pub async fn start(names: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for a browser")?;
        let made = Command::new("mkfifo").args(["commands", "answers"]).current_dir(&folder).status();
        ensure!(made.context("cannot run mkfifo")?.success(), "cannot make pipes for a browser");
        // Both ends are open for both, so that neither side waits for the other to open its end.
        let mut both_ways = pipe::OpenOptions::new();
        both_ways.read_write(true);
        let commands = both_ways.open_sender(folder.path().join("commands"))?;
        let answers = BufReader::new(both_ways.open_receiver(folder.path().join("answers"))?);
        let arguments = arguments(folder.path(), names)?;
        let process = Process::spawn(Path::new("sh"), &arguments, folder.path(), "KILL")?;
        let mut browser = Self { _process: process, commands, answers, sent: 0, folder };
        browser.call(None, "Browser.getVersion", json!({})).await?;
        Ok(browser)
    }

    /// Opens this address and returns when the page is loaded.
    pub async fn open(&mut self, url: &str) -> Result<BrowserPage> {
        let target = self.call(None, "Target.createTarget", json!({"url": url})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("a page has a session")?.to_owned();
        let page = BrowserPage { session };
        // Until it is loaded, scripts run in the empty page that a browser begins with.
        let place = "document.readyState === 'complete' ? location.href : ''";
        let loaded = async {
            loop {
                match self.evaluate(&page, place).await?.as_str() {
                    Some("" | "about:blank") | None => sleep(PAUSE).await,
                    Some(error) if error.starts_with("chrome-error:") => bail!("it cannot be loaded"),
                    Some(_) => return Ok(()),
                }
            }
        };
        let loaded =
            timeout(LIMIT, loaded).await.with_context(|| format!("not loaded within {LIMIT:?}")).flatten();
        loaded.with_context(|| url.to_owned())?;
        Ok(page)
    }

    /// The value of a JavaScript expression in the page, awaited if it is a promise. The document as it is now is
    /// `document.documentElement.outerHTML`.
    pub async fn evaluate(&mut self, page: &BrowserPage, expression: &str) -> Result<Value> {
        let expression = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call(Some(page), "Runtime.evaluate", expression).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("the script failed: {thrown}");
        }
        Ok(answer["result"]["value"].clone())
    }

    async fn call(&mut self, page: Option<&BrowserPage>, method: &str, parameters: Value) -> Result<Value> {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(page) = page {
            message["sessionId"] = json!(page.session);
        }
        let answered = timeout(LIMIT, self.exchange(&message)).await;
        let log = || format!("{method}; the log of the browser:\n{}", log_tail(self.folder.path()));
        answered.with_context(|| format!("no answer within {LIMIT:?}")).flatten().with_context(log)
    }

    /// Sends a message and returns its answer. Events that arrive meanwhile are dropped.
    async fn exchange(&mut self, message: &Value) -> Result<Value> {
        self.commands.write_all(message.to_string().as_bytes()).await?;
        self.commands.write_all(&[0]).await?;
        loop {
            let mut answer = Vec::new();
            (&mut self.answers).take(ANSWER_BYTES_MAX).read_until(0, &mut answer).await?;
            let whole = answer.strip_suffix(&[0]).context("an answer of the browser has no end")?;
            let answer: Value = serde_json::from_slice(whole)?;
            if answer["id"] == message["id"] {
                ensure!(answer.get("error").is_none(), "{}", answer["error"]);
                return Ok(answer["result"].clone());
            }
        }
    }
}

/// The arguments of the shell that becomes the browser.
fn arguments(folder: &Path, names: &str) -> Result<Vec<String>> {
    let program = programs::installed("chromium")?;
    let mut arguments = vec!["-c".to_owned(), LAUNCH.to_owned(), "sh".to_owned()];
    arguments.push(program.display().to_string());
    arguments.extend(FLAGS.map(str::to_owned));
    arguments.push(format!("--user-data-dir={}", folder.join("profile").display()));
    arguments.push(format!("--host-resolver-rules=MAP {names} 127.0.0.1"));
    arguments.push("about:blank".to_owned());
    Ok(arguments)
}
