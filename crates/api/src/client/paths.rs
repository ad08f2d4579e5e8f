//! Paths of the API. Ids come from outside, so each is escaped into one segment.

use std::fmt::{Display, Write};

/// A path under the base path; each part becomes one segment.
pub(super) fn path(parts: &[&(dyn Display + Sync)]) -> String {
    let mut path = String::from("/api/v1");
    for part in parts {
        path.push('/');
        push_segment(&mut path, &part.to_string());
    }
    path
}

/// Escapes everything special in a URL, except the `:` and `@` of job ids, which are valid in a segment.
fn push_segment(path: &mut String, segment: &str) {
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                path.push(char::from(byte));
            }
            other => write!(path, "%{other:02X}").expect("writing to a string cannot fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_with_an_item_is_one_segment() {
        let job = "0192f0c1-0000-7000-8000-000000000001:build[3]@2";
        let path = path(&[&"jobs", &job, &"complete"]);
        assert_eq!(path, "/api/v1/jobs/0192f0c1-0000-7000-8000-000000000001:build%5B3%5D@2/complete");
    }

    #[test]
    fn an_id_cannot_leave_its_segment() {
        assert_eq!(path(&[&"workflows", &"a/b?c#d%2F é"]), "/api/v1/workflows/a%2Fb%3Fc%23d%252F%20%C3%A9");
    }
}
