//! Owns the creation flags of contexts and hardware queues, which the runtime, the kernel and the
//! driver read alike. They are only numbers here: what a flag does is decided where the call is
//! carried out.

bitflags::bitflags! {
    /// Creation flags of a hardware queue.
    #[doc(alias = "D3DDDI_CREATEHWQUEUEFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateHwQueueFlags: u32 {
        /// Its work may take as long as it likes.
        const DISABLE_GPU_TIMEOUT = 1;
        /// It takes no part in broadcast signals.
        const NO_BROADCAST_SIGNAL = 1 << 1;
        /// It takes no part in broadcast waits.
        const NO_BROADCAST_WAIT = 1 << 2;
        /// The kernel-mode driver never touches its command buffers.
        const NO_KMD_ACCESS = 1 << 3;
        /// It takes work by doorbell alone.
        const USER_MODE_SUBMISSION = 1 << 4;
        /// Its progress fence is a native one. The kernel says so; a caller does not ask for it.
        const NATIVE_PROGRESS_FENCE = 1 << 5;
        /// For tests of the kernel.
        const TEST_QUEUE = 1 << 6;
    }
}

bitflags::bitflags! {
    /// Creation flags of a context.
    #[doc(alias = "D3DDDI_CREATECONTEXTFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateContextFlags: u32 {
        /// Nothing is rendered.
        const NULL_RENDERING = 1;
        /// Used for initial data of resources.
        const INITIAL_DATA = 1 << 1;
        /// Its work may take as long as it likes.
        const DISABLE_GPU_TIMEOUT = 1 << 2;
        /// It carries waits and signals and no work.
        const SYNCHRONIZATION_ONLY = 1 << 3;
        /// Hardware queues may be made in it.
        const HW_QUEUE_SUPPORTED = 1 << 4;
        /// The kernel-mode driver never touches its command buffers.
        const NO_KMD_ACCESS = 1 << 5;
        /// For tests of the kernel.
        const TEST_CONTEXT = 1 << 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_where_the_header_has_them() {
        assert_eq!(CreateHwQueueFlags::USER_MODE_SUBMISSION.bits(), 0x10);
        assert_eq!(CreateHwQueueFlags::NATIVE_PROGRESS_FENCE.bits(), 0x20);
        assert_eq!(CreateHwQueueFlags::all().bits(), 0x7F);
        assert_eq!(CreateHwQueueFlags::from_bits(0x80), None);
        assert_eq!(CreateContextFlags::HW_QUEUE_SUPPORTED.bits(), 0x10);
        assert_eq!(CreateContextFlags::all().bits(), 0x7F);
        assert_eq!(CreateContextFlags::from_bits(0x80), None);
    }
}
