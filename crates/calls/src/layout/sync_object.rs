//! Owns the structures that make, open and end synchronisation objects. Called by whoever carries
//! these calls; what the flags of an object allow is decided by the call.

use super::{handle, nt_handle};
use crate::{CreateMonitoredFence, Handle, Status, SyncObjectFlags};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    MonitoredFenceArm, SyncObjectDescription, SynchronizationObjectInfo2, Union64,
};

layout! {
    // spec: MF-003
    /// Makes a synchronisation object.
    CreateSynchronizationObject2 = "D3DKMT_CREATESYNCHRONIZATIONOBJECT2", 96 bytes {
        /// The owning device. In.
        0 "hDevice" device: u32,
        /// What it is to be. In, and its addresses out.
        8 "Info" info: SynchronizationObjectInfo2,
        /// Its handle in this process. Out.
        88 "hSyncObject" sync_object: u32,
    }

    /// Closes an instance of a synchronisation object.
    DestroySynchronizationObject = "D3DKMT_DESTROYSYNCHRONIZATIONOBJECT", 4 bytes {
        /// The instance. In.
        0 "hSyncObject" sync_object: u32,
    }

    // spec: MF-081
    /// Opens an instance of a shared synchronisation object.
    OpenSyncObjectFromNtHandle2 = "D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2", 88 bytes {
        /// The shared handle. In.
        0 "hNtHandle" nt_handle: u64,
        /// The opening device. In.
        8 "hDevice" device: u32,
        /// Rules of this instance. In.
        12 "Flags" flags: u32,
        /// Its handle in this process. Out.
        16 "hSyncObject" sync_object: u32,
        /// See [`OpenedFenceArm`]. In and out.
        24 "Anonymous" arm: Union64,
    }

    /// Arm of a monitored fence. Offsets count from the union.
    OpenedFenceArm = "MonitoredFence", 24 bytes {
        /// The value, process CPU address, read-only. Out.
        0 "FenceValueCPUVirtualAddress" fence_value_cpu_va: u64,
        /// The value, process GPU address. Out.
        8 "FenceValueGPUVirtualAddress" fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        16 "EngineAffinity" engine_affinity: u32,
    }
}

impl CreateSynchronizationObject2 {
    /// The call, for a monitored fence. `name` is for reports.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and for what
    /// [`SynchronizationObjectInfo2::checked`] refuses; NOT_SUPPORTED for the other types.
    pub fn to_call<'a>(&self, name: &'a str) -> Result<CreateMonitoredFence<'a>, Status> {
        let device = handle(self.device)?;
        let (description, flags) = self.info.checked()?;
        match description {
            SyncObjectDescription::MonitoredFence { initial_value, engine_affinity } => {
                Ok(CreateMonitoredFence { device, initial_value, flags, engine_affinity, name })
            }
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, fence: Handle, fence_value_cpu_va: u64, fence_value_gpu_va: u64) {
        let asked: MonitoredFenceArm = self.info.arm.arm();
        self.info.arm =
            Union64::of(MonitoredFenceArm { fence_value_cpu_va, fence_value_gpu_va, ..asked });
        self.info.shared_handle = 0;
        self.sync_object = fence.0;
    }
}

/// What opens an instance of a shared fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenInstance {
    /// The shared handle; never 0.
    pub nt_handle: u64,
    /// The opening device.
    pub device: Handle,
    /// Rules of this instance.
    pub flags: SyncObjectFlags,
    /// One bit for each physical adapter that gets the GPU mapping; 0 for all.
    pub engine_affinity: u32,
}

impl OpenInstance {
    pub(super) fn checked(
        nt: u64,
        device: u32,
        flags: u32,
        affinity: u32,
    ) -> Result<OpenInstance, Status> {
        let device = handle(device)?;
        let flags = SyncObjectFlags::from_caller(flags)?;
        Ok(OpenInstance { nt_handle: nt_handle(nt)?, device, flags, engine_affinity: affinity })
    }
}

impl OpenSyncObjectFromNtHandle2 {
    /// What is asked for.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and reserved flags, INVALID_HANDLE for no
    /// handle.
    pub fn checked(&self) -> Result<OpenInstance, Status> {
        let arm: OpenedFenceArm = self.arm.arm();
        OpenInstance::checked(self.nt_handle, self.device, self.flags, arm.engine_affinity)
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, fence: Handle, fence_value_cpu_va: u64, fence_value_gpu_va: u64) {
        let asked: OpenedFenceArm = self.arm.arm();
        self.arm = Union64::of(OpenedFenceArm { fence_value_cpu_va, fence_value_gpu_va, ..asked });
        self.sync_object = fence.0;
    }
}

impl DestroySynchronizationObject {
    /// The instance; INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.sync_object)
    }

    /// Names an instance.
    pub fn new(fence: Handle) -> Self {
        Self { sync_object: fence.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::{Raw, argument};

    fn create() -> CreateSynchronizationObject2 {
        let info = SynchronizationObjectInfo2::monitored_fence(0x41, SyncObjectFlags::SHARED);
        CreateSynchronizationObject2 { device: 0x40, info, ..Raw::ZERO }
    }

    // spec: MF-002, MF-003
    #[test]
    fn a_monitored_fence_is_made_by_type_5() {
        let mut args = create();
        let set = [(0, 0x40), (8, 5), (12, 1), (16, 0x41)];
        assert_bytes(&args.to_bytes(), 96, &set);
        let call = args.to_call("fence").unwrap();
        assert_eq!((call.device, call.initial_value), (Handle(0x40), 0x41));
        assert_eq!((call.flags, call.name), (SyncObjectFlags::SHARED, "fence"));
        args.answer(Handle(0x80), 0x11, 0x22);
        let answered = [(24, 0x11), (32, 0x22), (88, 0x80)];
        assert_bytes(&args.to_bytes(), 96, &[&set[..], &answered].concat());
    }

    // spec: MF-015
    #[test]
    fn null_no_device_and_no_type_are_refused() {
        let nothing: Option<&CreateSynchronizationObject2> = None;
        assert_eq!(argument(nothing).unwrap_err(), Status::INVALID_PARAMETER);
        let mut args = create();
        args.device = 0;
        assert_eq!(args.to_call("").unwrap_err(), Status::INVALID_PARAMETER);
        for object_type in [0, 7, 8] {
            let mut args = create();
            args.info.object_type = object_type;
            assert_eq!(args.to_call("").unwrap_err(), Status::INVALID_PARAMETER);
        }
    }

    #[test]
    fn what_the_surface_cannot_carry_is_not_supported() {
        for object_type in [1, 2, 3, 4, 6] {
            let mut args = create();
            args.info.object_type = object_type;
            assert_eq!(args.to_call("").unwrap_err(), Status::NOT_SUPPORTED);
        }
    }

    #[test]
    fn the_engine_affinity_goes_to_the_call() {
        let mut args = create();
        args.info.arm = Union64::of(MonitoredFenceArm { engine_affinity: 2, ..Raw::ZERO });
        assert_eq!(args.to_call("").unwrap().engine_affinity, 2);
    }

    // spec: MF-081
    #[test]
    fn opening_names_handle_device_and_rules_of_the_instance() {
        let arm = Union64::of(OpenedFenceArm { engine_affinity: 0x44, ..Raw::ZERO });
        let mut args = OpenSyncObjectFromNtHandle2 {
            nt_handle: 0x11,
            device: 0x22,
            flags: 0x10,
            arm,
            ..Raw::ZERO
        };
        let opened = args.checked().unwrap();
        assert_eq!(
            opened,
            OpenInstance {
                nt_handle: 0x11,
                device: Handle(0x22),
                flags: SyncObjectFlags::NO_SIGNAL,
                engine_affinity: 0x44
            }
        );
        args.answer(Handle(0x33), 0x55, 0x66);
        let set =
            [(0, 0x11), (8, 0x22), (12, 0x10), (16, 0x33), (24, 0x55), (32, 0x66), (40, 0x44)];
        assert_bytes(&args.to_bytes(), 88, &set);
        let none = OpenSyncObjectFromNtHandle2 { nt_handle: 0, ..args };
        assert_eq!(none.checked(), Err(Status::INVALID_HANDLE));
        let no_device = OpenSyncObjectFromNtHandle2 { device: 0, ..args };
        assert_eq!(no_device.checked(), Err(Status::INVALID_PARAMETER));
        let reserved = OpenSyncObjectFromNtHandle2 { flags: 1 << 30, ..args };
        assert_eq!(reserved.checked(), Err(Status::INVALID_PARAMETER));
    }

    #[test]
    fn no_instance_cannot_be_destroyed() {
        assert_eq!(DestroySynchronizationObject::new(Handle(8)).to_call(), Ok(Handle(8)));
        assert_eq!(DestroySynchronizationObject::ZERO.to_call(), Err(Status::INVALID_PARAMETER));
    }
}
