//! Descriptor heaps of buffer views, and descriptor tables as program arguments.
//!
//! A list reads the descriptors when it sets the heap, like static descriptors of Direct3D 12. A
//! view changed later affects later lists only.

use super::dispatch::BufferAt;
use super::recording::CommandList;
use super::root_state::Views;
use crate::error::{Error, Result};
use std::sync::Arc;
use tidegate_gpu_abi::program::ArgumentKind;

/// A heap of buffer views (D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV).
#[derive(Clone, Debug)]
pub struct DescriptorHeap {
    name: String,
    views: Views,
}

impl DescriptorHeap {
    pub(crate) fn new(name: &str, descriptors: usize) -> DescriptorHeap {
        DescriptorHeap { name: name.to_owned(), views: Arc::new(vec![None; descriptors]) }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of descriptors.
    pub fn descriptors(&self) -> usize {
        self.views.len()
    }

    /// Makes descriptor `index` a view of a buffer from an offset on. Whether it is read or written
    /// depends on the program.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an index beyond the heap; [`Error::OutOfRange`] for an offset
    /// outside its buffer.
    #[doc(alias = "CreateUnorderedAccessView")]
    #[doc(alias = "CreateShaderResourceView")]
    #[doc(alias = "CreateConstantBufferView")]
    pub fn set_view<'b>(&mut self, index: usize, place: impl Into<BufferAt<'b>>) -> Result<()> {
        let BufferAt { buffer, offset } = place.into();
        buffer.check("a view", offset, 0)?;
        let what = || format!("descriptor {index} of heap '{}'", self.name);
        if index >= self.views.len() {
            let why = "the heap has fewer descriptors; create a larger one";
            return Err(Error::BadValue { what: what(), why });
        }
        Arc::make_mut(&mut self.views)[index] = Some((buffer.clone(), offset));
        Ok(())
    }
}

impl CommandList {
    /// Sets the heap for the following descriptor tables. The views are read now.
    ///
    /// # Errors
    /// [`Error::NotAccepted`] in copy lists.
    #[doc(alias = "SetDescriptorHeaps")]
    pub fn set_descriptor_heap(&mut self, heap: &DescriptorHeap) -> Result<()> {
        self.accepts_compute("descriptor heap")?;
        self.root.views = Some(Arc::clone(&heap.views));
        Ok(())
    }

    /// Sets the buffers among the root parameters from `parameter` on to the `count` descriptors
    /// from `first` on, in order. Constants between them keep their values.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] without a pipeline state or a heap, for a
    /// descriptor without a view, and for more descriptors than the program has buffers;
    /// [`Error::Foreign`]. Parameters before the refused one are set.
    #[doc(alias = "SetComputeRootDescriptorTable")]
    pub fn set_compute_root_descriptor_table(
        &mut self,
        parameter: usize,
        first: usize,
        count: usize,
    ) -> Result<()> {
        self.accepts_compute("descriptor table")?;
        let Some(views) = self.root.views.clone() else {
            let why = "no descriptor heap is set; set one before the table";
            return Err(Error::BadValue { what: "a descriptor table".to_owned(), why });
        };
        let mut at = parameter;
        for descriptor in (first..).take(count) {
            loop {
                let argument = self.root.parameter(at)?;
                if matches!(argument.kind, ArgumentKind::Buffer { .. }) {
                    break;
                }
                at += 1;
            }
            let Some(Some((buffer, offset))) = views.get(descriptor) else {
                let why = "it has no view; set one before the heap is set";
                return Err(Error::BadValue { what: format!("descriptor {descriptor}"), why });
            };
            let address = self.name_place(buffer.at(*offset))?;
            self.root.set_address(at, address, buffer);
            at += 1;
        }
        Ok(())
    }
}
