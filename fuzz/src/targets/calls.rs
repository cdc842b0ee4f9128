//! Target `calls`: a sequence of kernel calls with any arguments and with live, destroyed or
//! invented handles.

use crate::client::Client;
use crate::input::Input;
use crate::series::{Hostile, Series};
use tidegate::calls::{
    AllocationKind, BroadcastExclusions, CreateAllocation, CreateContextVirtual, CreateDoorbell,
    CreateDoorbellFlags, CreateHwContext, CreateHwQueue, CreateMonitoredFence, CreateNativeFence,
    FenceValue, Handle, NativeFenceType, NtHandle, OpenSyncObject, Placement, Priority,
    SignalFlags, SignalFromGpu2, Status, SubmitCommand, SubmitCommandToHwQueue,
    SubmitSignalToHwQueues, SyncObjectAccess, SyncObjectFlags, WaitMode, WaitNotice,
};

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    let mut input = Input::new(data);
    let hostile = Hostile::of(input.byte());
    let rest = input.take(usize::MAX).to_vec();
    series.unharmed_by(hostile, move |client| {
        let mut program = Program::new(client);
        let mut input = Input::new(&rest);
        while !input.is_over() {
            let _refused = program.call(client, &mut input);
        }
    });
}

/// Maximum size and number of allocations, because host memory is out of scope. Larger ones take
/// most of an input's time to be zeroed.
const LARGEST_ALLOCATION: u64 = 1 << 16;
const MOST_ALLOCATIONS: usize = 16;

/// The handles of the process.
struct Program {
    handles: Vec<Handle>,
    shared: Vec<NtHandle>,
    allocations: usize,
}

impl Program {
    fn new(client: &Client) -> Program {
        let mut handles = vec![
            client.device,
            client.queue.queue.handle,
            client.queue.queue.progress_fence,
            client.queue.doorbell.handle,
        ];
        handles.extend(client.fences.iter().map(|fence| fence.handle));
        Program { handles, shared: Vec::new(), allocations: 0 }
    }

    /// Returns a handle, mostly a live one.
    fn handle(&self, input: &mut Input<'_>) -> Handle {
        match input.byte() {
            byte @ 0..=239 => self.handles[usize::from(byte) % self.handles.len()],
            240..=247 => Handle(input.raw() as u32),
            _ => Handle(input.one_of(&self.handles).0 ^ 1 << input.below(32)),
        }
    }

    fn several(&self, input: &mut Input<'_>) -> Vec<Handle> {
        (0..input.below(5)).map(|_| self.handle(input)).collect()
    }

    fn fences(&self, input: &mut Input<'_>) -> Vec<FenceValue> {
        (0..input.below(5))
            .map(|_| FenceValue { fence: self.handle(input), value: input.number() })
            .collect()
    }

    fn keep(&mut self, handle: Handle) {
        self.handles.push(handle);
    }

    fn call(&mut self, client: &mut Client, input: &mut Input<'_>) -> Result<(), Status> {
        match input.byte() % 4 {
            0 => self.make(client, input),
            1 => self.end(client, input),
            2 => self.submit(client, input),
            _ => self.synchronise(client, input),
        }
    }

    /// Calls that create an object.
    fn make(&mut self, client: &Client, input: &mut Input<'_>) -> Result<(), Status> {
        let kernel = &client.kernel;
        let (what, device) = (input.byte() % 10, self.handle(input));
        let (node_ordinal, number) = (u32::from(input.byte() % 4), input.number() as u32);
        let priority = input.one_of(&[Priority::Idle, Priority::Normal, Priority::High]);
        let (engine_affinity, initial_value) = (u32::from(input.byte() % 4), input.number());
        let flags = SyncObjectFlags::from_bits_retain(input.number() as u32);
        match what {
            0 => self.keep(kernel.create_device()?),
            1 => {
                self.allocations += 1;
                if self.allocations > MOST_ALLOCATIONS {
                    return Err(Status::NO_MEMORY);
                }
                let kind = input.one_of(&[AllocationKind::Bulk, AllocationKind::Protocol]);
                let placement = input.one_of(&[Placement::System, Placement::Local]);
                let bytes = input.number().min(LARGEST_ALLOCATION);
                let made = kernel.create_allocation(CreateAllocation {
                    device,
                    bytes,
                    kind,
                    placement,
                })?;
                self.keep(made.handle);
            }
            2 => {
                let args = CreateContextVirtual { device, node_ordinal, engine_affinity, priority };
                self.keep(kernel.create_context_virtual(args)?);
            }
            3 => {
                let args = CreateHwContext { device, node_ordinal, engine_affinity };
                self.keep(kernel.create_hw_context(args)?);
            }
            4 => {
                let user_mode_submission = input.flag();
                let args = CreateHwQueue {
                    hw_context: device,
                    user_mode_submission,
                    native_fence_commands: !user_mode_submission && priority != Priority::Normal,
                    exclusions: BroadcastExclusions { signals: !user_mode_submission, waits: true },
                    priority,
                };
                let made = kernel.create_hw_queue(args)?;
                self.handles.extend([made.handle, made.progress_fence]);
            }
            5 => {
                let args = CreateMonitoredFence {
                    device,
                    initial_value,
                    flags,
                    engine_affinity,
                    name: "m",
                };
                self.keep(kernel.create_monitored_fence(args)?.handle);
            }
            6 => {
                let fence_type =
                    input.one_of(&[NativeFenceType::Default, NativeFenceType::IntraGpu]);
                let private_data = [number as u8; 64];
                self.keep(
                    kernel
                        .create_native_fence(CreateNativeFence {
                            device,
                            initial_value,
                            fence_type,
                            flags,
                            engine_affinity,
                            private_data,
                            name: "n",
                        })?
                        .handle,
                );
            }
            7 => {
                let (ring, control) = (self.handle(input), self.handle(input));
                let private_data = vec![0; input.below(20)];
                let flags = CreateDoorbellFlags::from_bits_retain(number);
                let args = CreateDoorbell { hw_queue: device, ring, control, flags, private_data };
                self.keep(kernel.create_doorbell(args)?.handle);
            }
            8 => {
                let access = SyncObjectAccess::from_bits_retain(number);
                let name = ["", "a", "b", "Global\\a", "a\\b"].get(input.below(8)).copied();
                self.shared.push(match input.flag() {
                    true => kernel.share_objects(&self.several(input), access, name)?,
                    false => {
                        let name = name.unwrap_or_default();
                        match input.flag() {
                            true => kernel.open_nt_handle_from_name(name, access)?,
                            false => kernel.open_sync_object_nt_handle_from_name(name, access)?,
                        }
                    }
                });
            }
            _ => {
                let Some(nt_handle) = self.shared.get(input.below(self.shared.len())) else {
                    return Err(Status::INVALID_PARAMETER);
                };
                let args = OpenSyncObject { device, nt_handle, flags, engine_affinity };
                let opened = match input.flag() {
                    true => kernel.open_native_fence_from_nt_handle(args),
                    false => kernel.open_sync_object_from_nt_handle(args),
                };
                self.keep(opened?.handle);
            }
        }
        Ok(())
    }

    /// Calls that destroy an object. Its handle remains in use.
    fn end(&mut self, client: &Client, input: &mut Input<'_>) -> Result<(), Status> {
        let (kernel, handle) = (&client.kernel, self.handle(input));
        match input.byte() % 8 {
            // Rare, because most later calls would be refused.
            0 if input.below(4) == 0 => kernel.destroy_device(handle),
            1 => kernel.destroy_allocation(handle),
            2 => kernel.destroy_context(handle),
            3 => kernel.destroy_hw_context(handle),
            4 => kernel.destroy_hw_queue(handle),
            5 => kernel.destroy_synchronization_object(handle),
            6 => kernel.destroy_doorbell(handle),
            _ => kernel.device_state(handle).map(|_| ()),
        }
    }

    fn submit(&mut self, client: &mut Client, input: &mut Input<'_>) -> Result<(), Status> {
        let handle = self.handle(input);
        let commands_gpu_va = client.address(input).0;
        let command_bytes = input.number() as u32;
        match input.byte() % 8 {
            0 => {
                let buffer = client.command_buffer(input);
                client.write_memory(0, &buffer);
                Ok(())
            }
            1 | 2 => {
                let context = handle;
                client.kernel.submit_command(SubmitCommand {
                    context,
                    commands_gpu_va,
                    command_bytes,
                })
            }
            3 | 4 => client.kernel.submit_command_to_hw_queue(SubmitCommandToHwQueue {
                hw_queue: handle,
                progress_fence_id: input.number(),
                commands_gpu_va,
                command_bytes,
            }),
            5 => client.kernel.connect_doorbell(handle).map(|connection| connection.hint.rung()),
            6 => client.kernel.notify_work_submission(handle),
            _ => client.kernel.native_fence_log_detail(handle).map(|_| ()),
        }
    }

    fn synchronise(&mut self, client: &Client, input: &mut Input<'_>) -> Result<(), Status> {
        let (kernel, handle, fences) = (&client.kernel, self.handle(input), self.fences(input));
        let flags = SignalFlags::from_bits_retain(input.number() as u32);
        let mode = input.one_of(&[WaitMode::All, WaitMode::Any]);
        match input.byte() % 9 {
            // Blocks forever if the input chooses so, which only affects the process itself.
            0 if input.below(4) == 0 => kernel.wait_from_cpu(&fences, mode, None),
            0 | 1 => kernel.wait_from_cpu(&fences, mode, Some(client.platform.event(true))),
            2 => kernel.signal_from_cpu(&fences, flags),
            3 => kernel.wait_from_gpu(handle, &fences),
            4 => {
                let cpu_event =
                    input.flag().then(|| WaitNotice::Event(client.platform.event(true)));
                let contexts = self.several(input);
                kernel.signal_from_gpu2(SignalFromGpu2 {
                    contexts: &contexts,
                    fences: &fences,
                    flags,
                    cpu_event,
                })
            }
            5 => kernel.submit_wait_to_hw_queue(handle, &fences),
            6 => {
                let hw_queues = self.several(input);
                kernel.submit_signal_to_hw_queues(SubmitSignalToHwQueues {
                    hw_queues: &hw_queues,
                    fences: &fences,
                    flags,
                })
            }
            _ => {
                client.pass(input.number().min(100_000));
                Ok(())
            }
        }
    }
}
