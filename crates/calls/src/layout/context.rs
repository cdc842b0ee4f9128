//! Owns the structures that make contexts whose packets the kernel schedules, and that submit to
//! them.

use super::handle;
use crate::{Handle, Priority, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    CreateContextFlags, MAX_BROADCAST_CONTEXTS, MAX_WRITTEN_PRIMARIES,
};

layout! {
    // spec: MF-088
    /// Makes a context.
    CreateContextVirtual = "D3DKMT_CREATECONTEXTVIRTUAL", 40 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// Which engine. In.
        4 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter, as a bit. In.
        8 "EngineAffinity" engine_affinity: u32,
        /// See [`CreateContextFlags`]. In.
        12 "Flags" flags: u32,
        /// Where private driver data stands. In.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// Bytes of it. In.
        24 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Which interface the context serves: a number of D3DKMT_CLIENTHINT, for reports. In.
        28 "ClientHint" client_hint: u32,
        /// Its handle. Out.
        32 "hContext" context: u32,
    }

    // spec: HS-010
    /// Puts a context into a band; see [`crate::Kernel::set_context_scheduling_priority`].
    SetContextSchedulingPriority = "D3DKMT_SETCONTEXTSCHEDULINGPRIORITY", 8 bytes {
        /// The context. In.
        0 "hContext" context: u32,
        /// In.
        4 "Priority" priority: i32,
    }

    /// Orders a context among those of its process.
    SetContextInProcessSchedulingPriority = "D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY", 8 bytes {
        /// The context. In.
        0 "hContext" context: u32,
        /// In.
        4 "Priority" priority: i32,
    }

    // spec: MF-089
    /// Submits a command buffer to one or several contexts.
    SubmitCommand = "D3DKMT_SUBMITCOMMAND", 384 bytes {
        /// Where the commands stand, process GPU address.
        0 "Commands" commands: u64,
        /// How many bytes.
        8 "CommandLength" command_length: u32,
        /// See [`SubmitCommandFlags`].
        12 "Flags" flags: u32,
        /// For presents that are redirected.
        16 "PresentHistoryToken" present_history_token: u64,
        /// How many contexts.
        24 "BroadcastContextCount" broadcast_context_count: u32,
        /// Their handles.
        28 "BroadcastContext" broadcast_context: [u32; MAX_BROADCAST_CONTEXTS],
        /// Where private driver data stands.
        288 "pPrivateDriverData" private_driver_data: u64,
        /// Bytes of it.
        296 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// How many primaries are written; at most 16.
        300 "NumPrimaries" num_primaries: u32,
        /// Their handles.
        304 "WrittenPrimaries" written_primaries: [u32; MAX_WRITTEN_PRIMARIES],
        /// How many history buffers.
        368 "NumHistoryBuffers" num_history_buffers: u32,
        /// Where their handles stand.
        376 "HistoryBufferArray" history_buffer_array: u64,
    }
}

bitflags::bitflags! {
    /// Flags of a submission; the others are reserved.
    #[doc(alias = "D3DKMT_SUBMITCOMMANDFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SubmitCommandFlags: u32 {
        /// Nothing is rendered.
        const NULL_RENDERING = 1;
        /// It carries a present that is redirected.
        const PRESENT_REDIRECTED = 1 << 1;
        /// The kernel-mode driver does not touch the buffer.
        const NO_KMD_ACCESS = 1 << 2;
    }
}

impl CreateContextVirtual {
    /// The call. Priority, tag and lane are private driver data.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and reserved flags; NOT_SUPPORTED for another
    /// physical adapter and for a flag that nobody would act on.
    pub fn to_call(
        &self,
        priority: Priority,
        tag: u32,
        lane: u32,
    ) -> Result<crate::CreateContextVirtual, Status> {
        let device = handle(self.device)?;
        let flags = CreateContextFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        // A context of this kind does no more than its own packets say, with or without the mark.
        let acted_on = CreateContextFlags::SYNCHRONIZATION_ONLY | CreateContextFlags::INITIAL_DATA;
        if !acted_on.contains(flags) {
            return Err(Status::NOT_SUPPORTED);
        }
        let (node_ordinal, engine_affinity) = (self.node_ordinal, self.engine_affinity);
        Ok(crate::CreateContextVirtual {
            device,
            node_ordinal,
            engine_affinity,
            priority,
            tag,
            lane,
        })
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, context: Handle) {
        self.context = context.0;
    }
}

impl SubmitCommand {
    /// The call; `queued_ns` is the stamp of the submission, CPU ns.
    ///
    /// Errors: INVALID_PARAMETER for none or more than 64 contexts, a zero context, reserved flags
    /// and more than 16 primaries; NOT_SUPPORTED for several contexts and for presents.
    pub fn to_call(&self, queued_ns: u64) -> Result<crate::SubmitCommand, Status> {
        let flags = SubmitCommandFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let contexts = self.broadcast_context_count as usize;
        if contexts == 0
            || contexts > MAX_BROADCAST_CONTEXTS
            || self.num_primaries as usize > MAX_WRITTEN_PRIMARIES
        {
            return Err(Status::INVALID_PARAMETER);
        }
        let context = handle(self.broadcast_context[0])?;
        if contexts > 1 || !SubmitCommandFlags::NO_KMD_ACCESS.contains(flags) {
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(crate::SubmitCommand {
            context,
            commands_gpu_va: self.commands,
            command_bytes: self.command_length,
            queued_ns,
        })
    }
}

impl SetContextSchedulingPriority {
    /// The context and its priority. INVALID_PARAMETER for a zero context.
    pub fn to_call(&self) -> Result<(Handle, i32), Status> {
        Ok((handle(self.context)?, self.priority))
    }
}

impl SetContextInProcessSchedulingPriority {
    /// The context and its priority. INVALID_PARAMETER for a zero context.
    pub fn to_call(&self) -> Result<(Handle, i32), Status> {
        Ok((handle(self.context)?, self.priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    // spec: MF-088
    #[test]
    fn a_context_names_device_and_node() {
        let mut args = CreateContextVirtual {
            device: 0x11,
            node_ordinal: 0x22,
            engine_affinity: 2,
            flags: 8,
            private_driver_data: 0x33,
            private_driver_data_size: 0x44,
            client_hint: 12,
            context: 0,
        };
        let call = args.to_call(Priority::Idle, 7, 8).unwrap();
        assert_eq!((call.device, call.node_ordinal, call.engine_affinity), (Handle(0x11), 0x22, 2));
        assert_eq!((call.priority, call.tag, call.lane), (Priority::Idle, 7, 8));
        args.answer(Handle(0x55));
        let set =
            [(0, 0x11), (4, 0x22), (8, 2), (12, 8), (16, 0x33), (24, 0x44), (28, 12), (32, 0x55)];
        assert_bytes(&args.to_bytes(), 40, &set);
        let refused = |args: CreateContextVirtual| args.to_call(Priority::Idle, 7, 8).unwrap_err();
        assert_eq!(refused(CreateContextVirtual { device: 0, ..args }), Status::INVALID_PARAMETER);
        assert_eq!(
            refused(CreateContextVirtual { flags: 0x80, ..args }),
            Status::INVALID_PARAMETER
        );
        assert_eq!(refused(CreateContextVirtual { flags: 1, ..args }), Status::NOT_SUPPORTED);
    }

    fn submit() -> SubmitCommand {
        let mut broadcast_context = [0; 64];
        (broadcast_context[0], broadcast_context[63]) = (0x44, 0x45);
        let mut written_primaries = [0; 16];
        (written_primaries[0], written_primaries[15]) = (0x77, 0x78);
        SubmitCommand {
            commands: 0x11,
            command_length: 0x22,
            flags: 4,
            present_history_token: 0x33,
            broadcast_context_count: 1,
            broadcast_context,
            private_driver_data: 0x55,
            private_driver_data_size: 0x66,
            num_primaries: 16,
            written_primaries,
            num_history_buffers: 0x79,
            history_buffer_array: 0x7A,
        }
    }

    // spec: MF-089
    #[test]
    fn a_submission_names_contexts_and_buffer() {
        let set = [
            (0, 0x11),
            (8, 0x22),
            (12, 4),
            (16, 0x33),
            (24, 1),
            (28, 0x44),
            (280, 0x45),
            (288, 0x55),
            (296, 0x66),
            (300, 16),
            (304, 0x77),
            (364, 0x78),
            (368, 0x79),
            (376, 0x7A),
        ];
        assert_bytes(&submit().to_bytes(), 384, &set);
        let call = submit().to_call(9).unwrap();
        assert_eq!((call.context, call.queued_ns), (Handle(0x44), 9));
        assert_eq!((call.commands_gpu_va, call.command_bytes), (0x11, 0x22));
    }

    #[test]
    fn a_submission_that_makes_no_sense_is_refused() {
        let refused = |args: SubmitCommand| args.to_call(9).unwrap_err();
        let bad = [
            SubmitCommand { broadcast_context_count: 0, ..submit() },
            SubmitCommand { broadcast_context_count: 65, ..submit() },
            SubmitCommand { broadcast_context: [0; 64], ..submit() },
            SubmitCommand { flags: 8, ..submit() },
            SubmitCommand { num_primaries: 17, ..submit() },
        ];
        for args in bad {
            assert_eq!(refused(args), Status::INVALID_PARAMETER);
        }
        assert_eq!(
            refused(SubmitCommand { broadcast_context_count: 2, ..submit() }),
            Status::NOT_SUPPORTED
        );
        assert_eq!(refused(SubmitCommand { flags: 2, ..submit() }), Status::NOT_SUPPORTED);
        assert_eq!(submit(), SubmitCommand::read(&submit().to_bytes()));
        assert_eq!(SubmitCommand::ZERO.to_bytes(), [0; 384]);
    }

    // spec: HS-010
    #[test]
    fn priorities_are_signed_and_stand_behind_their_context() {
        let args = SetContextSchedulingPriority { context: 0x11, priority: -7 };
        assert_eq!(args.to_bytes(), [0x11, 0, 0, 0, 0xF9, 0xFF, 0xFF, 0xFF]);
        assert_eq!(args.to_call(), Ok((Handle(0x11), -7)));
        assert_eq!(SetContextSchedulingPriority::ZERO.to_call(), Err(Status::INVALID_PARAMETER));
        let args = SetContextInProcessSchedulingPriority { context: 0x11, priority: 1 };
        assert_eq!(args.to_bytes(), [0x11, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(args.to_call(), Ok((Handle(0x11), 1)));
        assert_eq!(
            SetContextInProcessSchedulingPriority::ZERO.to_call(),
            Err(Status::INVALID_PARAMETER)
        );
    }
}
