//! Who can do what, and what needs whom.

use interlock_model::meta::{JobMeta, Priority};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::super::scene::name;
use super::Walk;

const TAGS: [&str; 3] = ["gpu", "gpu.2", "arm:64"];

impl Walk {
    /// What a job says besides its work; most say nothing.
    pub(super) fn meta(&mut self) -> JobMeta {
        let mut meta = JobMeta::default();
        if self.random.random_bool(0.5) {
            meta.requires = self.some_tags().iter().map(|tag| name(tag)).collect();
        }
        if self.random.random_bool(0.5) {
            let priorities = [Priority::Batch, Priority::Interactive, Priority::Critical];
            meta.priority = *priorities.choose(&mut self.random).expect("there are priorities");
        }
        meta
    }

    pub(super) fn capabilities(&mut self) -> Vec<String> {
        self.some_tags().iter().map(|&tag| tag.to_owned()).collect()
    }

    fn some_tags(&mut self) -> Vec<&'static str> {
        TAGS.into_iter().filter(|_| self.random.random_bool(0.5)).collect()
    }
}
