//! The mutated copy of the checkout. The checkout itself is never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::lua::{self, LuaMutant};
use super::mutant::Mutant;
use super::rendering::{Numbered, Rendered, render};
use crate::command::root;

/// Where each crate finds the function that says which mutant is active.
const MODEL: &str = "crates/model/";
const IS_SELECTED: &str = "mutants::is_selected";

/// Where scripts are put together, and what is put around the result.
const PIECES: &str = "crates/backend-redis/src/pieces.rs";
const ASSEMBLED: &str = "parts.join(\"\\n\")";

/// What is built: the mutants that are left, with the numbers that select them.
pub(crate) struct MutatedTree {
    pub(crate) folder: PathBuf,
    pub(crate) mutants: BTreeMap<usize, Mutant>,
    pub(crate) scripts: BTreeMap<usize, &'static LuaMutant>,
    rendered: BTreeMap<String, Rendered>,
}

impl MutatedTree {
    pub(crate) fn new(
        mutants: impl IntoIterator<Item = Mutant>,
        scripts: impl IntoIterator<Item = &'static LuaMutant>,
    ) -> Self {
        let mutants: BTreeMap<_, _> = (0..).zip(mutants).collect();
        let scripts = (mutants.len()..).zip(scripts).collect();
        Self { folder: root().join("target/mutants/tree"), mutants, scripts, rendered: BTreeMap::new() }
    }

    /// The mutant that an error of the compiler is about.
    pub(crate) fn mutant_at(&self, file: &str, place: &std::ops::Range<usize>) -> Option<usize> {
        self.rendered.get(file)?.at(place)
    }

    /// Writes the tree. A file that stays the same is not touched, so that cargo need not compile it again.
    pub(crate) fn write(&mut self) -> Result<()> {
        let files = checked_in()?;
        self.delete_others(&files)?;
        self.rendered.clear();
        for file in &files {
            let bytes = fs::read(root().join(file)).with_context(|| format!("cannot read {file}"))?;
            let bytes = match String::from_utf8(bytes) {
                Ok(text) => self.mutated(file, text)?.into_bytes(),
                Err(binary) => binary.into_bytes(),
            };
            write_changed(&self.folder.join(file), &bytes)?;
        }
        let tools = self.folder.join("target/tools");
        if fs::symlink_metadata(&tools).is_err() {
            fs::create_dir_all(self.folder.join("target"))?;
            symlink(root().join("target/tools"), tools)?;
        }
        let injected = include_str!("injected.rs").to_owned() + &lua::table(&self.scripts);
        write_changed(&self.folder.join(MODEL).join("src/mutants.rs"), injected.as_bytes())
    }

    fn mutated(&mut self, file: &str, text: String) -> Result<String> {
        let mutants: Vec<Numbered<'_>> =
            self.mutants.iter().map(|(number, mutant)| (*number, mutant)).collect();
        let here: Vec<_> = mutants.into_iter().filter(|(_, mutant)| mutant.file == file).collect();
        if !here.is_empty() {
            let krate = if file.starts_with(MODEL) { "crate" } else { "interlock_model" };
            let rendered = render(&text, &here, &format!("{krate}::{IS_SELECTED}"));
            let text = rendered.text.clone();
            self.rendered.insert(file.to_owned(), rendered);
            return Ok(text);
        }
        if file == format!("{MODEL}src/lib.rs") {
            return Ok(text + "\npub mod mutants;\n");
        }
        if file == PIECES {
            if !text.contains(ASSEMBLED) {
                bail!("{PIECES} puts scripts together in another way: change this program, too");
            }
            return Ok(text.replace(ASSEMBLED, &format!("interlock_model::mutants::mutated({ASSEMBLED})")));
        }
        lua::marked(file, text, &self.scripts)
    }

    /// Deletes what an older copy has and the checkout has not: cargo would build it.
    fn delete_others(&self, files: &BTreeSet<String>) -> Result<()> {
        let mut open = vec![self.folder.clone()];
        while let Some(folder) = open.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry?.path();
                let name = path.strip_prefix(&self.folder)?.display().to_string();
                if path.is_dir() {
                    open.extend((name != "target").then_some(path));
                } else if !files.contains(&name) && !name.ends_with("src/mutants.rs") {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The files of the checkout, with those that are not committed yet.
fn checked_in() -> Result<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listed = git.output().context("cannot run git")?;
    if !listed.status.success() {
        bail!("git cannot list the files of the checkout: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let names = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
    let names = names.split('\0').filter(|name| root().join(name).is_file());
    Ok(names.map(str::to_owned).collect())
}
