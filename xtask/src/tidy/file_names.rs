//! A file or folder is named for what is in it.

use std::path::Path;

use super::sources::Source;

const VAGUE: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let vague = super::rust(sources).filter(|source| source.path.split('/').any(is_vague));
    vague.map(|source| format!("{}: name it for what is in it", source.path)).collect()
}

fn is_vague(part: &str) -> bool {
    Path::new(part).file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| VAGUE.contains(&stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_names_of_files_and_folders_are_found() {
        let found = |path: &str| check(&[Source::new(path, "")]).len();
        assert_eq!(found("crates/model/src/utils.rs"), 1);
        assert_eq!(found("crates/model/src/common/runs.rs"), 1);
        assert_eq!(found("crates/model/src/runs.rs"), 0);
    }
}
