use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _};
use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use interlock_model::scheduling::Pools;

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

/// What these arguments, variables and this file give.
fn resolve(arguments: &[&str], variables: &[(&str, &str)], text: &str) -> Result<ServeConfig> {
    let file = file(text);
    let arguments = [arguments, &["--config", file.path().to_str().unwrap()]].concat();
    ServeConfig::resolve(&flags(&arguments), &environment(variables))
}

fn refusal(arguments: &[&str], variables: &[(&str, &str)], text: &str) -> String {
    let error = resolve(arguments, variables, text).unwrap_err();
    assert_eq!(error.exit().code(), 2);
    error.to_string()
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[test]
fn flags_override_the_environment_and_the_environment_overrides_the_file() {
    let variables = [("INTERLOCK_POLL_MS", "10"), ("INTERLOCK_JOB_LEASE_MS", "20")];
    let text = "poll_ms = 1\njob_lease_ms = 2\nrun_lease_ms = 300\nlisten = \"127.0.0.1:1\"\n";
    let config = resolve(&["--poll-ms", "100"], &variables, text).unwrap();
    let times = [config.poll_ms.0, config.job_lease_ms.0, config.run_lease_ms.0, config.body_timeout_ms.0];
    assert_eq!(times, [100, 20, 300, 30_000].map(milliseconds));
    assert_eq!((config.listen.port(), config.listen_is_given), (1, true));
    assert!(!resolve(&[], &[], "").unwrap().listen_is_given);
}

#[test]
fn the_environment_may_name_the_file() {
    let file = file(
        "roles = [\"engine\", \"scheduler\"]\nlog_format = \"json\"\nadmin_key = \"an-admin-key-of-the-tests\"\n",
    );
    let found = environment(&[("INTERLOCK_CONFIG", file.path().to_str().unwrap())]);
    let config = ServeConfig::resolve(&ServeFlags::default(), &found).unwrap();
    assert_eq!(config.roles, BTreeSet::from([ServeRole::Engine, ServeRole::Scheduler]));
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.admin_key, Some(Secret("an-admin-key-of-the-tests".to_owned())));
}

#[test]
fn every_setting_is_a_flag_a_variable_and_a_key_and_all_refuse_the_same_values() {
    for setting in SETTINGS {
        let value = match setting.key {
            "metrics_listen" => "127.0.0.1:5",
            _ if setting.default.is_empty() => "5",
            _ => setting.default,
        };
        let flag = format!("--{}={value}", setting.flag());
        let config =
            resolve(&[&flag], &[(&setting.variable(), value)], &format!("{} = {value:?}", setting.key));
        match setting.key {
            "redis" | "nats" => assert!(config.unwrap_err().to_string().contains("both or neither")),
            "admin_key" => assert!(config.unwrap_err().to_string().contains("at least 24 characters")),
            key => assert!(config.is_ok(), "{key}: {config:?}"),
        }
    }
    let expected = "expected whole milliseconds, at least 1";
    assert_eq!(refusal(&["--poll-ms", "0"], &[], ""), format!("--poll-ms: {expected}"));
    assert_eq!(refusal(&[], &[("INTERLOCK_POLL_MS", "often")], ""), format!("INTERLOCK_POLL_MS: {expected}"));
    let sentence = refusal(&[], &[], "\n\npoll_ms = -1");
    assert!(sentence.ends_with(&format!("line 3: poll_ms: {expected}")), "{sentence}");
    assert!(resolve(&["--shutdown-grace-ms", "0"], &[], "gather_max_ms = 0").is_ok());
    assert!(refusal(&["--roles", "gateway,cook"], &[], "").ends_with("gateway, engine, scheduler"));
}

#[test]
fn an_unknown_key_of_the_file_is_named_with_its_line_and_the_nearest_key() {
    for (text, end) in [
        ("# one\n\nlisen = \"x\"\n", "line 3: unknown key `lisen`; did you mean `listen`?"),
        ("poll-ms = 5", "line 1: unknown key `poll-ms`; did you mean `poll_ms`?"),
        ("pool = 5", "line 1: unknown key `pool`; did you mean `pools`?"),
        ("\nconfig = \"x\"", "line 2: unknown key `config`; `interlock serve --print-config` lists all keys"),
    ] {
        let sentence = refusal(&[], &[], text);
        assert!(sentence.ends_with(end), "{sentence}");
    }
    for (text, end) in [
        ("\nlisten", "line 2: "),
        ("[pools.large]\ntopics = [\"a\"]\nsize = 5", "line 3: unknown field `size`"),
        ("[[dispatch_policy.rules]]\nname = 5", "line 2: "),
    ] {
        let sentence = refusal(&[], &[], text);
        assert!(sentence.contains(end), "{sentence}");
    }
}

#[test]
fn the_printed_file_lists_every_key_and_parses_back_to_the_defaults() {
    let (template, defaults) = (ServeConfig::template(), format!("{:?}", ServeConfig::default()));
    assert_eq!(format!("{:?}", resolve(&[], &[], &template).unwrap()), defaults);

    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let keys: Vec<&str> = template.lines().filter(is_key).map(|line| &line[1..]).collect();
    let listed: Vec<&str> = keys.iter().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert_eq!(listed, SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>());
    let mut config = resolve(&[], &[], &keys.join("\n")).unwrap();
    config.listen_is_given = false;
    assert_eq!(format!("{config:?}"), defaults);

    let (_, example) = template.split_once("only in this file ====").unwrap();
    let is_toml = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let example: Vec<&str> =
        example.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_toml).collect();
    let config = resolve(&[], &[], &example.join("\n")).unwrap();
    assert!(config.pools != Pools::default() && config.dispatch_policy.service.is_none());
}

#[test]
fn the_documentation_has_the_file_as_it_is_printed() {
    assert_eq!(
        crate::output::tests::documented("operating/serving.md", "settings"),
        format!("```toml\n{}```\n", ServeConfig::template()),
        "put what `interlock serve --print-config` prints between the marks in docs/operating/serving.md"
    );
}

#[test]
fn a_secret_does_not_show_in_debug_output() {
    let flags = flags(&["--admin-key", "hunter2-hunter2-hunter2-hunter2"]);
    assert!(!format!("{flags:?}").contains("hunter2"));
    let config = ServeConfig::resolve(&flags, &environment(&[])).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn an_admin_key_that_can_be_guessed_is_refused_without_showing_it() {
    let refused = refusal(&["--admin-key", "hunter2-hunter2-hunter2"], &[], "");
    assert!(refused.contains("at least 24 characters") && !refused.contains("hunter2"), "{refused}");
    assert!(refusal(&["--admin-key", &" ".repeat(30)], &[], "").contains("at least 24 characters"));
}

#[test]
fn numbers_may_have_underscores_and_lists_may_be_texts() {
    let config = resolve(&[], &[], "lock_line_max = 10_000\nroles = \"gateway, engine\"").unwrap();
    assert_eq!(Some(config.lock_line_max), NonZeroU32::new(10_000));
    assert_eq!(config.roles, BTreeSet::from([ServeRole::Gateway, ServeRole::Engine]));
}

#[test]
fn tunings_are_checked_as_a_whole() {
    let text = "admission_strategy = \"lock\"\nlock_busy_retry = \"bounded_jitter:500ms:30%\"\n";
    let variables = [("INTERLOCK_ADMISSION_RETRY", "full_jitter:10ms:1s")];
    let arguments = ["--run-strategy", "lock", "--admission-max-wait-ms", "250"];
    let config = resolve(&arguments, &variables, text).unwrap();
    let strategies = (config.admission_strategy, config.run_strategy);
    assert_eq!(strategies, (AdmissionStrategy::Lock, RunStrategy::Lock));
    let admission = config.admission_tuning();
    assert_eq!(admission.policy.to_string(), "full_jitter:10ms:1000ms");
    assert_eq!((admission.max_wait_ms, admission.lock_ttl_ms), (250, 10_000));
    assert_eq!(config.lock_busy_tuning().policy.to_string(), "bounded_jitter:500ms:30%");
    assert!(refusal(&["--admission-lock-ttl-ms", "1"], &[], "").contains("admission_lock_ttl_ms: "));
}

#[test]
fn traces_go_where_a_flag_says_or_else_where_the_standard_variable_does() {
    let standard = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard");
    let endpoint =
        |variables: &[(&str, &str)], text: &str| resolve(&[], variables, text).unwrap().otlp_endpoint;
    assert_eq!(endpoint(&[], ""), None);
    assert_eq!(endpoint(&[standard], "otlp_endpoint = \"http://file\"").as_deref(), Some("http://standard"));
    let both = [standard, ("INTERLOCK_OTLP_ENDPOINT", "http://ours")];
    assert_eq!(endpoint(&both, "otlp_sample_ratio = 0.5").as_deref(), Some("http://ours"));
    assert!(refusal(&[], &[("INTERLOCK_OTLP_SAMPLE_RATIO", "2")], "").ends_with("from 0 to 1"));
}
