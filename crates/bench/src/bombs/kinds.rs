//! Small inputs that would cost much, and many inputs that would each leave something behind.

use std::sync::LazyLock;

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use super::text;
use crate::connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bomb {
    /// Schemas with exponentially many ways through them.
    Schemas,
    /// Runs that would render gigabytes.
    Renders,
    /// Outputs of a thousand levels, and outputs that a schema makes expensive.
    DeepOutputs,
    /// Reports of progress as fast as they are taken.
    Progress,
    /// More and more API keys.
    Keys,
    /// More and more tenants, by a key that may name any.
    Tenants,
    /// Workflows, topics and workers with long names, each new: what labels of metrics are made of.
    LongNames,
}

impl Bomb {
    pub(super) const ALL: [Self; 7] = [
        Self::Schemas,
        Self::Renders,
        Self::DeepOutputs,
        Self::Progress,
        Self::Keys,
        Self::Tenants,
        Self::LongNames,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Schemas => "schemas",
            Self::Renders => "renders",
            Self::DeepOutputs => "deep outputs",
            Self::Progress => "progress",
            Self::Keys => "keys",
            Self::Tenants => "tenants",
            Self::LongNames => "long names",
        }
    }

    /// What is posted where.
    pub(super) fn requests(self, number: usize) -> Vec<(String, Bytes)> {
        let workflows = "/api/v1/workflows".to_owned();
        let runs = |workflow: &str| format!("/api/v1/workflows/{workflow}/runs");
        match self {
            Self::Schemas => vec![(workflows, SCHEMA_BOMB.clone()), (runs("input"), NESTED.clone())],
            Self::Renders => vec![(runs(RENDERS[number % RENDERS.len()]), LARGE_INPUT.clone())],
            Self::Keys => {
                let key = json!({"name": format!("key {number}"), "role": "viewer", "tenant": "bomber"});
                vec![("/api/v1/keys".to_owned(), text(&key))]
            }
            Self::Tenants => vec![
                (workflows, text(&workflow("job", &steps(&json!({})), &json!(true)))),
                (runs("job"), Bytes::from_static(b"{}")),
            ],
            Self::LongNames => {
                let long = format!("{number:06}-{}", "x".repeat(50));
                let document = workflow(&long, &steps(&json!({"topic": long})), &json!(true));
                let claim = json!({"topics": [long], "max_jobs": 1, "wait_ms": 0, "lease_ms": 1_000});
                vec![
                    (workflows, text(&document)),
                    (runs(&long), Bytes::from_static(b"{}")),
                    (format!("/api/v1/workers/{long}/claim"), text(&claim)),
                ]
            }
            Self::DeepOutputs | Self::Progress => Vec::new(),
        }
    }

    /// The workflow that it is thrown at, and the output as text.
    pub(super) fn deep_output(number: usize) -> (&'static str, &'static [u8]) {
        match number % 3 {
            0 => ("output", &NESTED),
            1 => ("deep", WIDE_OUTPUT.as_bytes()),
            _ => ("deep", DEEP_OUTPUT.as_bytes()),
        }
    }
}

// Made once: the thrower shares the machine with the server, and it is the server that is measured.
static SCHEMA_BOMB: LazyLock<Bytes> =
    LazyLock::new(|| text(&workflow("bomb", &steps(&json!({})), &schema_bomb())));
static NESTED: LazyLock<Bytes> = LazyLock::new(|| text(&nested(40)));
static LARGE_INPUT: LazyLock<Bytes> = LazyLock::new(large_input);
static WIDE_OUTPUT: LazyLock<String> =
    LazyLock::new(|| format!("{}{}1{}", "[".repeat(100), "1,".repeat(200_000), "]".repeat(100)));
static DEEP_OUTPUT: LazyLock<String> = LazyLock::new(|| "[".repeat(100_000));

const RENDERS: [&str; 3] = ["items", "later", "steps"];

/// The workflows that bombs are thrown at.
pub(super) async fn prepare(connection: &mut Connection) -> Result<()> {
    let each = steps(&json!({"for_each": "input.items", "input": {"big": "${input.big}"}}));
    let mut later = each.clone();
    later["wait"] = json!({"type": "delay", "delay_sec": 0.1});
    later["work"]["depends_on"] = json!(["wait"]);
    let step = |at| (format!("s{at}"), steps(&json!({"input": {"big": "${input.big}"}}))["work"].clone());
    let many: Value = (0..1_000).map(step).collect::<Map<_, _>>().into();
    for (id, steps, input_schema) in [
        ("input", steps(&json!({})), recursive_schema_bomb()),
        ("output", steps(&json!({"topic": "output", "output_schema": recursive_schema_bomb()})), json!(true)),
        ("deep", steps(&json!({"topic": "deep"})), json!(true)),
        ("progress", steps(&json!({"topic": "progress"})), json!(true)),
        ("items", each, json!(true)),
        ("later", later, json!(true)),
        ("steps", many, json!(true)),
    ] {
        let document = workflow(id, &steps, &input_schema);
        connection.call(Method::POST, "/api/v1/workflows", &document).await?;
    }
    Ok(())
}

fn workflow(id: &str, steps: &Value, input_schema: &Value) -> Value {
    json!({"id": id, "name": "bomb", "steps": steps, "input_schema": input_schema})
}

/// One step with a worker.
fn steps(more: &Value) -> Value {
    let mut step = json!({"type": "worker", "topic": "work"});
    for (field, value) in more.as_object().into_iter().flatten() {
        step[field] = value.clone();
    }
    json!({"work": step})
}

/// Each level has the next one twice: 2^25 ways lead to the last.
fn schema_bomb() -> Value {
    let next = |level: u32| json!({"$ref": format!("#/$defs/p{}", level + 1)});
    let level = |at| (format!("p{at}"), json!({"anyOf": [next(at), next(at)]}));
    let mut parts: Map<_, _> = (0..25).map(level).collect();
    parts.insert("p25".to_owned(), json!({"type": "integer"}));
    json!({"$defs": parts, "$ref": "#/$defs/p0"})
}

/// Each level of the value doubles the ways.
fn recursive_schema_bomb() -> Value {
    json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "n": {"type": "integer"}}})
}

fn nested(levels: u32) -> Value {
    (0..levels).fold(json!({"n": "x"}), |inner, _| json!({"next": inner}))
}

/// A large value, and many items that each get it.
fn large_input() -> Bytes {
    text(&json!({"big": "x".repeat(1 << 20), "items": (0..9_000).collect::<Vec<u32>>()}))
}
