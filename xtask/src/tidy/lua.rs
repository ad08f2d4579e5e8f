//! Scripts that Redis runs are short, and hold nothing that no script uses.

use std::collections::BTreeMap;

use super::lua_code::{Function, functions, top_level_names, words};
use super::sources::Source;

const SCRIPTS: &str = "crates/backend-redis/src/lua";
/// Pieces that are joined before scripts: what one of them declares, others use.
const SHARED: &str = "crates/backend-redis/src/lua/shared";
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let scripts: Vec<_> =
        sources.iter().filter(|source| source.is_in(SCRIPTS) && source.has_extension("lua")).collect();
    let words: Vec<_> = scripts.iter().map(|script| words(&script.text)).collect();
    let mut findings = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        let lines = script.text.lines().count();
        if lines > FILE_LINES_MAX {
            findings.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", script.path));
        }
        let others =
            || words.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, words)| words);
        let is_shared = script.is_in(SHARED);
        let is_used_elsewhere = |name: &str| is_shared && others().any(|words| words.contains_key(name));
        for function in functions(&script.text) {
            check_function(script, &function, &words[number], &is_used_elsewhere, &mut findings);
        }
        if let Some(names) = top_level_names(&script.text).filter(|_| is_shared)
            && !names.iter().any(|name| is_used_elsewhere(name))
        {
            findings.push(format!("{}: no script uses anything of this shared piece", script.path));
        }
    }
    findings
}

fn check_function(
    script: &Source,
    function: &Function<'_>,
    words: &BTreeMap<&str, usize>,
    is_used_elsewhere: &dyn Fn(&str) -> bool,
    findings: &mut Vec<String>,
) {
    let (path, line, lines) = (&script.path, function.line, function.lines);
    let name = function.name.unwrap_or("a function without a name");
    if lines > FUNCTION_LINES_MAX {
        findings.push(format!("{path}:{line}: {name} has {lines} lines, at most {FUNCTION_LINES_MAX}"));
    }
    if let Some(name) = function.name
        && words.get(name) == Some(&1)
        && !is_used_elsewhere(name)
    {
        findings.push(format!("{path}:{line}: no script uses the function `{name}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(file: &str, text: &str) -> Source {
        Source::new(&format!("{SCRIPTS}/{file}.lua"), text)
    }

    fn one(text: &str) -> Vec<String> {
        check(&[script("claim", text)])
    }

    #[test]
    fn long_files_and_long_functions_are_found() {
        assert_eq!(one(&"redis.call('PING')\n".repeat(401)).len(), 1);
        let function = |lines| format!("local function long()\n{}end\nlong()\n", "  x = 1\n".repeat(lines));
        assert!(one(&function(68)).is_empty());
        let findings = one(&function(69));
        assert_eq!(findings, [format!("{SCRIPTS}/claim.lua:1: long has 71 lines, at most 70")]);
    }

    #[test]
    fn a_local_function_that_its_script_does_not_call_is_found() {
        let text =
            "local function used() end\nlocal function unused() end\nused()\n-- unused\nlog('unused')\n";
        assert_eq!(one(text), [format!("{SCRIPTS}/claim.lua:2: no script uses the function `unused`")]);
        let elsewhere = [script("claim", "local function twice() end"), script("admit", "twice()")];
        assert_eq!(check(&elsewhere).len(), 1, "scripts do not see each other's functions");
    }

    #[test]
    fn a_function_of_a_shared_piece_is_used_if_any_script_calls_it() {
        let piece = script("shared/jobs", "local function dispatch() end\nlocal function bury() end\n");
        let findings = check(&[piece.clone(), script("admit", "dispatch()")]);
        assert_eq!(findings, [format!("{SCRIPTS}/shared/jobs.lua:2: no script uses the function `bury`")]);
        assert!(check(&[piece, script("admit", "dispatch()\nbury()")]).is_empty());
    }

    #[test]
    fn a_shared_piece_of_which_no_script_uses_anything_is_found() {
        let piece = script(
            "shared/limits",
            "local limit_max = 3\nlocal function cap() return limit_max end\ncap()\n",
        );
        assert!(check(&[piece, script("admit", "return 1")]).is_empty(), "it does something by itself");
        let piece = script("shared/limits", "local limit_max = 3\n");
        assert_eq!(check(&[piece.clone(), script("admit", "return 1")]).len(), 1);
        assert!(check(&[piece, script("admit", "return limit_max")]).is_empty());
    }
}
