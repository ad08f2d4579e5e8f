//! Display names: the JSON name of a value, with spaces.

use std::fmt;

use super::plan::{DrillActor, DrillOperation, ExpectedOutcome};
use super::protocol::ParticipantRole;
use super::verdict::RowVerdict;

macro_rules! display_json_name {
    ($($type:ty),+) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = serde_json::to_value(self).map_err(|_| fmt::Error)?;
                out.write_str(&name.as_str().ok_or(fmt::Error)?.replace('_', " "))
            }
        }
    )+};
}

display_json_name!(DrillActor, DrillOperation, ExpectedOutcome, ParticipantRole, RowVerdict);
