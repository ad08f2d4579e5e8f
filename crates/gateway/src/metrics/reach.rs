//! Whether this process reaches what it stands on, as of the last scrape.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug)]
pub(super) struct Reach {
    store: Gauge,
    bus: Gauge,
}

impl Reach {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let reach = Self { store: Gauge::default(), bus: Gauge::default() };
        registry.register("store_up", "Whether the store answered this scrape", reach.store.clone());
        registry.register("bus_up", "Whether the bus is connected", reach.bus.clone());
        reach
    }

    pub(super) fn set(&self, store: bool, bus: bool) {
        self.store.set(store.into());
        self.bus.set(bus.into());
    }
}
