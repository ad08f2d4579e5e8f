//! What a start says in headers: the priority and the labels of its run, and how long its answer may wait for the end.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use interlock_model::LabelName;
use interlock_model::limit::document::Labels;
use interlock_model::limit::place::StartPriority;

use crate::bounds::bounded;
use crate::error::Refusal;

const PRIORITY: HeaderName = HeaderName::from_static("x-interlock-priority");
const LABEL: HeaderName = HeaderName::from_static("x-interlock-label");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// How long the answer to a start may wait.
const WAIT_SECONDS_MAX: u64 = 60;

/// Labels of one run.
const LABELS_MAX: usize = 16;

/// Bytes of the value of a label.
const VALUE_BYTES_MAX: usize = 256;

pub(crate) fn priority(headers: &HeaderMap) -> Result<StartPriority, Refusal> {
    let mut given = headers.get_all(&PRIORITY).iter();
    let Some(first) = given.next() else { return Ok(StartPriority::default()) };
    if given.any(|other| other != first) {
        return Err(Refusal::invalid("X-Interlock-Priority is given more than once, with different values"));
    }
    let level = first.to_str().ok().and_then(|text| text.trim().parse::<u8>().ok());
    let level = level.and_then(|level| StartPriority::try_from(level).ok());
    level.ok_or_else(|| Refusal::invalid("X-Interlock-Priority: use a priority from 0 to 9"))
}

pub(crate) fn labels(headers: &HeaderMap) -> Result<Labels, Refusal> {
    let mut labels = Labels::new();
    for header in headers.get_all(&LABEL) {
        let text =
            std::str::from_utf8(header.as_bytes()).map_err(|_| invalid("a label is not text in UTF-8"))?;
        let (name, value) =
            text.split_once('=').ok_or_else(|| invalid("a label is written as name=value"))?;
        insert(&mut labels, name.trim(), value.trim())?;
    }
    Ok(labels)
}

/// Checks the labels of a body as those of headers.
pub(crate) fn checked(written: &Labels) -> Result<Labels, Refusal> {
    let mut labels = Labels::new();
    for (name, value) in written {
        insert(&mut labels, name, value)?;
    }
    Ok(labels)
}

fn insert(labels: &mut Labels, name: &str, value: &str) -> Result<(), Refusal> {
    let name: LabelName = name.parse().map_err(|error| invalid(&format!("{error}")))?;
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        let rule = format!("its value has at most {VALUE_BYTES_MAX} bytes and no control characters");
        return Err(invalid(&format!("label {name}: {rule}")));
    }
    let before = labels.insert(name.to_string(), value.to_owned());
    if before.is_some_and(|before| before != value) {
        return Err(invalid(&format!("label {name} is given more than once, with different values")));
    }
    if labels.len() > LABELS_MAX {
        return Err(invalid(&format!("at most {LABELS_MAX} labels")));
    }
    Ok(())
}

/// How long the answer waits for the end of the run: `wait` of RFC 7240. Of several the first counts; preferences that
/// this server does not know are ignored, as the standard says.
pub(crate) fn wait(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    for header in headers.get_all(&PREFER) {
        let text = String::from_utf8_lossy(header.as_bytes());
        for preference in split_unquoted(&text, ',') {
            // What follows a semicolon are its parameters.
            let first = split_unquoted(preference, ';').next().unwrap_or_default();
            let (name, value) = first.split_once('=').unwrap_or((first, ""));
            if name.trim().eq_ignore_ascii_case("wait") {
                let value = value.trim();
                let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
                return seconds(value).map(Some);
            }
        }
    }
    Ok(None)
}

fn seconds(text: &str) -> Result<Duration, Refusal> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u64>().ok().filter(|_| is_number);
    let number = number.ok_or_else(|| {
        Refusal::invalid(format!("Prefer: wait: use whole seconds from 0 to {WAIT_SECONDS_MAX}"))
    })?;
    bounded("Prefer: wait", number, (0, WAIT_SECONDS_MAX))?;
    Ok(Duration::from_secs(number))
}

/// The parts of `text` between separators that stand in no quoted string.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        if is_escaped {
            is_escaped = false;
        } else if letter == '\\' && is_quoted {
            is_escaped = true;
        } else if letter == '"' {
            is_quoted = !is_quoted;
        } else {
            return letter == separator && !is_quoted;
        }
        false
    })
}

fn invalid(problem: &str) -> Refusal {
    Refusal::invalid(format!("X-Interlock-Label: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    #[test]
    fn a_priority_is_one_digit_and_4_without_one() {
        let read = |values: &[&str]| {
            let headers: Vec<_> = values.iter().map(|value| ("x-interlock-priority", *value)).collect();
            priority(&map(&headers)).map(u8::from)
        };
        assert_eq!(read(&[]).unwrap(), 4);
        assert_eq!(read(&["0"]).unwrap(), 0);
        assert_eq!(read(&["9", "9"]).unwrap(), 9);
        for values in [&["10"][..], &["-1"], &[""], &["high"], &["3.0"], &["1", "2"]] {
            assert!(read(values).is_err(), "{values:?}");
        }
    }

    #[test]
    fn labels_are_bounded_in_number_and_length() {
        let read = |values: &[String]| {
            let headers: Vec<_> = values.iter().map(|value| ("x-interlock-label", value.as_str())).collect();
            labels(&map(&headers))
        };
        let one = |text: &str| read(&[text.to_owned()]);
        assert_eq!(one("team=a=b").unwrap()["team"], "a=b");
        assert_eq!(one(" team = über ").unwrap()["team"], "über");
        assert_eq!(one("team=").unwrap()["team"], "");
        assert!(one(&format!("team={}", "x".repeat(256))).is_ok());
        for bad in
            ["team", "=x", "te am=x", &format!("team={}", "x".repeat(257)), &format!("{}=x", "n".repeat(65))]
        {
            assert!(one(bad).is_err(), "{bad}");
        }
        let many = |count: usize| (0..count).map(|number| format!("n{number}=x")).collect::<Vec<_>>();
        assert_eq!(read(&many(16)).unwrap().len(), 16);
        assert!(read(&many(17)).is_err());
        assert!(read(&["a=1".to_owned(), "a=1".to_owned()]).is_ok());
        assert!(read(&["a=1".to_owned(), "a=2".to_owned()]).is_err());
    }

    #[test]
    fn the_first_wait_among_the_preferences_counts() {
        let read = |values: &[&str]| {
            let headers: Vec<_> = values.iter().map(|value| ("prefer", *value)).collect();
            wait(&map(&headers)).map(|wait| wait.map(|wait| wait.as_secs()))
        };
        for (values, seconds) in [
            (&[][..], None),
            (&["respond-async"], None),
            (&["wait=10"], Some(10)),
            (&["WAIT = \"10\""], Some(10)),
            (&["respond-async, wait=0"], Some(0)),
            (&["return=minimal; x=\"a, wait=3\", wait=60;y"], Some(60)),
            (&["a=\"\\\", wait=1\"", "wait=2, wait=3"], Some(2)),
            (&["waiting=10"], None),
        ] {
            assert_eq!(read(values).unwrap(), seconds, "{values:?}");
        }
        for value in ["wait", "wait=", "wait=61", "wait=-1", "wait=+1", "wait=1.5", "wait=ten", "wait=\"1"] {
            assert!(read(&[value]).is_err(), "{value}");
        }
    }
}
