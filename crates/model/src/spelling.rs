//! The known word that an unknown one was probably meant to be.

/// None if none is near. One that the word begins is.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_begun = |known: &str| word.len() >= BEGUN_MIN && known.starts_with(word);
    let nearest = known.into_iter().min_by_key(|known| (!is_begun(known), distance(word, known)));
    nearest.filter(|known| is_begun(known) || distance(word, known) * 3 <= word.len().max(known.len()))
}

/// Bytes of a word that may be the beginning of another.
const BEGUN_MIN: usize = 3;

/// How many characters must be inserted, deleted or replaced to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, from) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], above + 1);
        for (left, to) in other.bytes().enumerate() {
            let replaced = corner + usize::from(from != to);
            corner = row[left + 1];
            row[left + 1] = replaced.min(corner + 1).min(row[left] + 1);
        }
    }
    row[other.len()]
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
        assert_eq!(nearest("surprise", known), None);
        assert_eq!(nearest("limit", []), None);
    }
}
