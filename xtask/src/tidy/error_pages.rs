//! Every error code has a page that says what to do.

use std::collections::BTreeSet;

use super::sources::Source;

const CODES: &str = "crates/api/src/problem.rs";
const PAGES: &str = "docs/errors";

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let Some(codes) = sources.iter().find(|source| source.path == CODES) else {
        return vec![format!("{CODES}: the file with the error codes is missing")];
    };
    let pages: BTreeSet<_> = sources.iter().filter(|source| source.is_in(PAGES)).map(Source::stem).collect();
    let codes: BTreeSet<_> = codes.text.lines().filter_map(code).collect();
    let without_page = codes.into_iter().filter(|code| !pages.contains(code));
    without_page.map(|code| format!("{PAGES}/{code}.md: the error code has no page")).collect()
}

/// The code in a line such as `Self::NotFound => "not_found",`.
fn code(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("=> \"")?;
    let (code, _) = rest.split_once('"')?;
    code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_without_a_page_is_found() {
        let codes = Source::new(CODES, "Self::NotFound => \"not_found\",\nSelf::Busy => \"busy\",\n");
        let page = Source::new("docs/errors/not_found.md", "");
        assert_eq!(check(&[codes, page]), ["docs/errors/busy.md: the error code has no page"]);
    }
}
