// Which mutant of this build is active, and which of them the tests reach. Copied into the mutated tree only, with the list
// of the mutants of Lua behind it.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

const MUTANTS_MAX: usize = 4_096;

static SELECTED: LazyLock<Option<usize>> = LazyLock::new(|| setting("MUTANT_SELECTED")?.parse().ok());
static MARKS: LazyLock<Option<Mutex<File>>> =
    LazyLock::new(|| File::options().append(true).create(true).open(setting("MUTANTS_REACHED")?).ok().map(Mutex::new));
static IS_REACHED: [AtomicBool; MUTANTS_MAX] = [const { AtomicBool::new(false) }; MUTANTS_MAX];

fn setting(name: &str) -> Option<String> {
    std::env::vars().find_map(|(found, value)| (found == name).then_some(value))
}

/// Whether this mutant is the active one. Called whenever its place is reached.
pub fn is_selected(number: usize) -> bool {
    if let Some(marks) = &*MARKS
        && !IS_REACHED[number].swap(true, Ordering::Relaxed)
    {
        let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per mark: several processes append to the file.
        let _ = marks.write_all(format!("{number}\n").as_bytes());
    }
    *SELECTED == Some(number)
}

/// A script in which the active mutant, if it is one of Lua, has its text.
pub fn mutated(script: String) -> String {
    match *SELECTED {
        Some(number) => replaced(&script, number, LUA),
        None => script,
    }
}

/// Places of mutants are marked with their numbers, behind them.
fn replaced(script: &str, number: usize, mutants: &[(usize, &str, &str)]) -> String {
    let mutant = mutants.iter().find(|(known, ..)| *known == number);
    mutant.map_or_else(|| script.to_owned(), |(_, from, to)| script.replace(&format!("{from}--[[{number}]]"), to))
}
