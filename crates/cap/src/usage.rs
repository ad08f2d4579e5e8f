//! What a NATS worker has spent. Results of the protocol have no field for it, so it stands in the output.

use std::collections::BTreeMap;

use interlock_model::budget::{JobUsage, read_usage};
use serde_json::Value;

/// The member of the output that says it.
pub(crate) const MEMBER: &str = "interlock_usage";

/// Takes it out of the output of a job that has reserved.
pub(crate) fn take(output: &mut Value) -> Result<JobUsage, String> {
    let Some(written) = output.as_object_mut().and_then(|members| members.remove(MEMBER)) else {
        return Ok(JobUsage::new());
    };
    let amounts: BTreeMap<String, String> = serde_json::from_value(written).map_err(|_| {
        format!("{MEMBER}: an object of amounts by budget is expected, such as {{\"llm\": \"0.031\"}}")
    })?;
    read_usage(amounts).map_err(|error| format!("{MEMBER}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_taken_out_of_the_output() {
        let mut output = json!({"answer": 42, "interlock_usage": {"llm": "0.031"}});
        let usage = take(&mut output).unwrap();
        assert_eq!(
            usage.into_iter().map(|(name, spent)| format!("{name} {spent}")).collect::<Vec<_>>(),
            ["llm 0.031"]
        );
        assert_eq!(output, json!({"answer": 42}));
        for mut plain in [json!(null), json!([1]), json!({"answer": 42})] {
            let before = plain.clone();
            assert_eq!((take(&mut plain), plain), (Ok(JobUsage::new()), before));
        }
    }

    #[test]
    fn usage_that_is_no_amount_is_named() {
        let refused = [
            (json!("0.031"), "an object of amounts"),
            (json!({"llm": 0.031}), "an object of amounts"),
            (json!({"llm": "-1"}), "interlock_usage: usage.llm: "),
            (json!({"no name": "1"}), "usage.no name: it is not the name of a budget"),
        ];
        for (usage, named) in refused {
            let error = take(&mut json!({ "interlock_usage": usage })).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
