use super::*;

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn attempt(number: u32, sent: u64, took: u64, outcome: RequestOutcome) -> RequestAttempt {
    RequestAttempt { number, sent: ms(sent), response: Some((ms(took), outcome)) }
}

fn unanswered(sent: u64) -> RequestAttempt {
    RequestAttempt { number: 1, sent: ms(sent), response: None }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.001
}

#[test]
fn quantiles_are_measured_times() {
    let found = quantiles((1..=100).map(ms)).unwrap();
    assert_eq!(found, Quantiles { p50: 50.0, p95: 95.0, p99: 99.0, max: 100.0 });
    let few = quantiles([ms(3), ms(1), ms(2)].into_iter()).unwrap();
    assert_eq!(few, Quantiles { p50: 2.0, p95: 3.0, p99: 3.0, max: 3.0 });
    assert_eq!(quantiles(std::iter::empty()), None);
}

#[test]
fn the_wave_is_1_for_equal_buckets_and_their_number_for_one_full_bucket() {
    assert_eq!(peak_to_mean(&[5, 5, 5]), Some(1.0));
    assert_eq!(peak_to_mean(&[0, 12, 0, 0]), Some(4.0));
    assert_eq!(peak_to_mean(&[4, 2, 0, 2]), Some(2.0));
    assert_eq!(peak_to_mean(&[0, 0]), None);
    assert_eq!(peak_to_mean(&[]), None);
}

#[test]
fn even_successes_fill_every_slice_and_waves_only_a_few() {
    let even: Vec<_> = (1..=40).map(|number| ms(number * 10 - 5)).collect();
    assert_eq!(spread(&even), Some(1.0));
    let waves: Vec<_> = (0..40).map(|number| ms(500 * (1 + number / 10))).collect();
    assert_eq!(spread(&waves), Some(0.1), "four waves in forty slices");
    let many: Vec<_> = (1..=1_000).map(ms).collect();
    assert_eq!(spread(&many), Some(1.0));
    assert_eq!((spread(&even[..9]), spread(&[]), spread(&[ms(0); 20])), (None, None, None));
}

#[test]
fn every_request_is_counted_once_by_its_outcome() {
    let trace = LoadTrace {
        contenders: 3,
        attempts: vec![
            attempt(1, 0, 5, RequestOutcome::Ok),
            attempt(1, 0, 7, RequestOutcome::AtCapacity),
            attempt(1, 1, 9, RequestOutcome::Unavailable),
            attempt(2, 107, 4, RequestOutcome::Ok),
            attempt(2, 110, 90, RequestOutcome::Other),
            unanswered(107),
            unanswered(199),
        ],
        served: vec![ms(5), ms(111)],
        elapsed: ms(200),
        is_cut: true,
        background: 3,
        commands: Some(25),
        ..LoadTrace::default()
    };
    let found = ArmFigures::of(&trace);
    let counts = (found.requests, found.ok, found.at_capacity, found.unavailable, found.held, found.other);
    assert_eq!((counts, found.unanswered), ((7, 2, 1, 1, 0, 1), 2));
    assert_eq!((found.retries, found.served, found.all_served_ms), (2, 2, None));
    assert!(close(found.commands_per_request.unwrap(), 2.5), "background requests count");
    // Three of seven arrive in one of 21 buckets.
    assert!(close(found.wave.unwrap(), 3.0 * 21.0 / 7.0), "{found:?}");
    assert_eq!(found.retry_wave, Some(1.0));
    assert!(close(found.request_ms.unwrap().max, 90.0));
}

#[test]
fn all_served_is_the_time_of_the_last_success() {
    let trace = LoadTrace {
        contenders: 2,
        attempts: vec![attempt(1, 0, 5, RequestOutcome::Ok), attempt(1, 0, 42, RequestOutcome::Ok)],
        served: vec![ms(5), ms(42)],
        ..LoadTrace::default()
    };
    assert_eq!(ArmFigures::of(&trace).all_served_ms, Some(42.0));
    assert_eq!(Series::of(&trace).arrivals, [2, 0, 0, 0, 0]);
    assert_eq!(Series::of(&trace).served_ms, [5.0, 42.0]);
}

#[test]
fn unseen_arrivals_give_no_wave_but_a_series_of_successes() {
    let trace = LoadTrace {
        contenders: 3,
        attempts: vec![attempt(1, 0, 5, RequestOutcome::Ok), attempt(1, 0, 6, RequestOutcome::Ok)],
        served: vec![ms(520), ms(7), ms(49)],
        has_unseen_arrivals: true,
        ..LoadTrace::default()
    };
    let (found, series) = (ArmFigures::of(&trace), Series::of(&trace));
    assert_eq!((found.wave, found.retry_wave, series.arrivals), (None, None, Vec::new()));
    assert_eq!(series.served, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let seen = LoadTrace { has_unseen_arrivals: false, ..trace };
    assert_eq!((ArmFigures::of(&seen).wave, Series::of(&seen).arrivals), (Some(1.0), vec![2]));
}

#[test]
fn an_empty_trace_has_no_figures() {
    let found = ArmFigures::of(&LoadTrace::default());
    assert_eq!((found.request_ms, found.served_ms, found.wave, found.spread), (None, None, None, None));
    assert_eq!(Series::of(&LoadTrace::default()), Series::default());
}

#[test]
fn a_thinned_curve_keeps_its_ends() {
    let all = thinned((0..10_000).map(ms));
    assert_eq!((all.len(), all[0], all[all.len() - 1]), (400, 0.0, 9_999.0));
    assert!(all.is_sorted());
}
