//! The commands of the page about many machines.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Machines;
use crate::server::BINARY;

#[tokio::test]
async fn the_command_of_the_page_about_many_machines_starts_a_server() {
    let machines = Machines::start(0).await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/many-machines.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let command = block
        .replace("redis://:password@redis:6379", &machines.redis.url())
        .replace("nats://user:password@nats:4222", &machines.nats.url())
        .replace("0.0.0.0:8081", "127.0.0.1:0");
    assert!(command.contains(&machines.redis.url()) && command.contains(&machines.nats.url()), "{command}");
    let folder = Path::new(BINARY).parent().unwrap().display();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("PATH={folder}:$PATH; exec {}", command.trim_start())]);
    let mut child = shell.env("KEY", "a-first-key-for-the-admin").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.contains("interlock is ready on http://"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.is_some(), "the server did not start");
}
