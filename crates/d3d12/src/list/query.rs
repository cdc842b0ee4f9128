//! Timestamp queries: a heap of results, EndQuery, and the copy of results into a buffer.

use super::recording::{CommandList, bad};
use crate::error::{Error, Result};
use crate::resource::Buffer;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::{Command, GpuVa};

/// Size of one result in bytes.
const RESULT_BYTES: u64 = 8;

/// A heap of timestamp queries (D3D12_QUERY_HEAP_TYPE_TIMESTAMP). A result is the GPU clock in
/// nanoseconds, so the timestamp frequency is 1,000,000,000.
#[derive(Clone, Debug)]
pub struct QueryHeap {
    results: Buffer,
    queries: u32,
}

impl QueryHeap {
    /// Creates a heap of `queries` results in `results`, which must be large enough.
    pub(crate) fn new(results: Buffer, queries: u32) -> QueryHeap {
        QueryHeap { results, queries }
    }

    /// Returns the size of `queries` results in bytes.
    pub(crate) fn bytes_for(queries: u32) -> u64 {
        u64::from(queries) * RESULT_BYTES
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.results.name()
    }

    /// Returns the number of queries.
    pub fn queries(&self) -> u32 {
        self.queries
    }

    fn check(&self, command: &'static str, first: u32, count: u32) -> Result<u64> {
        let offset = QueryHeap::bytes_for(first);
        self.results.check(command, offset, QueryHeap::bytes_for(count))?;
        Ok(self.results.gpu_va() + offset)
    }
}

impl CommandList {
    /// Stores the GPU's time as result `index` of the heap when the preceding commands are
    /// complete. Compute and direct lists only.
    ///
    /// # Errors
    /// [`Error::NotAccepted`], [`Error::OutOfRange`] for an index beyond the heap,
    /// [`Error::Foreign`].
    #[doc(alias = "EndQuery")]
    pub fn end_query(&mut self, heap: &QueryHeap, index: u32) -> Result<()> {
        self.accepts_compute("query")?;
        let destination = GpuVa(heap.check("a query", index, 1)?);
        self.name_buffer(&heap.results)?;
        self.push(&Command::Timestamp { destination })
    }

    /// Copies `count` results from `first` on into `destination`, 8 bytes each. Predication does
    /// not apply. Compute and direct lists only.
    ///
    /// # Errors
    /// [`Error::NotAccepted`], [`Error::OutOfRange`], [`Error::Foreign`]; [`Error::BadValue`] for 0
    /// results, and for an offset that is not a multiple of 8.
    #[doc(alias = "ResolveQueryData")]
    pub fn resolve_query_data(
        &mut self,
        heap: &QueryHeap,
        first: u32,
        count: u32,
        destination: &Buffer,
        offset: u64,
    ) -> Result<()> {
        self.accepts_compute("query")?;
        if count == 0 || !offset.is_multiple_of(RESULT_BYTES) {
            let why = "it has no results, or an offset that is no multiple of 8; correct them";
            return Err(bad("a resolve of queries", why));
        }
        let source = heap.check("a resolve of queries", first, count)?;
        let bytes = QueryHeap::bytes_for(count);
        destination.check("a resolve's destination", offset, bytes)?;
        self.name_buffer(&heap.results)?;
        self.name_buffer(destination)?;
        let needed = ResourceStates::COPY_DEST;
        self.access(destination.into(), &Subresources::All, needed, "ResolveQueryData");
        let (source, destination) = (GpuVa(source), GpuVa(destination.gpu_va() + offset));
        self.push(&Command::Resolve { source, destination, bytes })
    }
}

/// Refuses a heap without queries.
pub(crate) fn check_queries(name: &str, queries: u32) -> Result<()> {
    match queries {
        0 => Err(Error::BadValue {
            what: format!("query heap '{name}'"),
            why: "it has no queries; give at least one",
        }),
        _ => Ok(()),
    }
}
