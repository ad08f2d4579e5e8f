//! The benchmark on Redis measures what it says it does. Its figures are for another build and a quiet machine.

use std::process::Command;

use serde_json::Value;

#[test]
fn starts_and_their_ceiling_are_measured_on_redis() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_interlock-bench"));
    bench.args(["--redis", "--seconds", "0.2", "--rounds", "1", "--json"]);
    bench.args(["--runs-many", "2000", "--keys-many", "2000"]);
    let output = bench.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = |name: &str| {
        let measured =
            report["measured"].as_array().unwrap().iter().find(|measured| measured["name"] == name);
        measured.unwrap_or_else(|| panic!("{name} was not measured: {report}"))["per_second"]
            .as_f64()
            .unwrap()
    };
    for name in ["bare script", "admitted starts", "refused starts", "bare script, 1 client"] {
        assert!(rate(name) > 0.0, "{name}: {report}");
    }
}
