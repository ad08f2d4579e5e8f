use std::time::Duration;

use super::*;
use crate::{Fence, Timestamp};

fn amount(text: &str) -> Amount {
    text.parse().expect("the amount is valid")
}

fn document(per: Period, timezone: &str) -> BudgetDocument {
    BudgetDocument {
        unit: "usd".to_owned(),
        amount: amount("20.00"),
        per,
        timezone: Some(timezone.to_owned()).filter(|_| per.is_calendar()),
        key: Some("input.user".to_owned()),
        warn_at: vec![50, 80],
        on_exhausted: OnExhausted::Deny,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("the time is valid")
}

fn window(per: Period, zone: &str, now: &str) -> (String, String) {
    let window = document(per, zone).window_at(at(now)).expect("the calendar goes on");
    (window.from.to_string(), window.until.expect("it ends").to_string())
}

fn hours(per: Period, zone: &str, now: &str) -> u64 {
    let window = document(per, zone).window_at(at(now)).expect("the calendar goes on");
    window.until.expect("it ends").since(window.from).as_secs() / 3_600
}

#[test]
fn an_amount_is_a_decimal_number_and_reads_back_as_it_is_written() {
    for (text, micros, written) in [
        ("0", 0, "0"),
        ("0.05", 50_000, "0.05"),
        ("20.00", 20_000_000, "20"),
        ("0.000001", 1, "0.000001"),
        ("8999999999.999999", 8_999_999_999_999_999, "8999999999.999999"),
    ] {
        assert_eq!((amount(text).micros(), amount(text).to_string().as_str()), (micros, written));
        assert_eq!(amount(written), amount(text));
    }
}

#[test]
fn what_is_no_amount_is_rejected() {
    let others = [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "-0",
        "+1",
        "1e3",
        "1,5",
        " 1",
        "01",
        "0.0000001",
        "9000000000",
        "NaN",
        "١",
    ];
    for text in others {
        let error = text.parse::<Amount>().expect_err(text);
        assert!(error.to_string().contains("no amount"), "{error}");
    }
    assert!("x".repeat(1 << 20).parse::<Amount>().unwrap_err().to_string().len() < 400);
    assert_eq!("-0.5".parse::<Delta>().map(|delta| delta.to_string()), Ok("-0.5".to_owned()));
    assert!("--1".parse::<Delta>().is_err());
}

#[test]
fn sums_stop_at_the_largest_amount_and_at_zero() {
    assert_eq!(Amount::MAX.plus(amount("1")), Amount::MAX);
    assert_eq!(amount("1").minus(amount("2")), Amount::ZERO);
    assert_eq!(amount("1").adjusted("-2".parse().unwrap()), Amount::ZERO);
    assert_eq!(amount("1").adjusted("0.5".parse().unwrap()), amount("1.5"));
    assert_eq!(amount("0.000001").percent(50), amount("0.000001"), "a threshold is rounded up");
    assert_eq!(Amount::MAX.percent(100), Amount::MAX);
}

#[test]
fn a_document_names_the_field_that_is_not_valid() {
    let valid = document(Period::Day, "Europe/Berlin");
    assert_eq!(valid.check(), Ok(()));
    let long = "x".repeat(65);
    let cases: [(&str, BudgetDocument); 10] = [
        ("unit", BudgetDocument { unit: String::new(), ..valid.clone() }),
        ("unit", BudgetDocument { unit: "a\nb".to_owned(), ..valid.clone() }),
        ("timezone", BudgetDocument { timezone: Some("Mars/Phobos".to_owned()), ..valid.clone() }),
        ("timezone", BudgetDocument { timezone: Some(long), ..valid.clone() }),
        ("timezone", BudgetDocument { per: Period::Total, ..valid.clone() }),
        ("key", BudgetDocument { key: Some("steps.a".to_owned()), ..valid.clone() }),
        ("key", BudgetDocument { key: Some("input.".to_owned()), ..valid.clone() }),
        ("warn_at", BudgetDocument { warn_at: vec![0], ..valid.clone() }),
        ("warn_at", BudgetDocument { warn_at: vec![80, 50], ..valid.clone() }),
        ("warn_at", BudgetDocument { warn_at: (1..=11).collect(), ..valid.clone() }),
    ];
    for (field, document) in cases {
        let error = document.check().expect_err(field);
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().starts_with(field) && error.to_string().len() < 400, "{error}");
    }
}

#[test]
fn a_day_begins_at_midnight_of_its_time_zone() {
    let day = |zone, now| window(Period::Day, zone, now);
    let pair = |from: &str, until: &str| (from.to_owned(), until.to_owned());
    assert_eq!(
        day("UTC", "2026-11-18T23:59:59.999Z"),
        pair("2026-11-18T00:00:00.000Z", "2026-11-19T00:00:00.000Z")
    );
    assert_eq!(
        day("America/New_York", "2026-11-18T03:00:00Z"),
        pair("2026-11-17T05:00:00.000Z", "2026-11-18T05:00:00.000Z")
    );
    assert_eq!(
        day("Asia/Kolkata", "2026-11-18T18:30:00Z"),
        pair("2026-11-18T18:30:00.000Z", "2026-11-19T18:30:00.000Z")
    );
}

#[test]
fn the_days_on_which_the_clock_is_set_have_23_and_25_hours() {
    assert_eq!(hours(Period::Day, "Europe/Berlin", "2026-03-29T12:00:00Z"), 23);
    assert_eq!(hours(Period::Day, "Europe/Berlin", "2026-10-25T12:00:00Z"), 25);
    assert_eq!(hours(Period::Day, "Europe/Berlin", "2026-11-18T12:00:00Z"), 24);
    // Where midnight itself is skipped, the day begins at one o'clock.
    let (from, until) = window(Period::Day, "America/Santiago", "2026-09-06T12:00:00Z");
    assert_eq!((from.as_str(), until.as_str()), ("2026-09-06T04:00:00.000Z", "2026-09-07T03:00:00.000Z"));
}

#[test]
fn a_month_ends_with_its_last_day() {
    let month = |zone, now| window(Period::Month, zone, now);
    assert_eq!(
        month("UTC", "2028-02-29T12:00:00Z"),
        ("2028-02-01T00:00:00.000Z".to_owned(), "2028-03-01T00:00:00.000Z".to_owned())
    );
    assert_eq!(
        month("Europe/Berlin", "2026-10-31T23:30:00Z"),
        ("2026-10-31T23:00:00.000Z".to_owned(), "2026-11-30T23:00:00.000Z".to_owned())
    );
    assert_eq!(hours(Period::Month, "Europe/Berlin", "2026-10-10T00:00:00Z"), 31 * 24 + 1);
}

#[test]
fn an_hour_is_one_of_the_clock_face_and_one_that_comes_twice_is_two() {
    let hour = |zone, now| window(Period::Hour, zone, now);
    let pair = |from: &str, until: &str| (from.to_owned(), until.to_owned());
    assert_eq!(
        hour("Asia/Kolkata", "2026-11-18T10:10:00Z"),
        pair("2026-11-18T09:30:00.000Z", "2026-11-18T10:30:00.000Z")
    );
    // From 03:00 back to 02:00.
    assert_eq!(
        hour("Europe/Berlin", "2026-10-25T00:30:00Z"),
        pair("2026-10-25T00:00:00.000Z", "2026-10-25T01:00:00.000Z")
    );
    assert_eq!(
        hour("Europe/Berlin", "2026-10-25T01:00:00Z"),
        pair("2026-10-25T01:00:00.000Z", "2026-10-25T02:00:00.000Z")
    );
    // From 02:00 back to 01:30: the hour from one o'clock is cut where the clock is set.
    assert_eq!(
        hour("Australia/Lord_Howe", "2026-04-04T14:50:00Z"),
        pair("2026-04-04T14:00:00.000Z", "2026-04-04T15:00:00.000Z")
    );
    assert_eq!(
        hour("Australia/Lord_Howe", "2026-04-04T15:10:00Z"),
        pair("2026-04-04T15:00:00.000Z", "2026-04-04T15:30:00.000Z")
    );
}

#[test]
fn windows_follow_each_other_without_a_gap() {
    for zone in ["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "America/Havana"] {
        for per in [Period::Hour, Period::Day, Period::Month] {
            let document = document(per, zone);
            let mut window = document.window_at(at("2025-12-30T00:00:00Z")).unwrap();
            let end = at("2027-01-02T00:00:00Z");
            while let Some(until) = window.until.filter(|until| *until < end) {
                assert!(window.from < until, "{zone} {window:?}");
                let last = document.window_at(until - Duration::from_millis(1)).unwrap();
                assert_eq!(last, window, "{zone}: the last moment belongs to the window");
                window = document.window_at(until).unwrap();
                assert_eq!(window.from, until, "{zone}: the next begins where one ends");
                assert!(window.contains(until) && !last.contains(until));
            }
        }
    }
}

#[test]
fn a_window_is_named_by_its_period_and_beginning() {
    let name = |per| document(per, "UTC").window_at(at("2026-11-15T00:30:00Z")).unwrap().to_string();
    assert_eq!(name(Period::Day), "day-001794700800000");
    assert_eq!(name(Period::Hour), "hour-001794700800000");
    assert_eq!((name(Period::Run), name(Period::Total)), ("run".to_owned(), "total".to_owned()));
}

#[test]
fn a_group_keeps_its_key_and_never_meets_another() {
    let long = "k".repeat(KEY_BYTES_MAX);
    let keys = [None, Some("ann"), Some("a/b:c%"), Some("*"), Some("ö"), Some(long.as_str())];
    let groups: Vec<_> = keys.iter().map(|key| BudgetGroup::new(None, *key).unwrap()).collect();
    for (group, key) in groups.iter().zip(keys) {
        assert_eq!(group.key().as_deref(), key);
        assert_eq!(group.run(), None);
        assert!(!group.as_str().contains('/') && *group != BudgetGroup::all());
        assert_eq!(groups.iter().filter(|other| *other == group).count(), 1);
    }
    assert_eq!(groups[0], BudgetGroup::everyone());
    let run = crate::RunId::new(Timestamp::from_millis(5), [1; 10]);
    let both = BudgetGroup::new(Some(run), Some("ann")).unwrap();
    assert_eq!((both.run(), both.key()), (Some(run), Some("ann".to_owned())));
    for key in [String::new(), "k".repeat(KEY_BYTES_MAX + 1), "a\u{7f}".to_owned()] {
        assert_eq!(BudgetGroup::new(None, Some(&key)), Err(InvalidKey));
    }
}

fn permit(state: PermitState, granted: &str, settled: &str) -> Permit {
    Permit {
        id: "p1".parse().unwrap(),
        window: document(Period::Total, "UTC").window_at(Timestamp::ZERO).unwrap(),
        group: BudgetGroup::everyone(),
        state,
        asked: amount(granted),
        least: amount(granted),
        granted: amount(granted),
        fence: Fence::NONE,
        granted_at: Timestamp::ZERO,
        expires_at: Some(Timestamp::ZERO),
        job: None,
        settled: amount(settled),
        ended_at: None,
    }
}

#[test]
fn a_ledger_forgets_permits_and_keeps_what_they_count_for() {
    let permits = [
        permit(PermitState::Open, "1", "0"),
        permit(PermitState::Unsettled, "2", "0"),
        permit(PermitState::Settled, "4", "5"),
        permit(PermitState::Released, "8", "0"),
    ];
    let mut ledger = Ledger::default();
    for permit in &permits {
        ledger.add(permit);
    }
    let numbers = |ledger: &Ledger| {
        [ledger.reserved, ledger.unsettled, ledger.spent, ledger.overdraft].map(|amount| amount.to_string())
    };
    assert_eq!(numbers(&ledger), ["1", "2", "5", "1"]);
    assert_eq!((ledger.open, ledger.ended), (1, 3));
    for permit in &permits[1..] {
        ledger.forget(permit);
    }
    assert_eq!(numbers(&ledger), ["1", "2", "5", "1"]);
    assert_eq!((ledger.open, ledger.ended, ledger.is_at_rest()), (1, 0, false));
    let mut counted = ledger.without_permits();
    counted.add(&permits[0]);
    assert_eq!(counted, ledger, "it is counted anew from what is kept");
    let (mut total, other) = (Ledger::default(), Ledger { groups: 0, ..ledger });
    total.join(&ledger);
    total.join(&other);
    total.leave(&other);
    assert_eq!(total, Ledger { groups: 1, ..ledger });
}

#[test]
fn a_warning_is_given_once_for_each_threshold() {
    let marks = document(Period::Day, "UTC").warn_marks();
    let mut ledger = Ledger { spent: amount("9"), unsettled: amount("1"), ..Ledger::default() };
    let group = BudgetGroup::everyone();
    let percents =
        |warnings: Vec<Warning>| warnings.iter().map(|warning| warning.percent).collect::<Vec<_>>();
    assert_eq!(percents(ledger.warn(&marks, &group)), [50]);
    assert_eq!(percents(ledger.warn(&marks, &group)), [0; 0]);
    ledger.spent = amount("20");
    assert_eq!(percents(ledger.warn(&marks, &group)), [80]);
    assert_eq!(ledger.warned, 80);
}

#[test]
fn an_increase_raises_the_limit_of_whom_it_is_for_until_its_time() {
    let ann = BudgetGroup::new(None, Some("ann")).unwrap();
    let increases = [
        Increase { delta: amount("5"), until: Timestamp::from_millis(10), group: None },
        Increase { delta: amount("1"), until: Timestamp::from_millis(20), group: Some(ann.clone()) },
    ];
    let limit_at = |group: &BudgetGroup, now| {
        limit(amount("20"), &increases, "-2".parse().unwrap(), (group, Timestamp::from_millis(now)))
            .to_string()
    };
    assert_eq!(limit_at(&ann, 9), "24");
    assert_eq!(limit_at(&BudgetGroup::everyone(), 9), "23");
    assert_eq!(limit_at(&ann, 10), "19");
    assert_eq!(limit_at(&ann, 20), "18");
}

#[test]
fn the_sentence_says_what_is_left_who_has_the_rest_and_when_it_resets() {
    let document = document(Period::Day, "UTC");
    let now = at("2026-11-18T19:00:00Z");
    let window = document.window_at(now).unwrap();
    let ledger = Ledger {
        spent: amount("18.48"),
        reserved: amount("1.1"),
        unsettled: amount("0.4"),
        open: 4,
        ..Ledger::default()
    };
    let group = BudgetGroup::new(None, Some("ann")).unwrap();
    let state = ledger.under(document.amount);
    let text = exhausted(("llm", &document), (&group, &window), (&state, 0), (amount("0.05"), now));
    assert_eq!(
        text,
        "budget llm of \"ann\" has 0.02 usd left of 20 today, and the reservation needs 0.05. 1.1 is reserved by 4 open \
         permits. 0.4 expired unsettled. It resets at 2026-11-19T00:00:00.000Z (in 5 h 0 min)."
    );
}
