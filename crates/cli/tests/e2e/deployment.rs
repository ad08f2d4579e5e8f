//! The files in `deploy/` pass the checkers of their kinds and use flags and variables that the binary has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use interlock_servers::{Nats, NatsOptions, Redis, RedisOptions, python, python_program};
use serde_json::Value;

use super::server::{BINARY, Server};
use super::walk_through::{read, root};

const KUBERNETES: &str = "deploy/kubernetes";
const COMPOSE: &str = "deploy/compose/compose.yaml";
const DOCKERFILE: &str = "deploy/docker/Dockerfile";
const UNIT: &str = "deploy/systemd/interlock.service";
const PAGE: &str = "docs/operating/deploying.md";

/// Variables of every command, which are no settings of `serve`.
const OF_EVERY_COMMAND: [&str; 3] = ["INTERLOCK_API_KEY", "INTERLOCK_GATEWAY", "INTERLOCK_TENANT_ID"];

/// A checker, and its arguments before the name of the file.
const CHECKERS: [(&str, &[&str]); 3] = [
    ("kubernetes-validate", &["--strict"]),
    ("check-jsonschema", &["--builtin-schema", "vendor.compose-spec"]),
    ("hadolint", &[]),
];

fn check(kind: usize, file: &Path) -> Output {
    let (program, arguments) = CHECKERS[kind];
    Command::new(python_program(program).unwrap()).args(arguments).arg(file).output().unwrap()
}

/// All files of `deploy/`.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join("deploy")];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The files to check, each with the number of its checker.
fn checked() -> Vec<(usize, PathBuf)> {
    let manifests = root().join(KUBERNETES).read_dir().unwrap().map(|entry| (0, entry.unwrap().path()));
    manifests.chain([(1, root().join(COMPOSE)), (2, root().join(DOCKERFILE))]).collect()
}

/// The documents of a file in YAML.
fn documents(file: &Path) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))))";
    let output = Command::new(python().unwrap()).args(["-c", script]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one manifest of this kind.
fn manifest(kind: &str) -> Value {
    let files = root().join(KUBERNETES).read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.flat_map(|file| documents(&file)).filter(|document| document["kind"] == kind);
    found.next().unwrap_or_else(|| panic!("no {kind}"))
}

/// The flags of `serve`: those that its help shows, and those of the file that it prints.
fn serve_flags() -> BTreeSet<String> {
    let print = |flag: &str| {
        let output = Command::new(BINARY).args(["serve", flag]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let settings = print("--print-config");
    let keys = settings.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    let shown = words(&print("--help"), "--", |character| character.is_ascii_lowercase() || character == '-');
    keys.map(|(key, _)| format!("--{}", key.replace('_', "-"))).chain(shown).collect()
}

/// The words of `text` that begin with `prefix` and continue with `more`.
fn words(text: &str, prefix: &str, more: fn(char) -> bool) -> BTreeSet<String> {
    let found = text.match_indices(prefix).map(|(begin, _)| {
        let end = text[begin + prefix.len()..].find(|character| !more(character));
        text[begin..end.map_or(text.len(), |end| begin + prefix.len() + end)].to_owned()
    });
    found.collect()
}

#[test]
fn every_file_passes_the_checker_of_its_kind() {
    let checked = checked();
    assert!(checked.len() >= 6, "{checked:?}");
    for (kind, file) in checked {
        let output = check(kind, &file);
        assert!(output.status.success(), "{}: {output:?}", file.display());
    }
}

#[test]
fn the_checkers_find_planted_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = format!("{KUBERNETES}/deployment.yaml");
    let planted = [
        (0, deployment.as_str(), "  replicas: 3", "  replica: 3"),
        (1, COMPOSE, "    depends_on:", "    depends:"),
        (2, DOCKERFILE, "USER 10001:10001", "RUN cd /tmp"),
    ];
    for (kind, file, right, wrong) in planted {
        let text = read(file);
        assert!(text.contains(right), "{file}");
        let broken = folder.path().join(Path::new(file).file_name().unwrap());
        std::fs::write(&broken, text.replace(right, wrong)).unwrap();
        assert!(!check(kind, &broken).status.success(), "{wrong} in {file} is not found");
    }
}

/// Verifies the unit with the binary under test in place of the installed one.
fn verify_unit(text: &str) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("interlock.service");
    std::fs::write(&file, text.replace("/usr/bin/interlock", BINARY)).unwrap();
    // Not every machine has systemd.
    Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(file).output().ok()
}

#[test]
fn systemd_accepts_the_unit() {
    let unit = read(UNIT);
    for (text, is_right) in [(unit.clone(), true), (unit.replace("RestartSec", "RestartSecs"), false)] {
        if let Some(output) = verify_unit(&text) {
            assert_eq!(output.status.success() && output.stderr.is_empty(), is_right, "{output:?}");
        }
    }
    for line in ["DynamicUser=yes", "ProtectSystem=strict", "StateDirectory=interlock", "Restart=always"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn every_variable_and_flag_in_them_is_one_of_the_server() {
    let flags = serve_flags();
    let mut seen = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let variables =
            words(&text, "INTERLOCK_", |character| character.is_ascii_uppercase() || character == '_');
        for variable in variables.iter().filter(|variable| !OF_EVERY_COMMAND.contains(&variable.as_str())) {
            let flag = variable.trim_start_matches("INTERLOCK_").to_lowercase().replace('_', "-");
            assert!(flags.contains(&format!("--{flag}")), "{variable} in {}", file.display());
            seen += 1;
        }
        for line in text.lines().filter_map(|line| line.split_once("interlock serve").map(|(_, rest)| rest)) {
            for flag in words(line, "--", |character| character.is_ascii_lowercase() || character == '-') {
                assert!(flags.contains(&flag), "{flag} in {}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn the_manifests_agree_with_each_other() {
    let (deployment, service, budget) =
        (manifest("Deployment"), manifest("Service"), manifest("PodDisruptionBudget"));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(budget["spec"]["minAvailable"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    let pause: u64 =
        container["lifecycle"]["preStop"]["exec"]["command"][1].as_str().unwrap().parse().unwrap();
    let grace = manifest("ConfigMap")["data"]["INTERLOCK_SHUTDOWN_GRACE_MS"].as_str().unwrap().parse::<u64>();
    let term = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(term > pause + grace.unwrap() / 1_000, "a shutdown would be cut short");
}

#[test]
fn the_compose_file_has_three_replicas_and_a_durable_redis() {
    let compose = documents(&root().join(COMPOSE)).remove(0);
    let services = &compose["services"];
    assert_eq!(services["interlock"]["deploy"]["replicas"], 3);
    let command = |service: &str| -> Vec<String> {
        serde_json::from_value(services[service]["command"].clone()).unwrap()
    };
    let redis = command("redis").join(" ");
    assert!(redis.contains("--appendonly yes") && redis.contains("--maxmemory-policy noeviction"), "{redis}");
    assert!(command("nats").contains(&"--jetstream".to_owned()));
}

/// The environment of the manifests, with the addresses of this test and a free port.
fn variables_of_the_manifests(redis: &Redis, nats: &Nats) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> =
        serde_json::from_value(manifest("ConfigMap")["data"].clone()).unwrap();
    assert_eq!(variables["INTERLOCK_LISTEN"], "0.0.0.0:8081");
    variables.insert("INTERLOCK_LISTEN".to_owned(), "0.0.0.0:0".to_owned());
    // A comment shows the command that creates the secret.
    let text = read(&format!("{KUBERNETES}/config.yaml"));
    for (name, value) in [
        ("INTERLOCK_REDIS", redis.url()),
        ("INTERLOCK_NATS", nats.url()),
        ("INTERLOCK_ADMIN_KEY", "a-long-admin-key-of-a-test".to_owned()),
    ] {
        assert!(text.contains(&format!("--from-literal={name}=")), "{name}");
        variables.insert(name.to_owned(), value);
    }
    variables
}

#[tokio::test]
async fn a_replica_with_the_settings_of_the_manifests_answers_its_probes_and_stops() {
    let redis = Redis::start(RedisOptions::default()).await.unwrap();
    let nats = Nats::start(NatsOptions::default()).await.unwrap();
    let container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
    let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    let mut command = Command::new(BINARY);
    command.args(arguments).envs(variables_of_the_manifests(&redis, &nats));
    let server = Server::of(command);
    for probe in ["readinessProbe", "livenessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        let answer =
            reqwest::get(format!("{}{path}", server.base.replace("0.0.0.0", "127.0.0.1"))).await.unwrap();
        assert_eq!(answer.status(), 200, "{probe}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn the_health_check_of_the_image_fails_when_the_server_does_not_answer() {
    let text = read(DOCKERFILE);
    let (_, check) = text.split_once("CMD [\"sh\", \"-c\", \"").unwrap();
    let (check, _) = check.split_once("\"]").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--admin-key", "a-long-admin-key-of-a-test"]);
    let script = format!("PATH=\"{}:$PATH\"; {check}", Path::new(BINARY).parent().unwrap().display());
    let healthy = |gateway: &str| {
        let run = Command::new("sh").args(["-c", &script]).env("INTERLOCK_GATEWAY", gateway).status();
        run.unwrap().success()
    };
    // The check has no key; a refusal counts as an answer.
    assert!(healthy(&server.base));
    let base = server.base.clone();
    server.kill();
    assert!(!healthy(&base));
}

#[test]
fn the_page_names_every_folder_of_deploy() {
    let page = read(PAGE);
    for file in files() {
        let folder = file.parent().unwrap().strip_prefix(root()).unwrap().display().to_string();
        assert!(page.contains(&folder), "{folder} is not on the page");
    }
}
