//! The results of the lab.

mod columns;

use serde::Serialize;

use super::figures::{ArmFigures, Series};
use super::plan::{LabArm, LabScenario, LabSize};
pub use columns::TextTable;
pub(super) use columns::{COLUMNS, Column};

#[derive(Debug, Clone, Serialize)]
pub struct LabReport {
    pub seed: u64,
    pub size: LabSize,
    pub limit_ms: u64,
    /// The kind of the server's backend, such as `embedded`.
    pub backend: Option<String>,
    pub elapsed_ms: u64,
    pub scenarios: Vec<ScenarioReport>,
    /// Why the lab is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the cleanup could not delete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl LabReport {
    /// Whether every step of the runbook passed.
    pub fn is_as_expected(&self) -> bool {
        let arms = self.scenarios.iter().flat_map(|scenario| &scenario.arms);
        arms.flat_map(|arm| &arm.steps).all(|step| step.ok)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct ScenarioReport {
    pub scenario: LabScenario,
    pub sentence: &'static str,
    pub arms: Vec<ArmReport>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    #[serde(flatten)]
    pub arm: LabArm,
    /// The tenant that owned its runs and locks; null if it was not measured.
    pub tenant: Option<String>,
    /// Null if it was not measured, or is a runbook.
    pub figures: Option<ArmFigures>,
    pub series: Series,
    /// The steps of a runbook.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepReport>,
    pub notes: Vec<String>,
}

impl ArmReport {
    /// The report of an arm before its measurement.
    pub(super) fn new(arm: &LabArm) -> Self {
        Self {
            arm: arm.clone(),
            tenant: None,
            figures: None,
            series: Series::default(),
            steps: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// One step of a runbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// From 1.
    pub number: usize,
    pub action: &'static str,
    pub expected: &'static str,
    pub seen: String,
    pub ok: bool,
}
