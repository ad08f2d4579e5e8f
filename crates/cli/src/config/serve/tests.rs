use std::io::Write;

use clap::{Args as _, Command, FromArgMatches as _};

use super::*;
use crate::config::tests::environment;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn flags(arguments: &[&str]) -> ServeFlags {
    let command = ServeFlags::augment_args(Command::new("serve").no_binary_name(true));
    ServeFlags::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap()
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let file = file("poll_ms = 1\njob_lease_ms = 2\nrun_lease_ms = 300\nlisten = \"127.0.0.1:1\"\n");
    let path = file.path().to_str().unwrap();
    let found = environment(&[("INTERLOCK_POLL_MS", "10"), ("INTERLOCK_JOB_LEASE_MS", "20")]);
    let config = ServeConfig::resolve(flags(&["--poll-ms", "100", "--config", path]), &found).unwrap();
    assert_eq!(config.poll, Some(Duration::from_millis(100)));
    assert_eq!(config.job_lease, Some(Duration::from_millis(20)));
    assert_eq!(config.run_lease, Some(Duration::from_millis(300)));
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.body_timeout, None);
    assert_eq!(config.log_format, LogFormat::Text);
}

#[test]
fn the_file_may_be_named_by_the_environment() {
    let file = file("roles = [\"engine\", \"scheduler\"]\nlog_format = \"json\"\nadmin_key = \"k\"\n");
    let found = environment(&[("INTERLOCK_CONFIG", file.path().to_str().unwrap())]);
    let config = ServeConfig::resolve(ServeFlags::default(), &found).unwrap();
    assert_eq!(config.roles, BTreeSet::from([Role::Engine, Role::Scheduler]));
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.admin_key, Some(Secret("k".to_owned())));
}

#[test]
fn every_role_is_on_by_default_and_a_list_has_commas() {
    assert_eq!(ServeFlags::default().with_defaults().unwrap().roles.len(), 3);
    let found = environment(&[("INTERLOCK_ROLES", "gateway,engine")]);
    let config = ServeConfig::resolve(ServeFlags::default(), &found).unwrap();
    assert_eq!(config.roles, BTreeSet::from([Role::Gateway, Role::Engine]));
}

#[test]
fn an_unknown_key_of_the_file_is_refused_by_name_and_place() {
    for text in ["# one\n\npol_ms = 5\n", "# one\n\nconfig = \"other.toml\"\n"] {
        let file = file(text);
        let path = file.path().to_str().unwrap();
        let error = ServeConfig::resolve(flags(&["--config", path]), &environment(&[])).unwrap_err();
        assert_eq!(error.exit().code(), 2);
        let sentence = error.to_string();
        assert!(sentence.contains(path) && sentence.contains("line 3: unknown field"), "{sentence}");
    }
}

#[test]
fn a_variable_that_does_not_fit_is_named_without_its_value() {
    let found = environment(&[("INTERLOCK_POLL_MS", "often")]);
    let sentence = ServeConfig::resolve(ServeFlags::default(), &found).unwrap_err().to_string();
    assert_eq!(sentence, "the variable INTERLOCK_POLL_MS does not hold a valid --poll-ms");
}

#[test]
fn a_secret_does_not_show_in_debug_output() {
    assert!(!format!("{:?}", flags(&["--admin-key", "hunter2"])).contains("hunter2"));
}

#[test]
fn a_time_of_zero_is_refused_wherever_it_stands() {
    assert!(ServeFlags::of_file("poll_ms = 0").is_err());
    assert!(ServeFlags::of_environment(&environment(&[("INTERLOCK_POLL_MS", "0")])).is_err());
    assert!(ServeFlags::of_file("shutdown_grace_ms = 0").is_ok());
}

#[test]
fn what_is_chosen_about_locks_comes_from_every_layer() {
    let file = file("lock_line_max = 1\nlocks_per_tenant_max = 2\nlock_silence_ms = 3\nsnapshot_ms = 4\n");
    let path = file.path().to_str().unwrap();
    let found = environment(&[("INTERLOCK_LOCK_SILENCE_MS", "30"), ("INTERLOCK_LOCK_POLL_MS", "40")]);
    let given = flags(&["--lock-line-max", "10", "--reconcile-ms", "50", "--config", path]);
    let locks = ServeConfig::resolve(given, &found).unwrap().locks;
    assert_eq!((locks.line_max, locks.held_max), (NonZeroU32::new(10), NonZeroU32::new(2)));
    assert_eq!(locks.waiting_max, None);
    let times = [locks.silence, locks.poll, locks.reconcile_every, locks.snapshot_every];
    assert_eq!(times, [30, 40, 50, 4].map(|time| Some(Duration::from_millis(time))));
    assert!(ServeFlags::of_file("lock_line_max = 0").is_err());
}

#[test]
fn strategies_and_their_tunings_come_from_the_same_three_places() {
    let file = file("admission_strategy = \"lock\"\nlock_busy_retry = \"bounded_jitter:500ms:30%\"\n");
    let given = flags(&[
        "--run-strategy",
        "lock",
        "--admission-max-wait-ms",
        "250",
        "--config",
        file.path().to_str().unwrap(),
    ]);
    let found = environment(&[("INTERLOCK_ADMISSION_RETRY", "full_jitter:10ms:1s")]);
    let chosen = ServeConfig::resolve(given, &found).unwrap().contention;
    assert_eq!(
        (chosen.admission_strategy, chosen.run_strategy),
        (AdmissionStrategy::Lock, RunStrategy::Lock)
    );
    assert_eq!(chosen.admission.policy.to_string(), "full_jitter:10ms:1000ms");
    assert_eq!((chosen.admission.max_wait_ms, chosen.admission.lock_ttl_ms), (250, 10_000));
    assert_eq!(chosen.lock_busy.policy.to_string(), "bounded_jitter:500ms:30%");
    assert!(ServeConfig::resolve(flags(&["--admission-lock-ttl-ms", "1"]), &environment(&[])).is_err());
}

#[test]
fn a_run_may_be_told_not_to_wait_for_more_results() {
    let choices = |arguments: &[&str]| {
        ServeConfig::resolve(flags(arguments), &environment(&[])).unwrap().contention.gather_max
    };
    assert_eq!(choices(&["--gather-max-ms", "0"]), Some(Duration::ZERO));
    assert_eq!(choices(&[]), None);
}

#[test]
fn traces_go_where_a_flag_says_or_else_where_the_standard_does() {
    let standard = environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard")]);
    let both = environment(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard"),
        ("INTERLOCK_OTLP_ENDPOINT", "http://ours"),
        ("INTERLOCK_OTLP_SAMPLE_RATIO", "0.25"),
    ]);
    let traces = |found: &Environment| ServeConfig::resolve(ServeFlags::default(), found).unwrap().traces;
    let choices = |endpoint: &str, ratio: f64| {
        Some(TraceChoices { endpoint: endpoint.to_owned(), ratio: ratio.try_into().unwrap() })
    };
    assert_eq!(traces(&environment(&[])), None);
    assert_eq!(traces(&standard), choices("http://standard", 1.0));
    assert_eq!(traces(&both), choices("http://ours", 0.25));
    let file = file("otlp_endpoint = \"http://file\"\notlp_sample_ratio = 0.5\n");
    let named = flags(&["--config", file.path().to_str().unwrap()]);
    assert_eq!(ServeConfig::resolve(named, &standard).unwrap().traces, choices("http://standard", 0.5));
    let wrong = environment(&[("INTERLOCK_OTLP_SAMPLE_RATIO", "2")]);
    assert_eq!(ServeConfig::resolve(ServeFlags::default(), &wrong).unwrap_err().exit().code(), 2);
}
