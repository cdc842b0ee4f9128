//! The entries of a store buffer, which delays an agent's stores on their way to memory.

use super::happens_before::Released;
use super::hash::{bytes_hash, mix};
use crate::cells::{BulkCells, KeptPage};
use crate::explorer::{Object, OpKind, Site};
use std::collections::VecDeque;
use std::sync::Arc;

/// A store that only its own agent sees.
pub(super) enum Buffered {
    Word { page: KeptPage, index: u32, value: u64, released: Released, site: Site },
    Bulk { bulk: Arc<BulkCells>, start: usize, data: Vec<u8>, site: Site },
    Unlock { mutex: u32, site: Site },
}

impl Buffered {
    pub(super) fn op(&self) -> OpKind {
        match self {
            Buffered::Unlock { .. } => OpKind::Unlock,
            _ => OpKind::Store,
        }
    }

    /// Returns the object of the store and the stored word.
    pub(super) fn touches(&self) -> (Object, Option<u64>) {
        match self {
            Buffered::Word { page, index, value, .. } => {
                (Object::Word { page: page.id, index: *index }, Some(*value))
            }
            Buffered::Bulk { bulk, .. } => (Object::Bulk(bulk.id), None),
            Buffered::Unlock { mutex, .. } => (Object::Mutex(*mutex), None),
        }
    }

    /// Returns the place in the program of the store.
    pub(super) fn site(&self) -> Site {
        match self {
            Buffered::Word { site, .. }
            | Buffered::Bulk { site, .. }
            | Buffered::Unlock { site, .. } => *site,
        }
    }

    pub(super) fn hash(&self) -> u64 {
        match self {
            Buffered::Word { page, index, value, .. } => {
                mix(mix(0xA1, u64::from(page.id) << 32 | u64::from(*index)), *value)
            }
            Buffered::Bulk { bulk, start, data, .. } => {
                mix(mix(0xA2 + (u64::from(bulk.id) << 8), *start as u64), bytes_hash(data))
            }
            Buffered::Unlock { mutex, .. } => mix(0xA3, u64::from(*mutex)),
        }
    }
}

/// Applies the agent's own buffered stores to bytes from memory, oldest first.
pub(super) fn overlay(buffer: &VecDeque<Buffered>, id: u32, start: usize, out: &mut [u8]) {
    for entry in buffer {
        let Buffered::Bulk { bulk, start: at, data, .. } = entry else { continue };
        let (from, to) = (start.max(*at), (start + out.len()).min(at + data.len()));
        if bulk.id == id && from < to {
            out[from - start..to - start].copy_from_slice(&data[from - at..to - at]);
        }
    }
}
