//! The known word that an unknown one was probably meant to be.

/// None if none is near. One that the word begins is.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > BYTES_MAX {
        return None;
    }
    let is_begun = |known: &str| word.len() >= BEGUN_MIN && known.starts_with(word);
    let nearest = known.into_iter().min_by_key(|known| (!is_begun(known), distance(word, known)));
    nearest.filter(|known| is_begun(known) || distance(word, known) * 3 <= word.len().max(known.len()))
}

/// Of a word. A longer one is no misspelling, and costs too much to compare.
const BYTES_MAX: usize = 64;

/// Bytes of a word that may be the beginning of another.
const BEGUN_MIN: usize = 3;

/// How many characters must be inserted, deleted, replaced or swapped with their neighbours to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (at, from) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (left, to) in other.iter().enumerate() {
            let replaced = rows[at][left] + usize::from(from != to);
            let mut least = replaced.min(rows[at][left + 1] + 1).min(row[left] + 1);
            let is_swapped = at > 0 && left > 0 && one[at - 1] == *to && *from == other[left - 1];
            if is_swapped {
                least = least.min(rows[at - 1][left - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_near_to_what_it_was_meant_to_be() {
        let known = ["wait_ms", "limit", "cursor"];
        assert_eq!(nearest("wait", known), Some("wait_ms"));
        assert_eq!(nearest("wait_m", known), Some("wait_ms"));
        assert_eq!(nearest("limits", known), Some("limit"));
        assert_eq!(nearest("lmiit", known), Some("limit"));
        assert_eq!(nearest("surprise", known), None);
        assert_eq!(nearest(&"limit".repeat(1_000_000), known), None);
        assert_eq!(nearest("limit", []), None);
    }
}
