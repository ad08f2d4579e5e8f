//! Arguments of scripts, by name: one `MessagePack` map for each call, which Lua reads with `cmsgpack`.

use std::time::Duration;

use interlock_model::fingerprint::Fingerprint;
use interlock_model::time::millis;
use interlock_model::{
    ApiKeyId, Fence, IdempotencyKey, InstanceId, JobId, LockOwner, LockRequest, LockToken, RolloutId, RunId,
    StepKey, Tag, TenantId, Timestamp, Topic, WorkerId, WorkflowId,
};

/// Named values of a call, or of an item in one of its lists.
#[derive(Debug, Default, Clone)]
pub(crate) struct Arguments {
    count: u32,
    packed: Vec<u8>,
}

impl Arguments {
    pub(crate) fn with(mut self, name: &'static str, value: impl Argument) -> Self {
        self.put(name, value);
        self
    }

    pub(crate) fn put(&mut self, name: &'static str, value: impl Argument) {
        if value.is_absent() {
            return;
        }
        self.count += 1;
        name.pack(&mut self.packed);
        value.pack(&mut self.packed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packed.len()
    }

    /// One map of both, these first.
    pub(crate) fn packed_with(&self, others: &Self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.packed.len() + others.packed.len() + 5);
        pack_length(&mut packed, 0xdf, self.count + others.count);
        packed.extend_from_slice(&self.packed);
        packed.extend_from_slice(&others.packed);
        packed
    }
}

/// A value as a script reads it.
pub(crate) trait Argument {
    fn pack(&self, packed: &mut Vec<u8>);

    /// Whether it is left out of a map: Lua reads nil there, which is as good as false.
    fn is_absent(&self) -> bool {
        false
    }
}

fn pack_length(packed: &mut Vec<u8>, marker: u8, length: u32) {
    packed.push(marker);
    packed.extend_from_slice(&length.to_be_bytes());
}

fn length_of(items: usize) -> u32 {
    u32::try_from(items).expect("arguments have less than 4 GiB")
}

impl Argument for str {
    fn pack(&self, packed: &mut Vec<u8>) {
        match u8::try_from(self.len()) {
            Ok(length @ 0..=31) => packed.push(0xa0 | length),
            Ok(length) => packed.extend_from_slice(&[0xd9, length]),
            Err(_) => pack_length(packed, 0xdb, length_of(self.len())),
        }
        packed.extend_from_slice(self.as_bytes());
    }
}

impl Argument for String {
    fn pack(&self, packed: &mut Vec<u8>) {
        self.as_str().pack(packed);
    }
}

impl Argument for bool {
    fn pack(&self, packed: &mut Vec<u8>) {
        packed.push(if *self { 0xc3 } else { 0xc2 });
    }

    fn is_absent(&self) -> bool {
        !self
    }
}

impl Argument for u64 {
    fn pack(&self, packed: &mut Vec<u8>) {
        if let Ok(small @ 0..=127) = u8::try_from(*self) {
            packed.push(small);
        } else {
            packed.push(0xcf);
            packed.extend_from_slice(&self.to_be_bytes());
        }
    }
}

impl Argument for i64 {
    fn pack(&self, packed: &mut Vec<u8>) {
        packed.push(0xd3);
        packed.extend_from_slice(&self.to_be_bytes());
    }
}

impl Argument for u32 {
    fn pack(&self, packed: &mut Vec<u8>) {
        u64::from(*self).pack(packed);
    }
}

impl Argument for usize {
    fn pack(&self, packed: &mut Vec<u8>) {
        (*self as u64).pack(packed);
    }
}

impl Argument for Fence {
    fn pack(&self, packed: &mut Vec<u8>) {
        self.number().pack(packed);
    }
}

/// In milliseconds.
impl Argument for Duration {
    fn pack(&self, packed: &mut Vec<u8>) {
        millis(*self).pack(packed);
    }
}

/// In milliseconds.
impl Argument for Timestamp {
    fn pack(&self, packed: &mut Vec<u8>) {
        self.as_millis().pack(packed);
    }
}

macro_rules! texts {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            fn pack(&self, packed: &mut Vec<u8>) {
                self.to_string().pack(packed);
            }
        })*
    };
}

texts!(RunId, JobId, StepKey);

macro_rules! names {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            fn pack(&self, packed: &mut Vec<u8>) {
                self.as_str().pack(packed);
            }
        })*
    };
}

names!(
    ApiKeyId,
    Fingerprint,
    IdempotencyKey,
    InstanceId,
    LockOwner,
    LockRequest,
    LockToken,
    RolloutId,
    Tag,
    TenantId,
    Topic,
    WorkerId,
    WorkflowId
);

impl<T: Argument> Argument for Option<T> {
    fn pack(&self, packed: &mut Vec<u8>) {
        match self {
            Some(value) => value.pack(packed),
            None => packed.push(0xc0),
        }
    }

    fn is_absent(&self) -> bool {
        self.as_ref().is_none_or(Argument::is_absent)
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    fn pack(&self, packed: &mut Vec<u8>) {
        (**self).pack(packed);
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

impl<T: Argument> Argument for [T] {
    fn pack(&self, packed: &mut Vec<u8>) {
        pack_length(packed, 0xdd, length_of(self.len()));
        for item in self {
            item.pack(packed);
        }
    }
}

impl<T: Argument> Argument for Vec<T> {
    fn pack(&self, packed: &mut Vec<u8>) {
        self.as_slice().pack(packed);
    }
}

impl Argument for Arguments {
    fn pack(&self, packed: &mut Vec<u8>) {
        pack_length(packed, 0xdf, self.count);
        packed.extend_from_slice(&self.packed);
    }
}
