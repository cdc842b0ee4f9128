//! What a machine keeps of objects that have ended. Each kind is made and ended ten thousand times
//! on one machine, after two thousand times for the tables to reach their size. The heap of this
//! process has no more bytes in use then. It is a separate test because the heap belongs to the
//! whole process. Resident memory is not compared: it also depends on what the heap and the host
//! give back, and when.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Waker};
use tidegate::calls::{
    AllocationKind, CreateAllocation, CreateSynchronizationObject, OlderObject,
    OpenSynchronizationObject, Placement, SignalFlags, SyncObjectFlags, WaitMode,
};
use tidegate::d3d12::{
    BufferDesc, CommandListType, Device, DeviceOptions, EventDesc, HeapDesc, QueueDesc, Submission,
};
use tidegate::gpu_abi::Command;
use tidegate::kmd::DoorbellModel;
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_testbed::{Client, SignalAndWait, UserQueue, at, setup};

/// Objects of a kind that are made and ended before the memory is measured, and meanwhile.
const BEFORE: u64 = 2_000;
const MEASURED: u64 = 10_000;
const MEASURES: u32 = 4;

/// Growth in which a table with an entry of 64 bytes for each object shows. What tables and threads
/// keep for their next objects differs by less.
const ALLOWED_BYTES: u64 = MEASURED * 32;

/// The two addresses of a shareable fence that has ended stay mapped while its process lives. Each
/// has an entry of 8 bytes in the page tables; the kernel keeps nothing else. A ring may hold waits
/// and signals for these addresses, and the kernel sees neither the slots nor their end.
/// - Without the mapping, such a wait would fault, and it has to pass.
/// - With another fence at the address, such a wait would be judged by epochs of that fence, which
///   may be lower than its own, and such a signal would change that fence for all processes.
const SHARED_FENCE: &str = "a shared fence";
const MAPPED_BYTES: u64 = MEASURED * 16;

fn allowed_bytes(kind: &str) -> u64 {
    ALLOWED_BYTES + if kind == SHARED_FENCE { MAPPED_BYTES } else { 0 }
}

/// A machine without the layers of tests, which record each call, a process, and a device of the
/// queue API in another process.
struct World {
    machine: Arc<Machine>,
    client: Client,
    api: Device,
}

impl Deref for World {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

fn heap_bytes() -> u64 {
    tidegate::platform::os::heap_bytes().expect("a C library that counts the bytes of its heap")
}

/// Returns the bytes that stay of [`MEASURED`] objects. Those whose end an agent has yet to see are
/// no growth, and a busy host may have many of them at one measure, so the least of several counts.
fn least_growth(name: &str, make_and_end: impl Fn()) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..MEASURES {
        let before = heap_bytes();
        (0..MEASURED).for_each(|_| make_and_end());
        least = least.min(heap_bytes().saturating_sub(before));
        if least <= allowed_bytes(name) {
            break;
        }
    }
    least
}

fn end_queue(client: &Client, queue: &UserQueue) {
    let kernel = &client.kernel;
    kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    kernel.destroy_hw_queue(queue.queue.handle).unwrap();
    kernel.destroy_allocation(queue.ring.handle).unwrap();
    kernel.destroy_allocation(queue.control.handle).unwrap();
}

/// Makes an object and ends it.
type MakeAndEnd = fn(&World);

fn user_mode_queue(w: &World) {
    let context = w.hw_context(0);
    let queue = w.with_ring(w.hw_queue_in(context, true).unwrap());
    let fence = w.native(0);
    queue.connect().unwrap();
    queue.signal_and_wait(&fence, 1);
    end_queue(w, &queue);
    w.destroy(&fence);
    w.kernel.destroy_hw_context(context).unwrap();
}

fn hardware_queue(w: &World) {
    let context = w.hw_context(0);
    let queue = w.hw_queue_in(context, false).unwrap();
    let made = submit(w, |commands_gpu_va, command_bytes| {
        let args = tidegate::calls::SubmitCommandToHwQueue {
            hw_queue: queue.handle,
            progress_fence_id: 1,
            commands_gpu_va,
            command_bytes,
        };
        w.kernel.submit_command_to_hw_queue(args).unwrap();
        w.wait_progress(&queue, 1).unwrap();
    });
    w.kernel.destroy_allocation(made).unwrap();
    w.kernel.destroy_hw_queue(queue.handle).unwrap();
    w.kernel.destroy_hw_context(context).unwrap();
}

/// Calls `submit` with a command buffer. Returns its allocation.
fn submit(w: &Client, submit: impl FnOnce(u64, u32)) -> tidegate::calls::Handle {
    let mut writer = tidegate::gpu_abi::CommandWriter::new();
    writer.push(&Command::Timed { ns: 1 });
    let bytes = writer.to_bytes();
    let made = w.allocate(bytes.len() as u64, AllocationKind::Bulk);
    let tidegate::calls::AllocationMemory::Bulk(memory) = &made.memory else {
        panic!("bulk memory was requested")
    };
    memory.write(0, &bytes).unwrap();
    submit(made.gpu_va, bytes.len() as u32);
    made.handle
}

fn packet_context(w: &World) {
    let (context, fence) = (w.context(0), w.monitored(0));
    let made = submit(w, |commands_gpu_va, command_bytes| {
        let args = tidegate::calls::SubmitCommand { context, commands_gpu_va, command_bytes };
        w.kernel.submit_command(args).unwrap();
        w.on(context).signal_and_wait(&fence, 1);
    });
    w.kernel.destroy_allocation(made).unwrap();
    w.kernel.destroy_context(context).unwrap();
    w.destroy(&fence);
}

fn shared_fence(w: &World) {
    let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let fence = w.try_native(0, shared).unwrap();
    let handle = w.share_all(&fence);
    let opened = w.open_fence(&handle);
    let waited = w.wait_event(&opened, 1);
    w.signal(&fence, 1);
    waited.wait();
    w.destroy(&opened);
    w.destroy(&fence);
}

fn fence_with_rewinds(w: &World) {
    let fence = w.monitored(5);
    w.signal(&fence, 3);
    w.kernel.wait_from_cpu(&at(&fence, 3), WaitMode::All, None).unwrap();
    w.destroy(&fence);
}

fn mutex(w: &World) {
    let context = w.context(0);
    let made = w.kernel.create_synchronization_object(CreateSynchronizationObject {
        device: w.device,
        object: OlderObject::Mutex { owned: false },
        flags: SyncObjectFlags::SHARED,
    });
    let made = made.unwrap();
    let shared = OpenSynchronizationObject::Shared(made.shared_handle);
    let opened = w.kernel.open_synchronization_object(shared).unwrap();
    w.kernel.wait_for_synchronization_objects(context, &[made.handle], 0).unwrap();
    let none = SignalFlags::empty();
    w.kernel.signal_synchronization_objects(&[context], &[opened], none, 0).unwrap();
    w.kernel.destroy_context(context).unwrap();
    w.kernel.destroy_synchronization_object(opened).unwrap();
    w.kernel.destroy_synchronization_object(made.handle).unwrap();
}

fn allocation(w: &World) {
    let queue = w.paging_queue();
    for placement in [Placement::System, Placement::Local] {
        let args = CreateAllocation {
            device: w.device,
            bytes: 8_192,
            kind: AllocationKind::Bulk,
            placement,
        };
        let made = w.kernel.create_allocation(args).unwrap();
        w.kernel.destroy_allocation(made.handle).unwrap();
    }
    w.kernel.destroy_paging_queue(queue.handle).unwrap();
}

fn device(w: &World) {
    let device = w.another_device();
    let context = device.context(0);
    device.kernel.destroy_context(context).unwrap();
    device.kernel.destroy_device(device.device).unwrap();
}

fn process(w: &World) {
    let client = Client::open(&w.machine, "a process");
    let (queue, fence) = (client.user_queue(0), client.native(0));
    queue.connect().unwrap();
    queue.signal_and_wait(&fence, 1);
    let _context = client.context(0);
    drop(client);
}

fn api_queue(w: &World, submission: Submission) {
    let queue = w.api.create_queue(QueueDesc::copy("a queue").submission(submission)).unwrap();
    let fence = w.api.create_fence("a fence", 0).unwrap();
    queue.signal_and_wait(&fence, 1);
    queue.wait_idle().unwrap();
}

fn api_packet_queue(w: &World) {
    api_queue(w, Submission::Packet);
}

fn api_hardware_queue(w: &World) {
    api_queue(w, Submission::Hardware);
}

fn api_user_mode_queue(w: &World) {
    api_queue(w, Submission::User);
}

fn api_list(w: &World) {
    let queue = w.api.default_queue(CommandListType::Copy, None).unwrap();
    let allocator = w.api.create_command_allocator("lists", CommandListType::Copy);
    let mut list = w.api.create_command_list_from(&allocator).unwrap();
    list.label("nothing").unwrap();
    queue.execute(&[&list.close().unwrap()]).unwrap();
    queue.wait_idle().unwrap();
}

fn api_memory(w: &World) {
    let upload = w.api.create_buffer(BufferDesc::upload("a buffer", 4_096)).unwrap();
    upload.write(0, &[1; 16]).unwrap();
    let heap = w.api.create_heap(HeapDesc::new("a heap", 65_536)).unwrap();
    let placed = BufferDesc::new("a placed buffer", 4_096);
    let _placed = w.api.create_placed_buffer(&heap, 0, placed).unwrap();
}

/// Polls a future once, so that it is registered, and ends it.
fn api_events(w: &World) {
    let fence = w.api.create_fence("a fence", 0).unwrap();
    let event = w.api.create_event(EventDesc::auto_reset());
    fence.set_event_on_completion(1, &event).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let [mut awaited, mut dropped] = [1, 2].map(|value| Box::pin(fence.reached(value)));
    assert!(awaited.as_mut().poll(&mut cx).is_pending());
    assert!(dropped.as_mut().poll(&mut cx).is_pending());
    fence.signal(1).unwrap();
    event.wait().unwrap();
    assert!(awaited.as_mut().poll(&mut cx).is_ready());
}

fn api_device(w: &World) {
    let device = w.machine.device(DeviceOptions::new("a device")).unwrap();
    let _fence = device.create_fence("a fence", 0).unwrap();
}

#[test]
fn what_has_ended_leaves_nothing() {
    let kinds: [(&str, MakeAndEnd); 16] = [
        ("a user-mode queue", user_mode_queue),
        ("a hardware queue", hardware_queue),
        ("a context", packet_context),
        (SHARED_FENCE, shared_fence),
        ("a fence with rewinds", fence_with_rewinds),
        ("a mutex", mutex),
        ("an allocation", allocation),
        ("a device", device),
        ("a process", process),
        ("a packet queue of the API", api_packet_queue),
        ("a hardware queue of the API", api_hardware_queue),
        ("a user-mode queue of the API", api_user_mode_queue),
        ("a list of the API", api_list),
        ("memory of the API", api_memory),
        ("events of the API", api_events),
        ("a device of the API", api_device),
    ];
    let config = |config: &mut MachineConfig| config.driver.doorbells = DoorbellModel::Global;
    let machine = Arc::new(setup(config).on(Platform::closed_host()).machine());
    let app = machine.clone();
    let run = machine.run(move || {
        let device = app.device(DeviceOptions::new("the application's device")).unwrap();
        let w = World { client: Client::open(&app, "the application"), machine: app, api: device };
        kinds.map(|(name, make_and_end)| {
            (0..BEFORE).for_each(|_| make_and_end(&w));
            (name, least_growth(name, || make_and_end(&w)))
        })
    });
    let grown = run.expect("the run ends");
    let over = grown.iter().filter(|(kind, bytes)| *bytes > allowed_bytes(kind));
    assert_eq!(over.count(), 0, "bytes that stay of {MEASURED} objects: {grown:?}");
}
