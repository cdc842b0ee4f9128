//! Calls about shared resources: what their creator passes, and opening them by global handle and
//! by NT handle.

use crate::call::Call;
use crate::keyed_mutex;
use crate::legacy;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Allocation, Device, Resource};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, CreateResource, Handle, MAX_RESOURCE_DATA_BYTES, NtHandle, OpenedResource,
    ResourceData, ResourceName, Status, SyncObjectFlags,
};
use tidegate_wddm_abi::Published;
use tidegate_wddm_abi::d3dkmthk::{
    CreateAllocation, OpenAllocationInfo, OpenAllocationInfo2, OpenResource,
    OpenResourceFromNtHandle, QueryResourceInfo, QueryResourceInfoFromNtHandle,
};

/// The private driver data of each allocation begins at a multiple of this in the buffer of all.
const DATA_ALIGNMENT: usize = 8;

/// Reads private data.
fn bytes(call: &Call, (address, count): (u64, u32)) -> Result<Vec<u8>, Status> {
    call.caller.numbers(address, count, MAX_RESOURCE_DATA_BYTES)
}

/// Reads what the creator of a resource passes. `has_driver_data`: the address of the resource's
/// private driver data is that, and not the description of a standard allocation.
pub(crate) fn passed_data(
    call: &Call,
    args: &CreateAllocation,
    has_driver_data: bool,
    allocations: impl Iterator<Item = (u64, u32)>,
) -> Result<ResourceData, Status> {
    let driver = (args.private_driver_data, args.private_driver_data_size);
    let allocations = allocations.map(|data| bytes(call, data));
    Ok(ResourceData {
        runtime: bytes(call, (args.private_runtime_data, args.private_runtime_data_size))?,
        driver: if has_driver_data { bytes(call, driver)? } else { Vec::new() },
        allocations: allocations.collect::<Result<_, Status>>()?,
    })
}

/// Shares allocations of the library.
pub(crate) fn share(
    call: &Call,
    device: &Device,
    made: &[Handle],
    data: &ResourceData,
    nt_security_sharing: bool,
) -> Result<calls::Resource, Status> {
    let allocations = made.iter().map(|handle| Ok(call.library.allocation(*handle)?.handle));
    let allocations: Vec<Handle> = allocations.collect::<Result<_, Status>>()?;
    device.kernel().create_resource(CreateResource {
        device: device.handle,
        allocations: &allocations,
        data,
        nt_security_sharing,
    })
}

/// Gives a resource of these allocations its handle. Without one all of it ends.
pub(crate) fn enter(
    call: &Call,
    device: &Arc<Device>,
    made: Vec<Handle>,
    shared: Option<Handle>,
) -> Result<Handle, Status> {
    let allocations = call.library.platform.mutex("allocations of a resource", made);
    let resource = Arc::new(Resource { device: device.clone(), shared, allocations });
    call.library.insert(Object::Resource(resource.clone()), || end(call, &resource))
}

/// Ends a resource without a handle, and its allocations.
fn end(call: &Call, resource: &Resource) {
    let kernel = resource.device.kernel();
    if let Some(shared) = resource.shared {
        let _ended = kernel.destroy_resource(shared);
    }
    for handle in resource.allocations.lock().iter() {
        if let Some(Object::Allocation(allocation)) = call.library.remove(*handle)
            && resource.shared.is_none()
        {
            let _ended = kernel.destroy_allocation(allocation.handle);
        }
    }
}

/// Ends a shared resource with its allocations.
pub(crate) fn destroy(call: &Call, handle: Handle, resource: &Resource) -> Result<(), Status> {
    let shared = resource.shared.ok_or(Status::INVALID_PARAMETER)?;
    ended(resource.device.kernel().destroy_resource(shared))?;
    call.library.remove(handle);
    let allocations = resource.allocations.lock().clone();
    allocations.into_iter().for_each(|allocation| drop(call.library.remove(allocation)));
    call.library.nt_handles.collect();
    Ok(())
}

/// A buffer of the caller.
struct Buffer {
    address: u64,
    bytes: u32,
}

impl Buffer {
    /// Checks that the buffer has these bytes and no more.
    ///
    /// # Errors
    /// INVALID_PARAMETER; also for no address where one is needed.
    fn is_exactly(&self, needed: usize) -> Result<(), Status> {
        match self.bytes as usize == needed {
            true => self.has(needed),
            false => Err(Status::INVALID_PARAMETER),
        }
    }

    /// Checks that the buffer has room.
    ///
    /// # Errors
    /// NO_MEMORY for fewer bytes; INVALID_PARAMETER for no address where one is needed.
    fn has(&self, needed: usize) -> Result<(), Status> {
        match needed {
            1.. if self.address == 0 => Err(Status::INVALID_PARAMETER),
            _ if (self.bytes as usize) < needed => Err(Status::NO_MEMORY),
            _ => Ok(()),
        }
    }

    fn write(&self, call: &Call, data: &[u8]) -> Result<(), Status> {
        call.caller.write_numbers(self.address, data)
    }
}

/// Where the private driver data of each allocation is in the buffer of all, and the bytes of
/// that.
fn places(data: &ResourceData) -> (Vec<usize>, usize) {
    let mut end = 0;
    let places = data.allocations.iter().map(|one| {
        let at = end;
        end += one.len().next_multiple_of(DATA_ALIGNMENT);
        at
    });
    (places.collect(), end)
}

/// What a query answers. It reads no buffer, and writes none.
struct Sizes {
    runtime: u32,
    total: u32,
    driver: u32,
    allocations: u32,
}

fn query(call: &Call, device: u32, name: ResourceName<'_>) -> Result<Sizes, Status> {
    let device = call.library.device(device)?;
    let data = device.kernel().query_resource_info(device.handle, name)?;
    Ok(Sizes {
        runtime: data.runtime.len() as u32,
        total: places(&data).1 as u32,
        driver: data.driver.len() as u32,
        allocations: data.allocations.len() as u32,
    })
}

macro_rules! query_call {
    ($call:ident, $args:ident, $name:expr) => {{
        let sizes = query($call, $args.device, $name)?;
        $args.private_runtime_data_size = sizes.runtime;
        $args.total_private_driver_data_size = sizes.total;
        $args.resource_private_driver_data_size = sizes.driver;
        $args.num_allocations = sizes.allocations;
        Ok(())
    }};
}

pub(crate) fn query_resource_info(call: &Call, args: &mut QueryResourceInfo) -> Result<(), Status> {
    query_call!(call, args, ResourceName::Shared(args.global_share))
}

pub(crate) fn query_resource_info_from_nt_handle(
    call: &Call,
    args: &mut QueryResourceInfoFromNtHandle,
) -> Result<(), Status> {
    let handle = call.library.nt_handles.import(&call.caller, args.nt_handle)?;
    query_call!(call, args, ResourceName::NtHandle(&handle))
}

/// One of the two forms of a description of an opened allocation.
trait OpenInfo: Published {
    fn describe(allocation: u32, gpu_va: u64, data: (u64, u32)) -> Self;
}

impl OpenInfo for OpenAllocationInfo {
    fn describe(allocation: u32, _gpu_va: u64, data: (u64, u32)) -> OpenAllocationInfo {
        let (private_driver_data, private_driver_data_size) = data;
        OpenAllocationInfo { allocation, private_driver_data, private_driver_data_size }
    }
}

impl OpenInfo for OpenAllocationInfo2 {
    fn describe(allocation: u32, gpu_va: u64, data: (u64, u32)) -> OpenAllocationInfo2 {
        let (private_driver_data, private_driver_data_size) = data;
        let reserved = Default::default();
        OpenAllocationInfo2 {
            allocation,
            private_driver_data,
            private_driver_data_size,
            gpu_va,
            reserved,
        }
    }
}

/// The buffers of a call that opens a resource.
struct Opening<'a> {
    device: u32,
    name: ResourceName<'a>,
    /// The number of descriptions and their address.
    infos: (u32, u64),
    /// Its bytes are those of the creator, as of `driver`.
    runtime: Buffer,
    driver: Buffer,
    /// It may be larger.
    total: Buffer,
}

/// A resource that was opened.
struct Opened {
    resource: u32,
    /// The bytes of the private driver data of all allocations.
    total_bytes: u32,
}

/// Opens a resource. Everything is checked before it is opened.
fn open<I: OpenInfo>(call: &Call, opening: Opening<'_>) -> Result<Opened, Status> {
    let device = call.library.device(opening.device)?;
    let (kernel, name) = (device.kernel(), opening.name);
    let data = kernel.query_resource_info(device.handle, name)?;
    let (places, total_bytes) = places(&data);
    let (count, infos) = opening.infos;
    if count as usize != places.len() {
        return Err(Status::INVALID_PARAMETER);
    }
    opening.runtime.is_exactly(data.runtime.len())?;
    opening.driver.is_exactly(data.driver.len())?;
    opening.total.has(total_bytes)?;
    if count > 0 {
        call.caller.read::<I>(infos)?;
    }
    let opened = kernel.open_resource(device.handle, name)?;
    if opened.data != data {
        // The global handle is another resource's by now.
        let _ended = kernel.destroy_resource(opened.handle);
        return Err(Status::INVALID_PARAMETER);
    }
    let addresses: Vec<u64> = opened.allocations.iter().map(|made| made.gpu_va).collect();
    let (resource, made) = enter_opened(call, &device, opened)?;
    opening.runtime.write(call, &data.runtime)?;
    opening.driver.write(call, &data.driver)?;
    for (index, (handle, private)) in made.iter().zip(&data.allocations).enumerate() {
        let address = opening.total.address + places[index] as u64;
        call.caller.write_numbers(address, private)?;
        let info = I::describe(handle.0, addresses[index], (address, private.len() as u32));
        call.caller.write(infos + (index * size_of::<I>()) as u64, info)?;
    }
    Ok(Opened { resource: resource.0, total_bytes: total_bytes as u32 })
}

/// Gives an opened resource and its allocations their handles.
fn enter_opened(
    call: &Call,
    device: &Arc<Device>,
    opened: OpenedResource,
) -> Result<(Handle, Vec<Handle>), Status> {
    let mut made = Vec::with_capacity(opened.allocations.len());
    for allocation in opened.allocations {
        let object = Allocation::new(&call.library.platform, device, allocation, true);
        let entered = call.library.insert(Object::Allocation(Arc::new(object)), || {
            made.iter().for_each(|handle: &Handle| drop(call.library.remove(*handle)));
            let _ended = device.kernel().destroy_resource(opened.handle);
        });
        made.push(entered?);
    }
    let resource = enter(call, device, made.clone(), Some(opened.handle))?;
    Ok((resource, made))
}

macro_rules! open_call {
    ($call:ident, $args:ident, $name:expr, $info:ty) => {{
        let opening = Opening {
            device: $args.device,
            name: $name,
            infos: ($args.num_allocations, $args.allocation_info),
            runtime: Buffer {
                address: $args.private_runtime_data,
                bytes: $args.private_runtime_data_size,
            },
            driver: Buffer {
                address: $args.resource_private_driver_data,
                bytes: $args.resource_private_driver_data_size,
            },
            total: Buffer {
                address: $args.total_private_driver_data,
                bytes: $args.total_private_driver_data_size,
            },
        };
        let opened = open::<$info>($call, opening)?;
        $args.resource = opened.resource;
        $args.total_private_driver_data_size = opened.total_bytes;
        Ok(())
    }};
}

pub(crate) fn open_resource(call: &Call, args: &mut OpenResource) -> Result<(), Status> {
    open_call!(call, args, ResourceName::Shared(args.global_share), OpenAllocationInfo)
}

pub(crate) fn open_resource2(call: &Call, args: &mut OpenResource) -> Result<(), Status> {
    open_call!(call, args, ResourceName::Shared(args.global_share), OpenAllocationInfo2)
}

pub(crate) fn open_resource_from_nt_handle(
    call: &Call,
    args: &mut OpenResourceFromNtHandle,
) -> Result<(), Status> {
    let handle = call.library.nt_handles.import(&call.caller, args.nt_handle)?;
    let name = ResourceName::NtHandle(&handle);
    let opened: Result<(), Status> = open_call!(call, args, name, OpenAllocationInfo2);
    opened?;
    match open_parts(call, args, &handle) {
        Ok((mutex, object)) => {
            (args.keyed_mutex, args.sync_object) = (mutex, object);
            Ok(())
        }
        Err(refusal) => {
            if let Some(Object::Resource(resource)) = call.library.remove(args.resource) {
                end(call, &resource);
            }
            Err(refusal)
        }
    }
}

/// Opens the keyed mutex and the object for waits of an NT handle; 0 for what it does not have.
fn open_parts(
    call: &Call,
    args: &OpenResourceFromNtHandle,
    handle: &NtHandle,
) -> Result<(u32, u32), Status> {
    let absent = |status: Status| match status {
        Status::OBJECT_TYPE_MISMATCH => Ok(0),
        status => Err(status),
    };
    let (data, bytes) = (args.keyed_mutex_runtime_data, args.keyed_mutex_runtime_data_size);
    let mutex = keyed_mutex::open(call, ResourceName::NtHandle(handle), (data, bytes));
    let mutex = mutex.or_else(absent)?;
    let device = call.library.device(args.device)?;
    let flags = SyncObjectFlags::empty();
    let object = legacy::open(call, Some(&device), handle, flags).map(|object| object.0);
    let object = object.or_else(absent).inspect_err(|_| {
        if let Some(Object::KeyedMutex(mutex)) = call.library.remove(mutex) {
            mutex.end();
        }
    })?;
    Ok((mutex, object))
}
