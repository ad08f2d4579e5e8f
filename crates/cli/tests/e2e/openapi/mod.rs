//! Schemathesis makes requests from the `OpenAPI` document, valid and invalid ones, and compares every answer with it: its
//! status, its type, its headers and its members. `hooks.py` has what it cannot guess.

mod seeded;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use interlock_servers::python_program;
use rand::RngExt as _;
use serde::Deserialize;
use tokio::process::Command;

use seeded::{ADMIN, BackendKind, Seeded};

/// How much is tried.
#[derive(Debug, Clone)]
struct Extent {
    /// Per operation and kind of data, and chains of links.
    examples: usize,
    seed: u32,
    backends: Vec<BackendKind>,
}

impl Extent {
    /// The soak tries more, on both backends, and something else each time.
    fn of_this_run() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the soak runs the same test for longer")]
        let asked = std::env::var("INTERLOCK_SOAK_OPENAPI_EXAMPLES");
        match asked.ok().and_then(|examples| examples.parse().ok()) {
            Some(examples) => {
                let backends = vec![BackendKind::Embedded, BackendKind::Redis];
                Self { examples, seed: rand::rng().random(), backends }
            }
            None => Self { examples: 10, seed: 13, backends: vec![BackendKind::Embedded] },
        }
    }

    /// Much longer than a run takes on a slow machine.
    fn limit(&self) -> Duration {
        Duration::from_mins(10) + Duration::from_secs(30) * u32::try_from(self.examples).unwrap()
    }
}

/// What `hooks.py` has counted.
#[derive(Debug, Deserialize)]
struct Figures {
    /// Answers by operation and status.
    answers: BTreeMap<String, BTreeMap<u16, usize>>,
    /// How often each link led to a success.
    links: BTreeMap<String, usize>,
    /// Answers whose status the document does not have, by operation and status.
    undocumented: BTreeMap<String, usize>,
}

impl Figures {
    fn cases(&self) -> usize {
        self.answers.values().flat_map(BTreeMap::values).sum()
    }

    fn server_errors(&self) -> usize {
        self.answers.values().flatten().filter(|(status, _)| **status >= 500).map(|(_, count)| count).sum()
    }

    /// Operations that never succeeded.
    fn unreached(&self) -> Vec<&str> {
        let is_unreached = |answers: &BTreeMap<u16, usize>| !answers.keys().any(|status| status / 100 == 2);
        self.answers
            .iter()
            .filter(|(_, answers)| is_unreached(answers))
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn unfollowed(&self) -> Vec<&str> {
        self.links.iter().filter(|(_, count)| **count == 0).map(|(link, _)| link.as_str()).collect()
    }

    fn summary(&self) -> String {
        let (operations, links) = (self.answers.len(), self.links.len());
        format!(
            "{} cases, {operations} operations, {} of them with a 2xx, {} of {links} links led to a 2xx, \
             {} × 5xx, {} undocumented",
            self.cases(),
            operations - self.unreached().len(),
            links - self.unfollowed().len(),
            self.server_errors(),
            self.undocumented.values().sum::<usize>(),
        )
    }
}

/// Runs Schemathesis against the server, and returns what it printed, whether it found nothing, and the figures.
async fn explore(seeded: &Seeded, extent: &Extent, folder: &Path) -> (String, bool, Figures) {
    let document = reqwest::get(format!("{}/openapi.json", seeded.server.base)).await.unwrap();
    // From a file: Schemathesis would leave out the operation that it got the document from.
    std::fs::write(folder.join("openapi.json"), document.bytes().await.unwrap()).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/openapi");
    let figures = folder.join("figures.json");
    let mut command = Command::new(python_program("schemathesis").unwrap());
    command.arg("--config-file").arg(here.join("schemathesis.toml")).args(["run", "openapi.json"]);
    command.args(["--max-examples", &extent.examples.to_string(), "--seed", &extent.seed.to_string()]);
    command.env("SCHEMATHESIS_HOOKS", here.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("INTERLOCK_OPENAPI_BASE", &seeded.server.base).env("INTERLOCK_OPENAPI_FIGURES", &figures);
    command.env("INTERLOCK_API_KEY", ADMIN).current_dir(folder).kill_on_drop(true);
    let output = tokio::time::timeout(extent.limit(), command.output()).await;
    let output = output.expect("Schemathesis ends within its time").unwrap();
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let printed = printed.concat();
    let figures = std::fs::read(&figures).unwrap_or_else(|error| panic!("no figures: {error}\n{printed}"));
    (printed, output.status.success(), serde_json::from_slice(&figures).unwrap())
}

#[tokio::test]
async fn the_server_answers_as_documented_and_every_operation_and_link_succeeds() {
    let extent = Extent::of_this_run();
    for backend in &extent.backends {
        let folder = tempfile::tempdir().unwrap();
        let seeded = Seeded::start(*backend, 100 + 8 * extent.examples).await;
        let (printed, is_clean, figures) = explore(&seeded, &extent, folder.path()).await;
        // Not `println!`: how much was tried is shown by the test command, too.
        let line = format!("\nSchemathesis, {backend:?}, seed {}: {}\n", extent.seed, figures.summary());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        assert!(is_clean, "{printed}");
        assert_eq!(figures.server_errors(), 0, "{:?}", figures.answers);
        assert!(figures.undocumented.is_empty(), "{:?}", figures.undocumented);
        assert!(figures.unreached().is_empty(), "never succeeded: {:?}", figures.unreached());
        assert!(figures.unfollowed().is_empty(), "never led to a success: {:?}", figures.unfollowed());
    }
}
