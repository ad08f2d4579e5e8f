//! Durations and shares as people write them.

/// `500ms`, `90s`, `30m`, `12h` or `7d`, in milliseconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || "expected a duration, such as 90s, 30m, 12h or 7d".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

/// `10%` or `10`.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    number.parse().map_err(|_| "expected a percentage, such as 10%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("90s"), Ok(90_000));
        assert_eq!(milliseconds("7d"), Ok(604_800_000));
        for text in ["", "7", "d", "-1s", "1.5h", "7 d", "99999999999999999999d"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_with_or_without_its_sign() {
        assert_eq!(percent("10%"), Ok(10.0));
        assert_eq!(percent("0.5"), Ok(0.5));
        assert!(percent("a tenth").is_err());
    }
}

#[cfg(test)]
mod fuzz {
    use interlock_fuzz::{Target, expect_short, texts};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_is_refused_or_is_its_number_of_units() {
        let generated =
            prop_oneof![texts("[0-9]{1,21}(ms|s|m|h|d|y)?"), texts("[+-]?[0-9. ]{0,4}[a-z%]{0,2}")];
        Target::new(env!("CARGO_MANIFEST_DIR"), "durations").fuzz(generated, |input| {
            let text = String::from_utf8_lossy(input);
            match milliseconds(&text) {
                Err(error) => expect_short(&error),
                Ok(millis) => {
                    assert_eq!(milliseconds(&format!("{millis}ms")), Ok(millis), "{text}");
                    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
                    assert!(u128::from(millis) >= digits.parse::<u128>().unwrap(), "{text}");
                }
            }
            if let Err(error) = percent(&text) {
                expect_short(&error);
            }
        });
    }
}
