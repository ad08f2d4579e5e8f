//! Who can do what, and what needs whom.

use std::time::Duration;

use interlock_model::Clock as _;
use interlock_model::meta::{JobMeta, Priority};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::super::scene::{acme, name};
use super::Walk;
use crate::registry::{Beat, Handshake};

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

    /// A worker on the bus speaks, or is gone; one of either edge drains.
    pub(super) async fn hear_of_a_worker(&mut self) {
        let (tenant, worker) = (self.tenant(), self.worker());
        let is_draining = self.random.random_bool(0.3);
        match self.random.random_range(0..9) {
            0 => {
                let handshake = Handshake { topics: vec![name("build"); self.random.random_range(0..3)] };
                let _ = same!(self, introduce(&worker, &handshake));
            }
            1 => {
                let jobs_active = self.random.random_range(0..9);
                let beat = Beat { jobs_active, tenant: Some(acme()), ..Beat::default() };
                let _ = same!(self, beat(&worker, &beat));
            }
            2 => drop(same!(self, registry())),
            4 => drop(same!(self, drain(&worker, is_draining))),
            5 => drop(same!(self, drain_worker(&tenant, &worker, is_draining))),
            6 => {
                let unseen_since =
                    self.clock.now() - Duration::from_millis(self.random.random_range(0..2_000));
                let _ = same!(self, forget_record(&tenant, &worker, unseen_since));
            }
            3 => {
                let silent_since =
                    self.clock.now() - Duration::from_millis(self.random.random_range(0..2_000));
                let _ = same!(self, forget_worker(&worker, silent_since));
            }
            _ => {
                let limit = self.random.random_range(1..4);
                let _ = same!(self, abandon(&tenant, &worker, limit));
            }
        }
    }

    fn some_tags(&mut self) -> Vec<&'static str> {
        TAGS.into_iter().filter(|_| self.random.random_bool(0.5)).collect()
    }
}
