//! Owns the structure that describes a synchronisation object of any type, with the arms of its
//! union, and the rights that a shared handle carries. Which types can be made is decided where the
//! call is carried out.

use super::{Raw, Union64};
use crate::{Status, SyncObjectFlags, SynchronizationObjectType, layout};

layout! {
    // spec: MF-093
    /// Describes a synchronisation object: its type says which arm of the union applies.
    SynchronizationObjectInfo2 = "D3DDDI_SYNCHRONIZATIONOBJECTINFO2", 80 bytes {
        /// See [`SynchronizationObjectType`]. In.
        0 "Type" object_type: u32,
        /// See [`SyncObjectFlags`]. In.
        4 "Flags" flags: u32,
        /// One of the arms. In and out.
        8 "Anonymous" arm: Union64,
        /// A global handle, for the old way of sharing alone; else 0. Out.
        72 "SharedHandle" shared_handle: u32,
    }

    /// Arm of type 1.
    SynchronizationMutexArm = "SynchronizationMutex", 4 bytes {
        /// Whether the creator owns it at birth.
        0 "InitialState" initial_state: u32,
    }

    /// Arm of type 2.
    SemaphoreArm = "Semaphore", 8 bytes {
        /// The largest count.
        0 "MaxCount" max_count: u32,
        /// The count at birth.
        4 "InitialCount" initial_count: u32,
    }

    /// Arm of type 3.
    FenceArm = "Fence", 8 bytes {
        /// The value at birth.
        0 "FenceValue" fence_value: u64,
    }

    /// Arm of type 4.
    CpuNotificationArm = "CPUNotification", 8 bytes {
        /// The event that is set.
        0 "Event" event: u64,
    }

    /// Arm of type 5. Offsets count from the union.
    MonitoredFenceArm = "MonitoredFence", 32 bytes {
        /// The value at birth. In.
        0 "InitialFenceValue" initial_fence_value: u64,
        /// The value, process CPU address, read-only. Out.
        8 "FenceValueCPUVirtualAddress" fence_value_cpu_va: u64,
        /// The value, process GPU address. Out.
        16 "FenceValueGPUVirtualAddress" fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        24 "EngineAffinity" engine_affinity: u32,
        /// Nothing.
        28 "Padding" padding: u32,
    }

    /// Arm of type 6. Offsets count from the union.
    PeriodicMonitoredFenceArm = "PeriodicMonitoredFence", 40 bytes {
        /// The adapter whose display drives it. In.
        0 "hAdapter" adapter: u32,
        /// The display. In.
        4 "VidPnTargetId" vidpn_target_id: u32,
        /// How long before the vertical blank, in 100 ns. In.
        8 "Time" time_100ns: u64,
        /// The value, process CPU address, read-only. Out.
        16 "FenceValueCPUVirtualAddress" fence_value_cpu_va: u64,
        /// The value, process GPU address, read-only. Out.
        24 "FenceValueGPUVirtualAddress" fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        32 "EngineAffinity" engine_affinity: u32,
        /// Nothing.
        36 "Padding" padding: u32,
    }
}

/// What a [`SynchronizationObjectInfo2`] asks for, once it was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncObjectDescription {
    /// Type 1.
    SynchronizationMutex {
        /// Whether the creator owns it at birth.
        initial_state: bool,
    },
    /// Type 2.
    Semaphore {
        /// The largest count.
        max_count: u32,
        /// The count at birth.
        initial_count: u32,
    },
    /// Type 3.
    Fence {
        /// The value at birth.
        initial_value: u64,
    },
    /// Type 4.
    CpuNotification {
        /// The event that is set; never 0.
        event: u64,
    },
    /// Type 5.
    MonitoredFence {
        /// The value at birth.
        initial_value: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all.
        engine_affinity: u32,
    },
    /// Type 6.
    PeriodicMonitoredFence {
        /// The adapter whose display drives it.
        adapter: u32,
        /// The display.
        vidpn_target_id: u32,
        /// How long before the vertical blank, in 100 ns.
        time_100ns: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all.
        engine_affinity: u32,
    },
}

impl SynchronizationObjectInfo2 {
    /// What is asked for, and by which rules.
    ///
    /// Errors: INVALID_PARAMETER for type 0, one beyond the last, the native fence's (which has a
    /// call of its own) and reserved flags; INVALID_HANDLE for a notification without an event.
    pub fn checked(&self) -> Result<(SyncObjectDescription, SyncObjectFlags), Status> {
        let object_type = SynchronizationObjectType::try_from(self.object_type)?;
        let flags = SyncObjectFlags::from_caller(self.flags)?;
        Ok((self.description(object_type)?, flags))
    }

    fn description(
        &self,
        object_type: SynchronizationObjectType,
    ) -> Result<SyncObjectDescription, Status> {
        Ok(match object_type {
            SynchronizationObjectType::SynchronizationMutex => {
                let arm: SynchronizationMutexArm = self.arm.arm();
                SyncObjectDescription::SynchronizationMutex {
                    initial_state: arm.initial_state != 0,
                }
            }
            SynchronizationObjectType::Semaphore => {
                let SemaphoreArm { max_count, initial_count } = self.arm.arm();
                SyncObjectDescription::Semaphore { max_count, initial_count }
            }
            SynchronizationObjectType::Fence => {
                let arm: FenceArm = self.arm.arm();
                SyncObjectDescription::Fence { initial_value: arm.fence_value }
            }
            SynchronizationObjectType::CpuNotification => match self.arm.arm() {
                CpuNotificationArm { event: 0 } => return Err(Status::INVALID_HANDLE),
                CpuNotificationArm { event } => SyncObjectDescription::CpuNotification { event },
            },
            SynchronizationObjectType::MonitoredFence => {
                let arm: MonitoredFenceArm = self.arm.arm();
                SyncObjectDescription::MonitoredFence {
                    initial_value: arm.initial_fence_value,
                    engine_affinity: arm.engine_affinity,
                }
            }
            SynchronizationObjectType::PeriodicMonitoredFence => {
                let arm: PeriodicMonitoredFenceArm = self.arm.arm();
                SyncObjectDescription::PeriodicMonitoredFence {
                    adapter: arm.adapter,
                    vidpn_target_id: arm.vidpn_target_id,
                    time_100ns: arm.time_100ns,
                    engine_affinity: arm.engine_affinity,
                }
            }
            SynchronizationObjectType::NativeFence => return Err(Status::INVALID_PARAMETER),
        })
    }

    /// A description of a monitored fence, as a caller fills it.
    pub fn monitored_fence(initial_value: u64, flags: SyncObjectFlags) -> Self {
        Self {
            object_type: SynchronizationObjectType::MonitoredFence as u32,
            flags: flags.bits(),
            arm: Union64::of(MonitoredFenceArm { initial_fence_value: initial_value, ..Raw::ZERO }),
            shared_handle: 0,
        }
    }
}

bitflags::bitflags! {
    /// What the holder of a shared handle may do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SyncObjectAccess: u32 {
        /// Open an instance that waits.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_WAIT")]
        const WAIT = 1;
        /// Open an instance that signals.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_SIGNAL")]
        const SIGNAL = 1 << 1;
        /// Delete, read and change the object's security.
        #[doc(alias = "STANDARD_RIGHTS_REQUIRED")]
        const STANDARD_RIGHTS = 0x000F_0000;
        /// Wait on the handle itself.
        const SYNCHRONIZE = 0x0010_0000;
        /// All of them.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_ALL_ACCESS")]
        const ALL = 0x001F_0003;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(object_type: u32, arm: Union64) -> SynchronizationObjectInfo2 {
        SynchronizationObjectInfo2 { object_type, arm, ..Raw::ZERO }
    }

    // spec: MF-093
    #[test]
    fn a_monitored_fence_stands_where_the_header_has_it() {
        let mut info = SynchronizationObjectInfo2::monitored_fence(0x11, SyncObjectFlags::NO_WAIT);
        info.shared_handle = 0x22;
        let arm = MonitoredFenceArm {
            fence_value_cpu_va: 0x33,
            fence_value_gpu_va: 0x44,
            engine_affinity: 0x55,
            padding: 0,
            ..info.arm.arm()
        };
        info.arm = Union64::of(arm);
        let bytes = info.to_bytes();
        assert_eq!(bytes.len(), 80);
        let set = [(0, 5), (4, 0x20), (8, 0x11), (16, 0x33), (24, 0x44), (32, 0x55), (72, 0x22)];
        for (at, byte) in set {
            assert_eq!(bytes[at], byte, "byte {at}");
        }
        assert_eq!(bytes.iter().filter(|b| **b != 0).count(), set.len());
    }

    // spec: MF-002, MF-015
    #[test]
    fn the_type_says_which_arm_applies() {
        let words = Union64 { words: [0x0000_0002_0000_0003, 4, 5, 6, 7, 0, 0, 0] };
        let kinds: Vec<_> = (1..=6).map(|kind| info(kind, words).checked().unwrap().0).collect();
        let long = 0x0000_0002_0000_0003;
        assert_eq!(
            kinds,
            [
                SyncObjectDescription::SynchronizationMutex { initial_state: true },
                SyncObjectDescription::Semaphore { max_count: 3, initial_count: 2 },
                SyncObjectDescription::Fence { initial_value: long },
                SyncObjectDescription::CpuNotification { event: long },
                SyncObjectDescription::MonitoredFence { initial_value: long, engine_affinity: 6 },
                SyncObjectDescription::PeriodicMonitoredFence {
                    adapter: 3,
                    vidpn_target_id: 2,
                    time_100ns: 4,
                    engine_affinity: 7,
                },
            ]
        );
        for kind in [0, 7, 8, u32::MAX] {
            assert_eq!(info(kind, words).checked(), Err(Status::INVALID_PARAMETER), "type {kind}");
        }
        assert_eq!(info(4, Raw::ZERO).checked(), Err(Status::INVALID_HANDLE));
        let reserved = SynchronizationObjectInfo2 { flags: 1 << 11, ..info(5, words) };
        assert_eq!(reserved.checked(), Err(Status::INVALID_PARAMETER));
    }

    #[test]
    fn all_access_is_every_right() {
        assert_eq!(SyncObjectAccess::ALL.bits(), 0x000F_0000 | 0x0010_0000 | 3);
        assert_eq!(SyncObjectAccess::from_bits(4), None);
    }
}
