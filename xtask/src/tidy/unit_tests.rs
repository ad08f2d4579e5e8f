//! A crate whose manifest says that it has no unit tests has none: cargo would never run them.

use super::sources::Source;

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let manifests = sources.iter().filter(|source| source.path.ends_with("/Cargo.toml"));
    let untested = manifests.filter(|manifest| manifest.text.lines().any(|line| line == "test = false"));
    let folders: Vec<String> = untested.map(|manifest| manifest.path.replace("Cargo.toml", "src")).collect();
    let is_untested = |source: &&Source| folders.iter().any(|folder| source.is_in(folder));
    let has_test = |source: &&Source| source.text.lines().any(|line| line == "#[cfg(test)]");
    let lost = super::rust(sources).filter(is_untested).filter(has_test);
    lost.map(|source| format!("{}: its tests never run; the manifest says `test = false`", source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_never_run_are_found() {
        let test = Source::new("crates/backend/src/runs.rs", "#[cfg(test)]\nmod tests {}");
        let manifest = |text| Source::new("crates/backend/Cargo.toml", text);
        assert_eq!(check(&[manifest("[lib]\ntest = false\n"), test.clone()]).len(), 1);
        assert_eq!(check(&[manifest("[lib]\n"), test.clone()]).len(), 0);
        assert_eq!(
            check(&[
                manifest("[lib]\ntest = false\n"),
                Source::new("crates/model/src/runs.rs", "#[cfg(test)]")
            ])
            .len(),
            0
        );
    }
}
