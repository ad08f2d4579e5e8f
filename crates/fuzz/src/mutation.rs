//! Small changes of an input: most of it stays valid, so that what reads it gets far.

use proptest::prelude::*;
use proptest::sample::Index;

/// What an input may grow to.
const BYTES_MAX: usize = 64 << 10;

/// Pieces that mean something to one of the readers.
const PIECES: [&[u8]; 34] = [
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"'",
    b"(",
    b")",
    b"${",
    b"$${",
    b".",
    b"/",
    b"%",
    b"%00",
    b"#",
    b"*",
    b"-",
    b"+",
    b" ",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"null",
    b"0",
    b"1e999999999",
    b"-9223372036854775809",
    b"0.1",
    b"$serde_json::private::Number",
];

#[derive(Debug, Clone)]
enum Change {
    FlipBit(Index, u8),
    Insert(Index, usize),
    Delete(Index, usize),
    /// Where, how long a part, and how often it is repeated.
    Repeat(Index, usize, usize),
    /// Continues as another entry from there on.
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        (place(), 0..8_u8).prop_map(|(at, bit)| Change::FlipBit(at, bit)),
        (place(), 0..PIECES.len()).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (place(), 1..16_usize).prop_map(|(at, length)| Change::Delete(at, length)),
        (place(), 1..32_usize, 1..200_usize)
            .prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        (place(), place(), place()).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

/// Entries of the corpus with a few changes.
pub(crate) fn mutated(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), proptest::collection::vec(change(), 1..6)).prop_map(move |(entry, changes)| {
        let mut input = entry.get(&corpus).clone();
        for change in &changes {
            apply(change, &mut input, &corpus);
            input.truncate(BYTES_MAX);
        }
        input
    })
}

fn apply(change: &Change, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    // One place more than there are bytes: the end.
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match change {
        Change::FlipBit(at, bit) => {
            let at = place(at, input);
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Change::Insert(at, piece) => {
            let at = place(at, input);
            input.splice(at..at, PIECES[*piece].iter().copied());
        }
        Change::Delete(at, length) => {
            let at = place(at, input);
            input.drain(at..input.len().min(at + length));
        }
        Change::Repeat(at, length, times) => {
            let at = place(at, input);
            let part = input[at..input.len().min(at + length)].repeat(*times);
            input.splice(at..at, part);
        }
        Change::Splice(at, other, from) => {
            let other = other.get(corpus);
            input.truncate(place(at, input));
            input.extend_from_slice(&other[place(from, other)..]);
        }
    }
}
