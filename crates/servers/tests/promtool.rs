//! What is written for Prometheus is checked by its own tool.

use std::process::Command;

use interlock_servers::promtool;

#[test]
fn the_tool_of_prometheus_is_there_and_runs() {
    let told = Command::new(promtool().unwrap()).arg("--version").output().unwrap();
    assert!(told.status.success(), "{told:?}");
}
