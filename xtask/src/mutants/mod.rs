//! Mutation testing: are there small changes of the code that no test notices?
//!
//! All sampled mutants are in one build of a copy of the checkout, each behind a condition that an environment variable
//! selects when a test program starts. A first run without a mutant shows which programs reach which mutants.

mod building;
mod finding;
mod lua;
mod mutant;
mod rendering;
mod report;
mod returned;
mod running;
mod tree;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use mutant::Mutant;
use report::{Fate, Judged, Results};
use running::{Lane, Measured};
use tree::MutatedTree;

use crate::command::root;
use crate::programs::Program;
use crate::tools;

/// What is mutated.
const FOLDERS: [&str; 3] = ["crates/model/src", "crates/backend/src/local", "crates/control/src"];

/// Scripts are run by the tests of this package.
const REDIS: &str = "backend-redis/";

/// Programs that test none of the mutated code, or what others test in less time: `simulation/replay` simulates, too.
const LEFT_OUT: [&str; 8] = [
    "xtask/",
    "bench/",
    "servers/",
    "histories/",
    "simulation/seeds",
    "backend-redis/cluster",
    "backend-redis/connecting",
    "cli/e2e",
];

/// Mutants that are challenged at once.
const LANES: usize = 2;

/// One in so many more is chosen, for those that do not compile.
const SPARE: usize = 10;

#[derive(Args)]
pub(crate) struct MutantArguments {
    /// Choose the mutants by this seed
    #[arg(long, default_value_t = 13)]
    seed: u64,
    /// How many mutants of Rust to choose; those of Lua are added
    #[arg(long, default_value_t = 320)]
    count: usize,
    /// Only those that the last run did not catch
    #[arg(long)]
    survivors: bool,
    /// Choose among those whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// List the mutants and run nothing
    #[arg(long)]
    list: bool,
}

/// Which mutants are meant. None: all of them.
#[derive(Default)]
struct Choice<'a> {
    only: Option<&'a str>,
    survivors: Option<BTreeSet<String>>,
}

impl Choice<'_> {
    fn means(&self, name: &str) -> bool {
        self.only.is_none_or(|text| name.contains(text))
            && self.survivors.as_ref().is_none_or(|survivors| survivors.contains(name))
    }
}

pub(crate) fn run(arguments: &MutantArguments) -> Result<()> {
    let explained = report::explained()?;
    let out = root().join("target/mutants");
    let results = out.join("results.jsonl");
    let mut choice = Choice { only: arguments.only.as_deref(), ..Choice::default() };
    let mut known = Vec::new();
    if arguments.survivors {
        known = report::read(&results)?;
        let survived = known.iter().filter(|one| !one.is_caught() && choice.means(&one.name));
        choice.survivors = Some(survived.map(|one| one.name.clone()).collect());
        known.retain(|one| one.is_caught() || !choice.means(&one.name));
    }
    let mut tree = MutatedTree::new(
        sample(arguments, &choice)?,
        lua::LUA.iter().filter(|script| choice.means(&script.name())),
    );
    if arguments.list {
        return tasks(&tree).iter().try_for_each(|task| say(&task.name));
    }
    tools::provide()?;
    let programs = building::build(&mut tree)?;
    tree.mutants = tree.mutants.into_iter().take(arguments.count).collect();
    let lanes = (0..LANES).map(|number| Lane::new(&out, number)).collect::<Result<Vec<_>>>()?;
    let measured = measure(&lanes, programs)?;
    let tasks = tasks(&tree);
    say(&format!("{} mutants to challenge", tasks.len()))?;
    let judged = challenge(&lanes, &measured, tasks, Results::create(&results, known)?)?;
    let summary = report::summary(&judged, &explained);
    say(&summary)?;
    fs::write(out.join("summary.md"), summary)?;
    Ok(())
}

/// Prints a line at once: a run takes long.
fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// More mutants than are wanted, in random order.
fn sample(arguments: &MutantArguments, choice: &Choice<'_>) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        for file in shipped_files(root().join(folder))? {
            let text = fs::read_to_string(&file)?;
            let name = file.strip_prefix(root())?.display().to_string();
            all.extend(finding::find(&name, &text)?);
        }
    }
    all.retain(|mutant| choice.means(&mutant.name()));
    say(&format!("{} places to mutate", all.len()))?;
    let order = mutant::shuffled(all.len(), arguments.seed);
    let wanted = arguments.count + arguments.count / SPARE;
    let mut all: Vec<_> = all.into_iter().map(Some).collect();
    Ok(order.into_iter().take(wanted).filter_map(|index| all[index].take()).collect())
}

/// The Rust files below a folder without those of tests, in one order.
fn shipped_files(folder: PathBuf) -> Result<BTreeSet<PathBuf>> {
    let (mut files, mut open) = (BTreeSet::new(), vec![folder]);
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default();
            if stem == "tests" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// A mutant to challenge.
struct Task {
    number: usize,
    name: String,
    line: usize,
    is_script: bool,
}

fn tasks(tree: &MutatedTree) -> Vec<Task> {
    let rust = tree.mutants.iter().map(|(number, mutant)| Task {
        number: *number,
        name: mutant.name(),
        line: mutant.line,
        is_script: false,
    });
    let lua = tree.scripts.iter().map(|(number, mutant)| Task {
        number: *number,
        name: mutant.name(),
        line: 0,
        is_script: true,
    });
    rust.chain(lua).collect()
}

/// Runs every program without a mutant. The quickest come first.
fn measure(lanes: &[Lane], programs: Vec<Program>) -> Result<Vec<Measured>> {
    let lane = lanes.first().context("there is a lane")?;
    let mut measured = Vec::new();
    for program in programs {
        if LEFT_OUT.iter().any(|left_out| program.name.starts_with(left_out)) {
            continue;
        }
        let one = lane.measure(program)?;
        let (seconds, reached) = (one.time.as_secs_f64(), one.reached.len());
        say(&format!("{seconds:>6.1} s  {} reaches {reached}", one.program.name))?;
        measured.push(one);
    }
    // What reaches no mutant of Rust may run scripts.
    measured.retain(|one| !one.reached.is_empty() || one.program.name.starts_with(REDIS));
    measured.sort_by_key(|one| one.time);
    Ok(measured)
}

fn challenge(
    lanes: &[Lane],
    measured: &[Measured],
    tasks: Vec<Task>,
    results: Results,
) -> Result<Vec<Judged>> {
    let waiting = Mutex::new(VecDeque::from(tasks));
    let ended = Mutex::new(results);
    let run_lane = |lane: &Lane| -> Result<()> {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(task) = next else { return Ok(()) };
            let fate = judge(lane, measured, &task)?;
            let judged = Judged { name: task.name, line: task.line, fate };
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            if let Fate::Survived { .. } = judged.fate {
                say(&format!("survived: {}, line {}", judged.name, judged.line))?;
            }
            ended.add(judged)?;
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = lanes.iter().map(|lane| scope.spawn(move || run_lane(lane))).collect();
        running.into_iter().try_for_each(|lane| match lane.join() {
            Ok(ended) => ended,
            Err(_) => bail!("a lane panicked"),
        })
    })?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner).judged)
}

/// Runs the programs that reach the mutant until one fails.
fn judge(lane: &Lane, measured: &[Measured], task: &Task) -> Result<Fate> {
    let reaches = |one: &&Measured| {
        let is_its_script = task.is_script && one.program.name.starts_with(REDIS);
        is_its_script || one.reached.contains(&task.number)
    };
    let mut is_reached = false;
    for one in measured.iter().filter(reaches) {
        is_reached = true;
        if let Some(catch) = lane.challenge(one, task.number)? {
            return Ok(Fate::Caught { program: one.program.name.clone(), catch });
        }
    }
    Ok(Fate::Survived { is_reached })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_spare_mutants_and_is_of_shipped_code() {
        let arguments = MutantArguments { seed: 13, count: 40, survivors: false, only: None, list: true };
        let sample = sample(&arguments, &Choice::default()).unwrap();
        assert_eq!(sample.len(), 44);
        assert!(!sample.iter().any(|mutant| mutant.file.contains("/tests")), "{sample:?}");
    }
}
