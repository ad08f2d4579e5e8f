//! As much of Lua as the rules need: words without comments and texts, blocks, and what stands at the top level.

use std::collections::BTreeMap;

pub(crate) struct Function<'a> {
    /// None if it is a value without a name.
    pub(crate) name: Option<&'a str>,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    line: usize,
    /// How many blocks it stands in.
    depth: usize,
}

/// How often each word stands in the code.
pub(crate) fn words(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for word in code(text) {
        *counts.entry(word.text).or_default() += 1;
    }
    counts
}

/// Every function, in the order in which they end.
pub(crate) fn functions(text: &str) -> Vec<Function<'_>> {
    let code = code(text);
    let mut open = Vec::new();
    let mut functions = Vec::new();
    for (at, word) in code.iter().enumerate() {
        if opens_block(word.text) {
            open.push((at, *word));
        } else if closes_block(word.text)
            && let Some((begin, opening)) = open.pop()
            && opening.text == "function"
        {
            let is_named = begin > 0 && code[begin - 1].text == "local";
            let name = code.get(begin + 1).filter(|_| is_named).map(|name| name.text);
            functions.push(Function { name, line: opening.line, lines: word.line - opening.line + 1 });
        }
    }
    functions
}

/// The names that a file declares at its top level. None if it does something beside declaring.
pub(crate) fn top_level_names(text: &str) -> Option<Vec<&str>> {
    let code = code(text);
    let mut names = Vec::new();
    let mut is_local = false;
    let mut last_line = 0;
    for (at, word) in code.iter().enumerate().filter(|(_, word)| word.depth == 0) {
        if word.line != last_line {
            is_local = word.text == "local" || closes_block(word.text);
            last_line = word.line;
        }
        if !is_local {
            return None;
        }
        // The name of a function is already in its block.
        let name = if word.text == "function" { code.get(at + 1) } else { Some(word) };
        names.extend(name.map(|name| name.text).filter(|name| *name != "local"));
    }
    Some(names)
}

fn opens_block(word: &str) -> bool {
    // `for` and `while` have a `do`, and `elseif` continues the block of its `if`.
    matches!(word, "function" | "if" | "do" | "repeat")
}

fn closes_block(word: &str) -> bool {
    matches!(word, "end" | "until")
}

/// The words of the code.
fn code(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut rest, mut line, mut depth) = (text, 1, 0_usize);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if matches!(first, '\'' | '"') {
            quoted_length(rest, first)
        } else if is_part_of_word(first) {
            let length = rest.find(|character| !is_part_of_word(character)).unwrap_or(rest.len());
            let word = &rest[..length];
            if closes_block(word) {
                depth = depth.saturating_sub(1);
            }
            words.push(Word { text: word, line, depth });
            if opens_block(word) {
                depth += 1;
            }
            length
        } else {
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    words
}

/// The length of a quoted text, with its quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if character == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}

fn is_part_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_no_code() {
        let text = "-- if then\nlocal a = 'it\\'s an if' .. \"end\" -- end\nreturn a\n";
        let words = words(text);
        assert_eq!(words.keys().copied().collect::<Vec<_>>(), ["a", "local", "return"]);
        assert_eq!(words["a"], 2);
    }

    #[test]
    fn functions_end_where_their_own_block_ends() {
        let text = "local function outer(list)
  for _, one in ipairs(list) do
    if one then
      each(function()
      end)
    elseif x then
      y()
    end
  end
  repeat
    z()
  until done
end
";
        let found = functions(text);
        let shown: Vec<_> = found.iter().map(|one| (one.name, one.line, one.lines)).collect();
        assert_eq!(shown, [(None, 4, 2), (Some("outer"), 1, 13)]);
    }

    #[test]
    fn only_a_file_without_statements_has_top_level_names_alone() {
        let text = "local first, second = 1, 2\nlocal function third()\n  act()\nend\n";
        let names = top_level_names(text).unwrap();
        assert!(["first", "second", "third"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(top_level_names("local a = 1\nact(a)\n").is_none());
        assert!(top_level_names("rules.one = {}\n").is_none());
    }
}
