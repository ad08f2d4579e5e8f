//! What a misspelled name probably means.

use crate::spelling::nearest;

/// Names the known name that was probably meant, in place of all that are known.
pub(super) fn suggested(problem: &str) -> String {
    let is_about_a_name = problem.starts_with("unknown field `") || problem.starts_with("unknown variant `");
    let Some((what, known)) = problem.split_once(", expected ").filter(|_| is_about_a_name) else {
        return problem.to_owned();
    };
    let mut quoted = what.split('`');
    let name = quoted.nth(1).unwrap_or_default();
    match nearest(name, known.split('`').skip(1).step_by(2)) {
        Some(meant) => format!("{what}; did you mean `{meant}`?"),
        None => problem.to_owned(),
    }
}
