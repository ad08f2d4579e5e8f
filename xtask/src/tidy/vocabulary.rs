//! Words that hide who does what are going away: their number may fall and must not grow.

use super::sources::Source;

const WORDS: [&str; 7] = ["mend", "told", "whoever", "nobody", "somebody", "ripen", "so many"];

/// Where they are counted, and how many there may be. Lower a number when you have removed some.
pub(crate) const OCCURRENCES_MAX: [(&str, usize); 3] = [("crates", 0), ("docs", 0), ("README.md", 0)];

pub(crate) fn check(sources: &[Source], occurrences_max: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (place, count_max) in occurrences_max {
        let places: Vec<_> =
            sources.iter().filter(|source| source.is_in(place)).flat_map(occurrences).collect();
        if places.len() > *count_max {
            let words = WORDS.join("`, `");
            let count = places.len();
            findings.push(format!("{place}: {count} of `{words}`, at most {count_max}: say who does what"));
            // All of them would bury the rest when the number is still large.
            findings.extend(places.into_iter().take(SHOWN_MAX));
        }
    }
    findings
}

const SHOWN_MAX: usize = 20;

fn occurrences(source: &Source) -> Vec<String> {
    let mut places = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line.to_lowercase();
        for word in WORDS {
            places.extend((0..count(&line, word)).map(|_| format!("  {}:{number}: `{word}`", source.path)));
        }
    }
    places
}

/// How often a word stands alone in the line, as `grep -w` counts it: `told_by` is another word.
fn count(line: &str, word: &str) -> usize {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let stands_alone = |(at, found): &(usize, &str)| {
        !line[..*at].ends_with(is_part) && !line[at + found.len()..].starts_with(is_part)
    };
    line.match_indices(word).filter(stands_alone).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_counted_in_any_case() {
        assert_eq!(count("he told me what was told", "told"), 2);
        assert_eq!(count("is_told, told_by, retold, untoldness", "told"), 0);
        let source = Source::new("docs/a.md", "Whoever is Told.\nIn so many words");
        assert_eq!(occurrences(&source).len(), 3);
    }

    #[test]
    fn one_word_more_than_allowed_is_a_finding_and_names_its_place() {
        let sources = [Source::new("docs/a.md", "It is told.\n"), Source::new("crates/a.rs", "// told\n")];
        assert!(check(&sources, &[("docs", 1), ("crates", 1)]).is_empty());
        let findings = check(&sources, &[("docs", 0), ("crates", 1)]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings[1], "  docs/a.md:1: `told`");
    }
}
