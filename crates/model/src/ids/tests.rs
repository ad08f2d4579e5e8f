use super::*;

const RUN: &str = "0192f0c1-0000-7000-8000-000000000001";

#[test]
fn a_job_id_round_trips() {
    for text in [format!("{RUN}:build@1"), format!("{RUN}:build.x-y[12]@3")] {
        assert_eq!(text.parse::<JobId>().unwrap().to_string(), text);
    }
}

#[test]
fn a_name_has_exactly_one_spelling() {
    for text in
        [format!("{RUN}:build@01"), format!("{RUN}:build[01]@1"), format!("{}:b@1", RUN.to_uppercase())]
    {
        assert!(text.parse::<JobId>().is_err(), "{text}");
    }
}

#[test]
fn invalid_characters_are_rejected() {
    let longest = "a".repeat(64);
    for good in ["a", "A.b_c-9", "0", longest.as_str()] {
        assert!(good.parse::<TenantId>().is_ok(), "{good}");
    }
    let too_long = "a".repeat(65);
    for bad in ["", ".a", "-a", "a/b", "a b", "é", "a\n", "a{b}", too_long.as_str()] {
        assert!(bad.parse::<TenantId>().is_err(), "{bad}");
    }
}

#[test]
fn run_ids_sort_by_time() {
    let early = RunId::new(Timestamp::from_millis(1_000), [255; 10]);
    let late = RunId::new(Timestamp::from_millis(1_001), [0; 10]);
    assert!(early < late && early.to_string() < late.to_string());
}

#[test]
fn a_run_id_contains_its_creation_time() {
    let moment = Timestamp::from_millis(1_794_700_800_123);
    assert_eq!(RunId::new(moment, [255; 10]).made_at(), moment);
}

/// Whether the pattern in the schema of `T` describes what `T` accepts, for these texts.
fn check_pattern<T: FromStr + utoipa::PartialSchema>(texts: &[String]) {
    let schema = serde_json::to_value(T::schema()).unwrap();
    assert!(schema["pattern"].is_string(), "{schema}");
    let described = interlock_schema::Schema::compile(&schema).unwrap();
    for text in texts {
        let is_described = described.check(&serde_json::json!(text)).is_ok();
        assert_eq!(is_described, text.parse::<T>().is_ok(), "{text:?} by {schema}");
    }
}

#[test]
fn the_documented_patterns_are_the_rules() {
    let mut texts: Vec<String> =
        ["", "a", "A.b_c-9", "-a", "a b", "a:b", "a@b", "a/b", "a\n", "a\u{7f}", "é", "~", "a*", "[1]"]
            .map(str::to_owned)
            .into();
    texts.extend([64, 65, 128, 129, 255, 256].map(|length| "a".repeat(length)));
    texts.extend([RUN.to_owned(), RUN.to_uppercase(), format!("{RUN}:build@1"), format!("{RUN}:build[3]@0")]);
    texts.extend([
        format!("{RUN}:build[03]@1"),
        format!("{RUN}:b@01"),
        "build[3]".to_owned(),
        "build[x]".to_owned(),
    ]);
    check_pattern::<TenantId>(&texts);
    check_pattern::<Topic>(&texts);
    check_pattern::<Tag>(&texts);
    check_pattern::<WorkerId>(&texts);
    check_pattern::<ApiKeyId>(&texts);
    check_pattern::<Resource>(&texts);
    check_pattern::<LockOwner>(&texts);
    check_pattern::<RunId>(&texts);
    check_pattern::<StepKey>(&texts);
    check_pattern::<JobId>(&texts);
}
