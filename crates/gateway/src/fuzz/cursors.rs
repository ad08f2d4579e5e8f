//! Cursors.

use interlock_fuzz::{Target, expect_short, texts};
use proptest::prelude::*;

use crate::cursor;

fn generated() -> impl Strategy<Value = Vec<u8>> {
    let place = "[!-~]{0,200}".prop_map(|place| cursor::encode(&place).into_bytes());
    prop_oneof![place, texts("([0-9a-fA-F]{2}){0,20}"), texts("\\PC{0,40}")]
}

#[test]
fn a_cursor_is_rejected_or_is_the_cursor_of_its_place() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "cursors").fuzz(generated(), |input| {
        let text = String::from_utf8_lossy(input);
        match cursor::decode(&text) {
            Err(refusal) => expect_short(&format!("{refusal:?}")),
            Ok(place) => {
                assert_eq!(cursor::encode(&place), text.to_ascii_lowercase());
                assert!(place.len() <= 512 && place.bytes().all(|byte| byte.is_ascii_graphic()), "{place:?}");
            }
        }
    });
}
