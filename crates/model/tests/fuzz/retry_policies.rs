//! Retry policies as texts: `full_jitter:10ms:2s`.

use interlock_fuzz::{Target, expect_short, texts};
use interlock_model::retry::{DELAY_MAX, RetryPolicy, Seed};
use proptest::prelude::*;

const NUMBER: &str = "([0-9]{1,6}|600000|600001|18446744073709551616)(ms|s)?";

const KINDS: [&str; 6] =
    ["fixed", "bounded_jitter", "full_jitter", "equal_jitter", "decorrelated_jitter", "exponential"];

fn generated() -> impl Strategy<Value = Vec<u8>> {
    let middle = prop_oneof![NUMBER, "[0-9]{1,3}%", "[0-9]\\.[0-9]{1,20}", "1e[0-9]{1,3}", "NaN|inf|-1"];
    let numbers = proptest::collection::vec(middle, 0..4);
    let policy = (proptest::sample::select(&KINDS[..]), numbers)
        .prop_map(|(kind, numbers)| [&[kind.to_owned()], &*numbers].concat().join(":").into_bytes());
    prop_oneof![4 => policy, 1 => texts("\\PC{0,60}")]
}

#[test]
fn an_accepted_policy_reads_back_and_its_delays_are_bounded() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "retry-policies").fuzz(generated(), |input| {
        let text = String::from_utf8_lossy(input);
        let policy = match text.parse::<RetryPolicy>() {
            Err(error) => return expect_short(&error),
            Ok(policy) => policy,
        };
        assert_eq!(policy.to_string().parse(), Ok(policy), "{text}");
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<RetryPolicy>(&json).unwrap(), policy, "{text}");
        assert_eq!(policy.checked(), Ok(policy));
        for attempt in [1, 2, 3, 40, u32::MAX] {
            for previous in [None, Some(DELAY_MAX)] {
                let delay = policy.delay(attempt, previous, Seed::new(7));
                assert!(delay <= 2 * DELAY_MAX, "{text}: {delay:?}");
            }
        }
    });
}
