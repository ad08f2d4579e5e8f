//! Programs that `cargo xtask test` installs.

use std::process::Command;

use interlock_servers::{promtool, python};

#[test]
fn promtool_runs() {
    let output = Command::new(promtool().unwrap()).arg("--version").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_python_interpreter_has_the_sdk_of_the_protocol() {
    let imported = Command::new(python().unwrap()).args(["-c", "import cap, nats, redis"]).status().unwrap();
    assert!(imported.success());
}
