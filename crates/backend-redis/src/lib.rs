//! Many nodes: Redis decides by scripts, NATS wakes.
