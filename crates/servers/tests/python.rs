//! Workers and clients in Python are run as they are.

use std::process::Command;

use interlock_servers::python;

#[test]
fn the_interpreter_has_the_sdk_of_the_protocol() {
    let imported = Command::new(python().unwrap()).args(["-c", "import cap, nats, redis"]).status().unwrap();
    assert!(imported.success());
}
