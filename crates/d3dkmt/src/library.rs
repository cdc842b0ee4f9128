//! The state of the library: the adapters of the kernel, and the objects of this process by handle.
//!
//! Invariants: a handle is in the table while its object is in the kernel. A destroy call removes
//! the object from the kernel first, so of two that race the kernel refuses one. Handles of a
//! service that is gone stay until their destroy calls, which succeed.

use crate::backend::{Backend, Connection};
use crate::gpu_ranges::GpuRanges;
use crate::named_object::Object;
use crate::nt_handles::NtHandles;
use crate::object::{
    Adapter, Allocation, Context, Device, Doorbell, Fence, HwQueue, KeyedMutex, PagingQueue,
    Resource,
};
use crate::own_devices::OwnDevices;
use crate::rings::Rings;
use std::io::Read;
use std::sync::Arc;
use tidegate::Machine;
use tidegate_calls::{Handle, HandleTable, Status};
use tidegate_platform::once::OfProcess;
use tidegate_platform::{Mutex, Platform};
use tidegate_wddm_abi::d3dkmthk::Luid;

/// The high half of the number of each adapter: "tide".
const LUID_HIGH: i32 = 0x7469_6465;

/// The library in this process.
pub(crate) struct Library {
    pub(crate) platform: Platform,
    pub(crate) gpu_ranges: GpuRanges,
    pub(crate) nt_handles: NtHandles,
    pub(crate) own_devices: OwnDevices,
    objects: Mutex<HandleTable<Object>>,
    backend: Backend,
    /// The lock orders connects.
    connected: Mutex<Connected>,
    pub(crate) rings: Rings,
}

/// The present connection to the kernel.
#[derive(Default)]
struct Connected {
    connection: Option<Connection>,
    adapters: Arc<[Arc<Adapter>]>,
    /// Connections of this process until now.
    made: u64,
    /// Whether the last attempt failed.
    failed: bool,
}

/// The outcome of a destroy call of the kernel. What was in a service that is gone has ended with
/// it.
pub(crate) fn ended(destroyed: Result<(), Status>) -> Result<(), Status> {
    match destroyed {
        Err(Status::DEVICE_REMOVED) => Ok(()),
        destroyed => destroyed,
    }
}

static LIBRARY: OfProcess<Result<Library, Status>> = OfProcess::new();

/// What the library holds in this process.
#[derive(Clone, Copy)]
pub struct Held {
    /// The machine of a kernel in this process; `None` with a service.
    pub machine: Option<&'static Machine>,
    /// Handles of C that name an object.
    pub objects: usize,
    /// NT handles that have not ended.
    pub nt_handles: usize,
}

/// Returns what the library holds; `None` before its first call. For tests of Rust that link the
/// library.
pub fn held() -> Option<Held> {
    let library = Library::started()?;
    let objects = library.objects.lock().iter().count();
    let (machine, nt_handles) = (library.backend.machine(), library.nt_handles.count());
    Some(Held { machine, objects, nt_handles })
}

/// Ends this process in order for its kernel, because the library is unloaded: the program returns
/// from main, exits, or closes the library. A forked child ends nothing: the connection is its
/// parent's.
pub(crate) fn end_process() {
    let Some(library) = Library::started() else { return };
    // The thread-local values of the calling thread have ended, so another one does the work. The
    // pipe ends with it.
    let Ok((mut ended, end)) = std::io::pipe() else { return };
    let body = move || {
        library.end_process();
        drop(end);
    };
    if library.platform.spawn_outside("the end of the process", body).is_ok() {
        let _ = ended.read(&mut [0]);
    }
}

macro_rules! lookup {
    ($name:ident, $kind:ident, $type:ty) => {
        pub(crate) fn $name(&self, handle: impl Into<NamedHandle>) -> Result<Arc<$type>, Status> {
            match self.objects.lock().get(handle.into().0) {
                Some(Object::$kind(object)) => Ok(object),
                _ => Err(Status::INVALID_PARAMETER),
            }
        }
    };
}

/// A handle in an argument.
pub(crate) struct NamedHandle(Handle);

impl From<u32> for NamedHandle {
    fn from(number: u32) -> NamedHandle {
        NamedHandle(Handle(number))
    }
}

impl From<Handle> for NamedHandle {
    fn from(handle: Handle) -> NamedHandle {
        NamedHandle(handle)
    }
}

impl Library {
    /// Returns the library, and starts the kernel at the first call.
    ///
    /// # Errors
    /// NOT_SUPPORTED in a child of the process that has started it. A child has a copy of the
    /// handles without the threads of the machine, and shares the connection to a service.
    pub(crate) fn get() -> Result<&'static Library, Status> {
        let started = LIBRARY.get_or_make(Library::start).ok_or(Status::NOT_SUPPORTED)?;
        started.as_ref().map_err(|status| *status)
    }

    /// Returns the library if a call of this process has started it.
    pub(crate) fn started() -> Option<&'static Library> {
        LIBRARY.get()?.as_ref().ok()
    }

    fn start() -> Result<Library, Status> {
        let platform = Platform::placing_host();
        let backend = Backend::choose(&platform)?;
        Ok(Library {
            gpu_ranges: GpuRanges::new(&platform),
            own_devices: OwnDevices::new(&platform),
            nt_handles: NtHandles::new(&platform, backend.handles()),
            objects: platform.mutex("objects of the library", HandleTable::new()),
            connected: platform.mutex("the connection of the library", Connected::default()),
            rings: Rings::new(&platform),
            backend,
            platform,
        })
    }

    /// Returns the adapters, for a call that names none by handle. Connects first if the process
    /// has no connection, or its service is gone. Objects of such a connection stay what
    /// they are.
    ///
    /// # Errors
    /// OBJECT_NAME_NOT_FOUND if no service listens.
    pub(crate) fn adapters(&self) -> Result<Arc<[Arc<Adapter>]>, Status> {
        let mut connected = self.connected.lock_device();
        if connected.connection.as_ref().is_some_and(|connection| !connection.is_lost()) {
            return Ok(connected.adapters.clone());
        }
        // A client that tries until a service listens is answered each time, and reported once.
        let made = self.backend.connect(&self.platform, !connected.failed);
        connected.failed = made.is_err();
        let made = made?;
        connected.made += 1;
        let connection = connected.made;
        let adapters = made.kernels.iter().cloned().enumerate();
        let adapters = adapters.map(|(index, kernel)| Adapter { index, connection, kernel });
        connected.adapters = adapters.map(Arc::new).collect();
        connected.connection = Some(made);
        Ok(connected.adapters.clone())
    }

    /// Waits for no other thread, of which one may be in a call.
    fn end_process(&self) {
        self.backend.end_process();
        if let Some(connected) = self.connected.try_lock_device()
            && let Some(connection) = &connected.connection
        {
            connection.end_process();
        }
    }

    lookup!(adapter, Adapter, Adapter);
    lookup!(device, Device, Device);
    lookup!(context, Context, Context);
    lookup!(hw_context, HwContext, Context);
    lookup!(hw_queue, HwQueue, HwQueue);
    lookup!(doorbell, Doorbell, Doorbell);
    lookup!(fence, Fence, Fence);
    lookup!(allocation, Allocation, Allocation);
    lookup!(resource, Resource, Resource);
    lookup!(paging_queue, PagingQueue, PagingQueue);
    lookup!(keyed_mutex, KeyedMutex, KeyedMutex);

    /// Returns the object of a handle.
    pub(crate) fn object(&self, handle: u32) -> Result<Object, Status> {
        self.objects.lock().get(Handle(handle)).ok_or(Status::INVALID_PARAMETER)
    }

    /// Gives an object a handle.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES, after `end` of what the kernel has made for it.
    pub(crate) fn insert(&self, object: Object, end: impl FnOnce()) -> Result<Handle, Status> {
        let inserted = self.objects.lock().insert(object);
        inserted.map_err(|_object| {
            end();
            Status::INSUFFICIENT_RESOURCES
        })
    }

    /// Forgets a handle.
    pub(crate) fn remove(&self, handle: impl Into<NamedHandle>) -> Option<Object> {
        self.objects.lock().remove(handle.into().0)
    }

    /// Forgets the handles of a device and all its objects.
    pub(crate) fn remove_device(&self, device: &Arc<Device>) {
        let removed: Vec<Object> = {
            let mut objects = self.objects.lock();
            let of_device =
                |object: &Object| object.device().is_some_and(|d| Arc::ptr_eq(d, device));
            let handles = objects.iter().filter(|(_, object)| of_device(object));
            let handles: Vec<Handle> = handles.map(|(handle, _)| handle).collect();
            handles.into_iter().filter_map(|handle| objects.remove(handle)).collect()
        };
        self.gpu_ranges.remove_device(device);
        device.waits.cancel_all();
        drop(removed);
    }

    /// Ends the objects of this process, and its connection to a service.
    pub(crate) fn close(&self) {
        let devices = self.all(|object| match object {
            Object::Device(device) => Some(device.clone()),
            _ => None,
        });
        for (_, device) in devices {
            let _ended = device.kernel().destroy_device(device.handle);
            self.remove_device(&device);
        }
        // What is left is of no device: handles of adapters, and objects by global handle.
        for (handle, ()) in self.all(|_| Some(())) {
            match self.remove(handle) {
                Some(Object::Legacy(legacy)) => {
                    if let Some(in_kernel) = legacy.handle() {
                        let kernel = &legacy.adapter.kernel;
                        let _ended = kernel.destroy_synchronization_object(in_kernel);
                    }
                }
                Some(Object::KeyedMutex(mutex)) => mutex.end(),
                _ => {}
            }
        }
        self.nt_handles.collect();
        let closed = {
            let mut connected = self.connected.lock_device();
            let made = connected.made;
            std::mem::replace(&mut *connected, Connected { made, ..Connected::default() })
        };
        drop(closed);
    }

    /// Returns objects with their handles.
    fn all<T>(&self, wanted: impl Fn(&Object) -> Option<T>) -> Vec<(Handle, T)> {
        let objects = self.objects.lock();
        objects.iter().filter_map(|(handle, object)| Some((handle, wanted(object)?))).collect()
    }

    /// Returns any device of this process on an adapter.
    pub(crate) fn any_device(&self, adapter: &Adapter) -> Option<Arc<Device>> {
        let objects = self.objects.lock();
        objects.iter().find_map(|(_, object)| match object {
            Object::Device(device) if device.adapter.is(adapter) => Some(device.clone()),
            _ => None,
        })
    }

    /// Returns whether there is such an allocation.
    pub(crate) fn has_allocation(&self, is_it: impl Fn(&Allocation) -> bool) -> bool {
        let objects = self.objects.lock();
        let mut all = objects.iter();
        all.any(|(_, object)| matches!(object, Object::Allocation(known) if is_it(known)))
    }

    /// The number of an adapter.
    pub(crate) fn luid(adapter: &Adapter) -> Luid {
        Luid { low: adapter.index as u32 + 1, high: LUID_HIGH }
    }
}
