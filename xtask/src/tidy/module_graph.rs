//! Which modules of a crate may use which: stages meet at the store and do not call each other.

use std::collections::BTreeSet;

use super::sources::Source;

/// The top-level modules of a crate in layers, the lowest first. A module may use those of lower layers.
pub(crate) struct ModuleGraph {
    /// The folder of `lib.rs`, which may name every module.
    pub(crate) folder: &'static str,
    pub(crate) layers: &'static [Layer],
}

pub(crate) struct Layer {
    pub(crate) modules: &'static [&'static str],
    /// Whether its modules may use each other.
    pub(crate) is_shared: bool,
}

pub(crate) const CONTROL: ModuleGraph = ModuleGraph {
    folder: "crates/control/src",
    layers: &[
        Layer {
            modules: &[
                "appointments",
                "bounded",
                "budget_questions",
                "contention",
                "counts",
                "definitions",
                "dispatch_policy",
                "every_tenant",
                "identity",
                "installation",
                "journal",
                "lease",
                "limit_books",
                "limit_usage",
                "loop_lock",
                "orphans",
                "process",
                "run_deletion",
                "settings",
                "system_limits",
                "traces",
                "wakeups",
                "why",
                "worker_directory",
            ],
            is_shared: true,
        },
        // Stages meet at the store.
        Layer {
            modules: &[
                "admission",
                "api_keys",
                "budgets",
                "children",
                "dead_letters",
                "documents",
                "engine",
                "limits",
                "locks",
                "policy",
                "reconcile",
                "results",
                "rollouts",
                "run_ends",
                "workers",
            ],
            is_shared: false,
        },
        // What an operator asks for, and what combines stages.
        Layer { modules: &["doctor", "events", "lock_strategies", "runs"], is_shared: false },
        Layer { modules: &["service"], is_shared: false },
    ],
};

impl ModuleGraph {
    fn modules(&self) -> impl Iterator<Item = &'static str> {
        self.layers.iter().flat_map(|layer| layer.modules.iter().copied())
    }

    fn may_use(&self, module: &str, used: &str) -> bool {
        let layer_of = |name: &str| self.layers.iter().position(|layer| layer.modules.contains(&name));
        match (layer_of(module), layer_of(used)) {
            (Some(own), Some(other)) => other < own || (other == own && self.layers[own].is_shared),
            (None, _) | (_, None) => false,
        }
    }
}

pub(crate) fn check(sources: &[Source], graph: &ModuleGraph) -> Vec<String> {
    let mut findings = Vec::new();
    let mut modules = BTreeSet::new();
    for source in super::rust(sources).filter(|source| source.is_in(graph.folder)) {
        let path = module_path(source, graph.folder);
        let Some(module) = path.first().copied() else { continue };
        modules.insert(module);
        for (number, used) in uses(source, &path) {
            if used != module && !graph.may_use(module, &used) {
                findings.push(format!("{}:{number}: `{module}` must not use `{used}`", source.path));
            }
        }
    }
    let named: BTreeSet<_> = graph.modules().collect();
    let differing = modules.symmetric_difference(&named);
    findings.extend(differing.map(|module| {
        let is = if named.contains(module) { "names the missing" } else { "lacks the" };
        format!("{}: the table of modules in tidy {is} module `{module}`", graph.folder)
    }));
    findings
}

/// Where the file stands: `["engine", "turn"]`. Nothing for `lib.rs`.
fn module_path<'a>(source: &'a Source, folder: &str) -> Vec<&'a str> {
    let inside = source.path[folder.len()..].trim_start_matches('/').trim_end_matches(".rs");
    inside.split('/').filter(|part| !matches!(*part, "lib" | "mod")).collect()
}

/// The top-level modules that the file names by `crate::` or `super::`, with the lines where it does.
fn uses(source: &Source, path: &[&str]) -> Vec<(usize, String)> {
    let mut code = String::new();
    let mut ends = Vec::new();
    for (_, line) in source.shipped_lines() {
        code += line.split("//").next().unwrap_or_default();
        code.push('\n');
        ends.push(code.len());
    }
    let mut found = Vec::new();
    let mut note = |at: usize, names: Vec<&str>| {
        let number = ends.iter().take_while(|end| **end <= at).count() + 1;
        found.extend(names.into_iter().map(|name| (number, name.to_owned())));
    };
    for (at, prefix) in code.match_indices("crate::") {
        if !code[..at].ends_with(is_part_of_name) {
            note(at, first_names(&code[at + prefix.len()..]));
        }
    }
    // As many steps up as the file is deep lead to the crate's root.
    let up = "super::".repeat(path.len());
    for (at, _) in code.match_indices(&up) {
        let rest = &code[at + up.len()..];
        if !code[..at].ends_with("::") && !rest.starts_with("super::") {
            note(at, first_names(rest));
        }
    }
    found
}

/// The names that a path begins with: one, or those of a group in braces.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else { return name(path).into_iter().collect() };
    let (mut depth, mut begin, mut names) = (0_usize, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(name(&group[begin..at]));
                begin = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The module that a path begins with. A name in capitals is an item of the root, not a module.
fn name(path: &str) -> Option<&str> {
    let path = path.trim_start();
    let end = path.find(|character| !is_part_of_name(character)).unwrap_or(path.len());
    Some(&path[..end])
        .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()) && *name != "self")
}

fn is_part_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: ModuleGraph = ModuleGraph {
        folder: "crates/control/src",
        layers: &[
            Layer { modules: &["service"], is_shared: true },
            Layer { modules: &["admission", "engine"], is_shared: false },
        ],
    };

    /// What is found when a file has this text and every module of the table exists.
    fn found(file: &str, text: &str) -> Vec<String> {
        let all = ["lib.rs", "admission.rs", "engine/mod.rs", "service.rs"];
        let others = all.into_iter().filter(|other| *other != file);
        let sources = others.map(|other| Source::new(&format!("crates/control/src/{other}"), "mod engine;"));
        let file = Source::new(&format!("crates/control/src/{file}"), text);
        check(&sources.chain([file]).collect::<Vec<_>>(), &GRAPH)
    }

    #[test]
    fn a_stage_that_uses_another_is_found_with_file_and_line() {
        let text = "//! The engine.\n\nuse crate::admission::Admission;\n";
        assert_eq!(
            found("engine/mod.rs", text),
            ["crates/control/src/engine/mod.rs:3: `engine` must not use `admission`"]
        );
        assert_eq!(found("engine/turn.rs", text).len(), 1);
        assert!(found("admission.rs", text).is_empty(), "a module may use itself");
    }

    #[test]
    fn every_way_to_name_another_stage_is_found() {
        for text in [
            "let admitted = crate::admission::admit(run);",
            "use crate::{admission, service};",
            "use crate::{service::{Control, Name}, admission::Admission};",
            "use crate::{\n    service::Control,\n    admission::{self, Admission},\n};",
            "use super::super::admission::Admission;",
            "pub(in crate::admission) fn admit() {}",
        ] {
            assert_eq!(found("engine/turn.rs", text).len(), 1, "{text}");
        }
        assert_eq!(found("engine/mod.rs", "use super::admission::Admission;").len(), 1);
    }

    #[test]
    fn what_is_allowed_or_no_code_is_not_found() {
        for text in [
            "use crate::service::{Control, admission};",
            "use crate::{Control, Settings};",
            "/// As [`crate::admission`] does it.",
            "use super::admission::Turn;",
            "use other_crate::admission::Admission;",
            "#[cfg(test)]\nmod tests { use crate::admission::Admission; }",
        ] {
            assert!(found("engine/turn.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_table_has_every_module_and_no_other() {
        assert_eq!(
            found("results.rs", ""),
            ["crates/control/src: the table of modules in tidy lacks the module `results`"]
        );
        let missing = check(&[Source::new("crates/control/src/engine/mod.rs", "")], &GRAPH);
        assert_eq!(missing.len(), 2, "{missing:?}");
    }
}
