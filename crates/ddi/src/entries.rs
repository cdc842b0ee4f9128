//! The entries of DRIVER_INITIALIZATION_DATA that a driver may leave out.
//!
//! A driver states the ones that it has ([`crate::Driver::optional_entries`]); the kernel checks at
//! start that each declared capability has the entries that it rests on. The other entries are
//! methods without a default.

bitflags::bitflags! {
    /// Entries that are NULL in the table of a driver that leaves them out.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OptionalEntries: u32 {
        /// DxgkDdiPreemptCommand
        const PREEMPT_COMMAND = 1;
        /// DxgkDdiCancelCommand
        const CANCEL_COMMAND = 1 << 1;
        /// DxgkDdiQueryCurrentFence
        const QUERY_CURRENT_FENCE = 1 << 2;
        /// DxgkDdiQueryDependentEngineGroup
        const QUERY_DEPENDENT_ENGINE_GROUP = 1 << 3;
        /// DxgkDdiQueryEngineStatus
        const QUERY_ENGINE_STATUS = 1 << 4;
        /// DxgkDdiResetEngine
        const RESET_ENGINE = 1 << 5;
        /// DxgkDdiResetHwEngine
        const RESET_HW_ENGINE = 1 << 6;
        /// DxgkDdiResumeHwEngine
        const RESUME_HW_ENGINE = 1 << 7;
        /// DxgkDdiRender
        const RENDER = 1 << 8;
        /// DxgkDdiPatch
        const PATCH = 1 << 9;
        /// DxgkDdiSubmitCommand
        const SUBMIT_COMMAND = 1 << 10;
        /// DxgkDdiSetVidPnSourceAddress
        const SET_VID_PN_SOURCE_ADDRESS = 1 << 11;
        /// DxgkDdiSetVidPnSourceVisibility
        const SET_VID_PN_SOURCE_VISIBILITY = 1 << 12;
        /// DxgkDdiControlInterrupt
        const CONTROL_INTERRUPT = 1 << 13;
        /// The adapter's common doorbell, for other adapters ([`crate::Driver::common_doorbell`]).
        const COMMON_DOORBELL = 1 << 14;
        /// [`crate::Driver::connect_peer`]
        const CONNECT_PEER = 1 << 15;
        /// [`crate::Driver::link_native_fence`]
        const LINK_NATIVE_FENCE = 1 << 16;
    }
}

/// The published name of each entry; for those that are ours, the method's.
const NAMES: [(OptionalEntries, &str); 17] = [
    (OptionalEntries::PREEMPT_COMMAND, "DxgkDdiPreemptCommand"),
    (OptionalEntries::CANCEL_COMMAND, "DxgkDdiCancelCommand"),
    (OptionalEntries::QUERY_CURRENT_FENCE, "DxgkDdiQueryCurrentFence"),
    (OptionalEntries::QUERY_DEPENDENT_ENGINE_GROUP, "DxgkDdiQueryDependentEngineGroup"),
    (OptionalEntries::QUERY_ENGINE_STATUS, "DxgkDdiQueryEngineStatus"),
    (OptionalEntries::RESET_ENGINE, "DxgkDdiResetEngine"),
    (OptionalEntries::RESET_HW_ENGINE, "DxgkDdiResetHwEngine"),
    (OptionalEntries::RESUME_HW_ENGINE, "DxgkDdiResumeHwEngine"),
    (OptionalEntries::RENDER, "DxgkDdiRender"),
    (OptionalEntries::PATCH, "DxgkDdiPatch"),
    (OptionalEntries::SUBMIT_COMMAND, "DxgkDdiSubmitCommand"),
    (OptionalEntries::SET_VID_PN_SOURCE_ADDRESS, "DxgkDdiSetVidPnSourceAddress"),
    (OptionalEntries::SET_VID_PN_SOURCE_VISIBILITY, "DxgkDdiSetVidPnSourceVisibility"),
    (OptionalEntries::CONTROL_INTERRUPT, "DxgkDdiControlInterrupt"),
    (OptionalEntries::COMMON_DOORBELL, "common_doorbell"),
    (OptionalEntries::CONNECT_PEER, "connect_peer"),
    (OptionalEntries::LINK_NATIVE_FENCE, "link_native_fence"),
];

impl OptionalEntries {
    /// The name of the first entry of the set; `None` for the empty set.
    pub fn first_name(self) -> Option<&'static str> {
        NAMES.iter().find(|(entry, _)| self.contains(*entry)).map(|(_, name)| *name)
    }
}
