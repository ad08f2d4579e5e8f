//! Documents and figures, saved by a few that compete.

use interlock_model::RolloutId;
use rand::RngExt as _;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::documents::{DOCUMENT_BYTES_MAX, DocumentName, FIGURES_BYTES_MAX};
use crate::verbs::{DeleteFigures, ReadDocument, ReadFigures, SaveDocument, SaveFigures};

const NAME: DocumentName = DocumentName::Contention;

sampled!(ReadDocument, 1, |_walk| Some(ReadDocument { name: NAME }), |_, answer, known| {
    known.document_version = answer.as_ref().map_or(0, |document| document.version);
});

sampled!(
    SaveDocument,
    2,
    |walk| {
        let expected = walk.known.document_version.saturating_sub(walk.random.random_range(0..2));
        Some(SaveDocument { name: NAME, expected, text: walk.text(DOCUMENT_BYTES_MAX) })
    },
    |asked, answer, known| {
        if *answer {
            known.document_version = asked.expected + 1;
        }
    }
);

sampled!(SaveFigures, 2, |walk| {
    let instance = name(&format!("i-{}", walk.random.random_range(0..3)));
    Some(SaveFigures { rollout: walk.rollout(), instance, figures: walk.text(FIGURES_BYTES_MAX) })
});

sampled!(ReadFigures, 1, |walk| Some(ReadFigures { rollout: walk.rollout() }));

sampled!(DeleteFigures, 1, |walk| Some(DeleteFigures { rollout: walk.rollout() }));

impl Walk {
    pub(super) fn rollout(&mut self) -> RolloutId {
        name(self.one_of(&["ro-0", "ro-1"]))
    }

    /// Sometimes one byte too many.
    fn text(&mut self, bytes_max: usize) -> String {
        if self.flip(0.05) {
            "x".repeat(bytes_max + 1)
        } else {
            format!("{{\"n\":{}}}", self.random.random_range(0..3))
        }
    }
}
