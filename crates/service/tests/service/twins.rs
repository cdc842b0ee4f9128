//! What a call returns is the same in the machine's process and over a service, but for handles,
//! addresses of the CPU, and numbers of the whole kernel.

use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, CreateDoorbell, CreateDoorbellFlags, FenceInstance, HwQueue,
    Kernel, LogDetail, SyncObjectFlags,
};
use tidegate::service::server::ServerConfig;
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_testbed::{Client, Service};

fn fence(made: &FenceInstance) -> String {
    let FenceInstance {
        handle: _,
        value,
        epoch,
        value_cpu_va,
        cache_type,
        current_value_gpu_va,
        monitored_value_gpu_va,
        native,
        private_data,
        trace_fence: _,
        number: _,
    } = made;
    let value = value.get();
    let epoch = epoch.as_ref().map(|epoch| epoch.load());
    format!(
        "{value:?} {epoch:?} {} {cache_type:?} {current_value_gpu_va:#x} \
         {monitored_value_gpu_va:#x} {native} {private_data:?}",
        *value_cpu_va != 0
    )
}

fn queue(made: &HwQueue) -> String {
    let HwQueue {
        handle: _,
        progress_fence: _,
        progress_value,
        progress_gpu_va,
        native_progress_fence,
    } = made;
    format!("{} {progress_gpu_va:#x} {native_progress_fence}", progress_value.load())
}

fn allocation(made: &Allocation) -> String {
    let Allocation { handle: _, gpu_va, bytes, memory: _ } = made;
    format!("{gpu_va:#x} {bytes}")
}

fn logs(detail: &LogDetail) -> String {
    let LogDetail {
        wait_entries,
        signal_entries,
        wait_log_gpu_va,
        signal_log_gpu_va,
        numbers,
        verbose,
    } = detail;
    let verbose = verbose.as_ref().map(|verbose| verbose.load());
    format!(
        "{wait_entries} {signal_entries} {wait_log_gpu_va:#x} {signal_log_gpu_va:#x} {numbers} \
         {verbose:?}"
    )
}

/// Creates objects of each kind, and returns what the calls say of them.
fn described(client: &Client) -> Vec<String> {
    let kernel = &client.kernel;
    let flags = SyncObjectFlags::empty();
    let made = [client.native(5), client.monitored(6), client.try_intra(flags).unwrap()];
    let mut all: Vec<String> = made.iter().map(fence).collect();
    let kinds = [AllocationKind::Bulk, AllocationKind::Protocol];
    let allocations = kinds.map(|kind| client.allocate(4096, kind));
    all.extend(allocations.iter().map(allocation));
    let queues = [false, true].map(|user| client.try_hw_queue(0, user).unwrap());
    all.extend(queues.iter().map(queue));
    let details = queues.each_ref().map(|of| kernel.native_fence_log_detail(of.handle).unwrap());
    all.extend(details.iter().map(logs));
    let [ring, control] = allocations.each_ref().map(|of| of.handle);
    let (flags, private_data) = (CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA, vec![1; 16]);
    let args = CreateDoorbell { hw_queue: queues[1].handle, ring, control, flags, private_data };
    let doorbell = kernel.create_doorbell(args).unwrap();
    let connection = kernel.connect_doorbell(doorbell.handle).unwrap();
    all.push(format!(
        "{} {} {} {:?} {:#x}",
        doorbell.secondary.is_some(),
        doorbell.status.load(),
        doorbell.last_queued.load(),
        doorbell.private_data,
        connection.value_base
    ));
    all
}

#[test]
fn a_call_returns_the_same_over_a_service() {
    let platform = Platform::sharing_host();
    let config = MachineConfig::standard(&platform);
    let machine = Arc::new(Machine::new(&platform, config).unwrap());
    let own = described(&Client::open(&machine, "own"));
    let service = Service::of(machine, ServerConfig::default());
    let kernel: Arc<dyn Kernel> = service.client("remote");
    let device = kernel.create_device().unwrap();
    let remote = described(&Client::of(&Platform::host(), kernel, device));
    assert_eq!(own.len(), 10);
    for (own, remote) in own.iter().zip(&remote) {
        assert_eq!(own, remote);
    }
}
