//! Fuzzing of everything that reads inputs from outside: each target has a generator, a corpus and properties.
//!
//! A target replays its corpus, then checks generated inputs and mutated entries of the corpus. Tests check the same few
//! hundred of them each time; `cargo xtask soak` checks others for as long as `INTERLOCK_SOAK_FUZZ_SECONDS` says.

pub mod json;
mod mutation;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

/// Seconds that each target takes in a soak.
const SECONDS: &str = "INTERLOCK_SOAK_FUZZ_SECONDS";

/// Something that reads inputs from outside, by its folder in the corpus.
pub struct Target {
    name: &'static str,
    folder: PathBuf,
}

impl Target {
    /// `package` is the folder of the crate: `env!("CARGO_MANIFEST_DIR")`.
    pub fn new(package: &str, name: &'static str) -> Self {
        Self { name, folder: Path::new(package).join("tests/corpus").join(name) }
    }

    /// Checks the corpus, then generated and mutated inputs. `check` panics if a property does not hold.
    pub fn fuzz(&self, generated: impl Strategy<Value = Vec<u8>> + 'static, check: impl Fn(&[u8])) {
        let corpus = self.corpus();
        for (file, input) in &corpus {
            let replayed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(input)));
            assert!(replayed.is_ok(), "{}: {file} of the corpus fails", self.name);
        }
        let entries = corpus.into_iter().map(|(_, input)| input).collect();
        let inputs = prop_oneof![generated, mutation::mutated(entries)].boxed();
        let end = soak().map(|time| Instant::now() + time);
        let mut cases = 0;
        loop {
            cases += self.round(end.is_some(), &inputs, &check);
            if end.is_none_or(|end| Instant::now() >= end) {
                break;
            }
        }
        // An error means that the output is closed.
        let _ = writeln!(std::io::stdout(), "{}: {cases} inputs", self.name);
    }

    /// Checks some inputs and returns how many.
    fn round(&self, is_random: bool, inputs: &BoxedStrategy<Vec<u8>>, check: &impl Fn(&[u8])) -> u32 {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        let cases = config.cases;
        let mut runner = if is_random {
            TestRunner::new(config)
        } else {
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        };
        let checked = runner.run(inputs, |input| {
            check(&input);
            Ok(())
        });
        match checked {
            Ok(()) => cases,
            Err(TestError::Abort(reason)) => panic!("{}: {reason}", self.name),
            Err(TestError::Fail(reason, input)) => panic!(
                "{}: {reason}\nthe smallest such input, for a file in {}:\n{}",
                self.name,
                self.folder.display(),
                input.escape_ascii(),
            ),
        }
    }

    /// The entries by file name. Every target has some: an input that once broke something stays one.
    fn corpus(&self) -> Vec<(String, Vec<u8>)> {
        let files = std::fs::read_dir(&self.folder);
        let files = files.unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let mut paths: Vec<_> = files.map(|file| file.expect("the corpus can be listed").path()).collect();
        assert!(!paths.is_empty(), "{} has no entries", self.folder.display());
        paths.sort();
        let read = |path: PathBuf| {
            let input = std::fs::read(&path).expect("the corpus can be read");
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), input)
        };
        paths.into_iter().map(read).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a setting of the soak, not of the server")]
fn soak() -> Option<Duration> {
    let seconds = std::env::var(SECONDS).ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap_or_else(|_| panic!("{SECONDS} is a number of seconds"))))
}

/// Runs `check` on a stack of half of what callers have, so that a deep recursion is noticed.
pub fn on_a_small_stack(check: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let checked = thread.spawn_scoped(scope, check).expect("a thread can be started").join();
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Texts of a regular expression, as inputs.
pub fn texts(pattern: &'static str) -> impl Strategy<Value = Vec<u8>> + use<> {
    pattern.prop_map(String::into_bytes)
}

/// The longest error that may be shown, in characters: it must not repeat a whole input.
const ERROR_CHARS_MAX: usize = 2_000;

/// Asserts that an error about this input can be shown.
pub fn expect_short(error: &impl ToString) {
    let error = error.to_string();
    assert!(error.chars().count() <= ERROR_CHARS_MAX, "an error of {} bytes: {error:.200}", error.len());
}
