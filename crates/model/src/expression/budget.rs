//! The budget of one evaluation or one render.
use super::error::EvaluateError;
use super::limits::{ALLOCATED_BYTES_MAX, STEPS_MAX};

/// Bytes that cost one step when read or copied.
const BYTES_PER_STEP: usize = 64;

/// Counts down steps and allocated bytes. Dropping a value does not refund its bytes, because the sum bounds the time.
#[derive(Debug)]
pub(super) struct Budget {
    steps_left: usize,
    bytes_left: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { steps_left: STEPS_MAX, bytes_left: ALLOCATED_BYTES_MAX }
    }

    /// Charges for visiting one node or one element.
    pub(super) fn step(&mut self) -> Result<(), EvaluateError> {
        self.steps(1)
    }

    /// Charges for reading `bytes`.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), EvaluateError> {
        self.steps(bytes / BYTES_PER_STEP)
    }

    /// Charges for allocating `bytes`. Call it before the allocation.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), EvaluateError> {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or(EvaluateError::TooLarge { bytes_max: ALLOCATED_BYTES_MAX })?;
        self.read(bytes)
    }

    fn steps(&mut self, count: usize) -> Result<(), EvaluateError> {
        self.steps_left =
            self.steps_left.checked_sub(count).ok_or(EvaluateError::Budget { steps_max: STEPS_MAX })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_after_the_last_one_fails() {
        let mut budget = Budget::new();
        budget.steps(STEPS_MAX).unwrap();
        assert_eq!(budget.step(), Err(EvaluateError::Budget { steps_max: STEPS_MAX }));
    }

    #[test]
    fn the_byte_after_the_last_one_fails() {
        let mut budget = Budget::new();
        budget.allocate(ALLOCATED_BYTES_MAX).unwrap();
        assert_eq!(budget.allocate(1), Err(EvaluateError::TooLarge { bytes_max: ALLOCATED_BYTES_MAX }));
    }
}
