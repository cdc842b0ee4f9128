//! Calls about shared resources: their limits, and the memory that NT handles keep.
//!
//! An opener is charged for the memory as its creator is. An NT handle keeps the memory too, and is
//! charged for it apart: to the client that made it, and to all clients together, because it may
//! outlive that client.

use super::calls::{Answerer, PAGE_BYTES, bytes_in_files};
use super::ledger::Charge;
use super::views::Files;
use crate::arguments::{CreateResourceMessage, SharedName};
use crate::nt_handles::KeptMemory;
use crate::transport::Attachment;
use crate::wire::OpenedResourceView;
use tidegate_calls::{
    CreateResource, Handle, NtHandle, OpenedResource, Resource, ResourceData, ResourceName, Status,
};

impl Answerer {
    pub(super) fn create_resource(
        &mut self,
        args: CreateResourceMessage,
    ) -> Result<Resource, Status> {
        let CreateResourceMessage { device, allocations, data, nt_security_sharing } = args;
        // Refused by the kernel, too. Here it bounds what is charged.
        let charge = Charge { bytes: bytes_in_files(data.bytes() as u64), queue: false };
        let made = self.create(
            device,
            charge,
            |kernel| {
                let (allocations, data) = (&allocations[..], &data);
                let args = CreateResource { device, allocations, data, nt_security_sharing };
                kernel.create_resource(args)
            },
            |made| made.handle,
        )?;
        self.ledger.hold(made.handle, allocations);
        Ok(made)
    }

    /// Calls `act` with a resource by its name, whose NT handle came with the message.
    fn with_resource<T>(
        &self,
        name: SharedName,
        came_with: &[Attachment],
        act: impl FnOnce(ResourceName<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        match (name, came_with) {
            (SharedName::Global(handle), _) => act(ResourceName::Shared(handle)),
            (SharedName::File, [file]) => {
                let handle = self.shared.nt_handles.of_attachment(file)?;
                act(ResourceName::NtHandle(&handle))
            }
            (SharedName::File, _) => Err(Status::INVALID_HANDLE),
        }
    }

    pub(super) fn query_resource_info(
        &mut self,
        device: Handle,
        name: SharedName,
        files: &mut Files,
    ) -> Result<ResourceData, Status> {
        let kernel = &self.opened.kernel;
        let came_with = &files.came_with;
        self.with_resource(name, came_with, |name| kernel.query_resource_info(device, name))
    }

    pub(super) fn open_resource(
        &mut self,
        device: Handle,
        name: SharedName,
        files: &mut Files,
    ) -> Result<OpenedResourceView, Status> {
        let came_with = &files.came_with;
        self.ledger.check(Charge { bytes: PAGE_BYTES, queue: false })?;
        let kernel = self.opened.kernel.clone();
        let opened =
            self.with_resource(name, came_with, |name| kernel.open_resource(device, name))?;
        self.enter_resource(device, &opened).inspect_err(|_| {
            let _ended = kernel.destroy_resource(opened.handle);
        })?;
        let views = opened.allocations.iter().map(|one| (one.handle, one.gpu_va, one.bytes));
        Ok((opened.handle, opened.data, views.collect()))
    }

    /// Records an opened resource, all of it or nothing.
    fn enter_resource(&mut self, device: Handle, opened: &OpenedResource) -> Result<(), Status> {
        let of_resource = Charge { bytes: PAGE_BYTES, queue: false };
        let charges = opened.allocations.iter().map(|allocation| {
            let bytes = bytes_in_files(allocation.bytes);
            (allocation.handle, Charge { bytes, queue: false })
        });
        let all: Vec<(Handle, Charge)> =
            [(opened.handle, of_resource)].into_iter().chain(charges).collect();
        for (index, (handle, charge)) in all.iter().enumerate() {
            if let Err(refusal) = self.ledger.check(*charge) {
                all[..index].iter().for_each(|(handle, _)| _ = self.ledger.leave(*handle));
                return Err(refusal);
            }
            self.ledger.enter(*handle, device, *charge);
        }
        self.ledger.hold(opened.handle, all[1..].iter().map(|(handle, _)| *handle).collect());
        Ok(())
    }

    /// Makes the file of an NT handle that keeps so much memory.
    pub(super) fn handle_file(&self, handle: NtHandle, bytes: u64) -> Result<Attachment, Status> {
        let config = &self.shared.config;
        let of_client = config.limits.memory_bytes;
        let of_all = of_client.saturating_mul(u64::from(config.clients));
        let kept = KeptMemory { bytes, most_of_owner: of_client, most_of_all: of_all };
        let most = config.limits.nt_handles;
        self.shared.nt_handles.attach(handle, self.session, most, kept)
    }
}
