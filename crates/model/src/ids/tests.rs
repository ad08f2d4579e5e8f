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
