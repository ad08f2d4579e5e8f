//! Ids, times and trace parents: a text that is accepted is the only spelling, and reads back.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use interlock_fuzz::{Target, expect_short, texts};
use interlock_model::trace::TraceParent;
use interlock_model::{
    ApiKeyId, IdempotencyKey, JobId, LockOwner, LockToken, Resource, RunId, StepId, StepKey, Tag, TenantId,
    Timestamp, Topic, WorkerId, WorkflowId,
};
use proptest::prelude::*;

/// An id is one text: clients compare them as such, and they are parts of keys and paths.
fn expect_one_spelling<T>(text: &str, bytes_max: usize)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Err(error) => expect_short(&error),
        Ok(id) => {
            assert_eq!(id.to_string(), text);
            assert!(!text.is_empty() && text.len() <= bytes_max, "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
}

/// Several spellings may mean the same, but what is printed reads back.
fn expect_to_read_back<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Err(error) => expect_short(&error),
        Ok(value) => assert_eq!(value.to_string().parse::<T>().ok(), Some(value), "{text}"),
    }
}

fn generated() -> impl Strategy<Value = Vec<u8>> {
    let run = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
    let job = (run, "[a-z][a-z._-]{0,6}", "(\\[[0-9]{1,11}\\])?", "[0-9]{1,11}")
        .prop_map(|(run, step, item, attempt)| format!("{run}:{step}{item}@{attempt}").into_bytes());
    prop_oneof![
        texts("[a-zA-Z0-9._:@-]{0,140}"),
        texts(run),
        job,
        texts(
            "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,12})?)?(Z|[+-][0-9]{2}:[0-9]{2})"
        ),
        texts("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[a-z]{0,3})?"),
        texts("\\PC{0,40}"),
    ]
}

#[test]
fn a_name_has_one_spelling_and_is_bounded() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "names").fuzz(generated(), |input| {
        let text = &String::from_utf8_lossy(input);
        expect_one_spelling::<TenantId>(text, 64);
        expect_one_spelling::<WorkflowId>(text, 64);
        expect_one_spelling::<StepId>(text, 64);
        expect_one_spelling::<Topic>(text, 128);
        expect_one_spelling::<Tag>(text, 64);
        expect_one_spelling::<WorkerId>(text, 128);
        expect_one_spelling::<ApiKeyId>(text, 64);
        expect_one_spelling::<IdempotencyKey>(text, 255);
        expect_one_spelling::<Resource>(text, 255);
        expect_one_spelling::<LockOwner>(text, 255);
        expect_one_spelling::<LockToken>(text, 255);
        expect_one_spelling::<RunId>(text, 36);
        expect_one_spelling::<StepKey>(text, 64 + 12);
        expect_one_spelling::<JobId>(text, 36 + 1 + 64 + 12 + 1 + 10);
        expect_to_read_back::<Timestamp>(text);
        expect_to_read_back::<TraceParent>(text);
    });
}
