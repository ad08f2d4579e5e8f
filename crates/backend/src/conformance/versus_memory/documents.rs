//! Documents and figures, saved by a few who get in each other's way.

use interlock_model::{InstanceId, RolloutId};
use rand::RngExt;

use super::super::scene::name;
use super::Walk;
use crate::documents::DocumentName;

const NAME: DocumentName = DocumentName::Contention;

impl Walk {
    fn a_rollout(&mut self) -> RolloutId {
        name(&format!("ro-{}", self.random.random_range(0..2)))
    }

    pub(super) async fn document_something(&mut self) {
        let text = format!("{{\"n\":{}}}", self.random.random_range(0..3));
        match self.random.random_range(0..5) {
            0..2 => {
                let found = same!(self, document(NAME));
                let current = found.ok().flatten().map_or(0, |document| document.version);
                let expected = current.saturating_sub(self.random.random_range(0..3));
                let _ = same!(self, save_document(NAME, expected, &text));
            }
            2..4 => {
                let instance: InstanceId = name(&format!("i-{}", self.random.random_range(0..3)));
                let rollout = self.a_rollout();
                let _ = same!(self, save_figures(&rollout, &instance, &text));
                let _ = same!(self, figures(&rollout));
            }
            _ => {
                let rollout = self.a_rollout();
                let _ = same!(self, forget_figures(&rollout));
            }
        }
    }

    pub(super) async fn look_at_documents(&mut self) {
        let _ = same!(self, document(NAME));
        for rollout in ["ro-0", "ro-1"] {
            let _ = same!(self, figures(&name::<RolloutId>(rollout)));
        }
    }
}
