//! Words that hide who does what.

use super::sources::Source;

const WORDS: [&str; 7] = ["mend", "told", "whoever", "nobody", "somebody", "ripen", "so many"];

const PLACES: [&str; 3] = ["crates", "docs", "README.md"];

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let is_checked = |source: &&Source| PLACES.iter().any(|place| source.is_in(place));
    sources.iter().filter(is_checked).flat_map(occurrences).collect()
}

fn occurrences(source: &Source) -> Vec<String> {
    let mut places = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line.to_lowercase();
        for word in WORDS.iter().filter(|word| has(&line, word)) {
            places.push(format!("{}:{number}: `{word}`: say who does what", source.path));
        }
    }
    places
}

/// Whether the word stands in the line, alone or as a part of a name such as `told_by`.
fn has(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, found)| {
        !line[..at].ends_with(char::is_alphanumeric)
            && !line[at + found.len()..].starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_and_parts_of_names_are_found() {
        assert!(has("he told me", "told") && has("is_told", "told") && has("told_by", "told"));
        assert!(!has("retold, untoldness", "told"));
    }

    #[test]
    fn a_finding_names_the_place_and_other_files_are_left_alone() {
        let sources =
            [Source::new("docs/a.md", "Plain.\nWhoever is Told.\n"), Source::new("CHANGELOG.md", "told")];
        let findings = check(&sources);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings[0], "docs/a.md:2: `told`: say who does what");
    }
}
