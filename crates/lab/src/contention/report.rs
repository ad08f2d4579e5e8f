//! Everything that was found, as it is printed and written.

mod columns;

use serde::Serialize;

use super::figures::{Figures, Series};
use super::plan::{Arm, Scenario, Size, Work};
pub use columns::{COLUMNS, Column, Table};

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// With the same seed, clients come and wait the same.
    pub seed: u64,
    pub size: Size,
    pub limit_ms: u64,
    /// The server's, such as `embedded`.
    pub backend: Option<String>,
    pub elapsed_ms: u64,
    pub scenarios: Vec<ScenarioReport>,
    /// What kept the lab from coming to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What could not be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl Report {
    /// Whether every step of every runbook was as it must be.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.steps().all(|step| step.ok)
    }

    fn steps(&self) -> impl Iterator<Item = &StepReport> {
        self.scenarios.iter().flat_map(|scenario| &scenario.arms).flat_map(|arm| &arm.steps)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct ScenarioReport {
    pub scenario: Scenario,
    pub sentence: &'static str,
    pub arms: Vec<ArmReport>,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    pub name: String,
    /// What its server was started with beside the defaults.
    pub server: Vec<String>,
    /// What arms of one server have in common, for people.
    pub serving: String,
    pub work: Work,
    pub seed: u64,
    /// Whose runs and locks they were; null if it was not measured.
    pub tenant: Option<String>,
    /// Null if it was not measured.
    pub figures: Option<Figures>,
    pub series: Series,
    /// Of a runbook.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepReport>,
    pub notes: Vec<String>,
}

impl ArmReport {
    /// Of an arm that has seen nothing yet.
    #[must_use]
    pub fn new(arm: &Arm) -> Self {
        Self {
            name: arm.name(),
            server: arm.serving.flags.clone(),
            serving: arm.serving.name.clone(),
            work: arm.work.clone(),
            seed: arm.seed.number(),
            tenant: None,
            figures: None,
            series: Series::default(),
            steps: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// One step of a runbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// From 1.
    pub number: u32,
    pub action: &'static str,
    pub expected: String,
    pub seen: String,
    pub ok: bool,
}
