//! API keys.

crate::named_enum! {
    /// What a key allows.
    #[derive(Hash)]
    pub enum KeyRole {
        /// Everything.
        Admin = "admin",
        /// Read; approve, cancel, release locks, repair.
        Operator = "operator",
        /// Start runs and read them.
        Starter = "starter",
        /// Claim jobs and report them.
        Worker = "worker",
        /// Read.
        Viewer = "viewer",
    }
}
