//! Work of contexts over the service: events that queues set, and buffers that the driver patches.

use std::sync::Arc;
use tidegate::calls::{
    AllocationMemory, FenceValue, Handle, Kernel, MAX_RENDER_BYTES, Placement, Render, SignalFlags,
    SignalFromGpu2, Status, WaitNotice,
};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa};
use tidegate::platform::Event;
use tidegate::service::server::ServerConfig;
use tidegate::{Platform, variants};
use tidegate_testbed::{Client, Service, VirtualMachine};

fn client(service: &Service) -> Client {
    let kernel = service.client("works");
    let device = kernel.create_device().unwrap();
    Client::of(&Platform::host(), kernel as Arc<dyn Kernel>, device)
}

fn enqueue(client: &Client, context: Handle, event: &Event) -> Result<(), Status> {
    client.kernel.signal_from_gpu2(SignalFromGpu2 {
        contexts: &[context],
        fences: &[],
        flags: SignalFlags::ENQUEUE_CPU_EVENT,
        cpu_event: Some(WaitNotice::Event(event.clone())),
    })
}

fn encoded(commands: &[Command]) -> Vec<u8> {
    let mut writer = CommandWriter::new();
    commands.iter().for_each(|command| writer.push(command));
    writer.to_bytes()
}

fn at(fence: Handle, value: u64) -> [FenceValue; 1] {
    [FenceValue { fence, value }]
}

#[test]
fn a_queued_event_is_set_when_its_context_reaches_it_or_ends() {
    let service = Service::start(ServerConfig::default());
    let client = client(&service);
    let (context, gate) = (client.context(0), client.monitored(0).handle);
    let [reached, ended] = [(); 2].map(|()| client.platform.event(true));
    client.kernel.wait_from_gpu(context, &at(gate, 1)).unwrap();
    enqueue(&client, context, &reached).unwrap();
    client.kernel.wait_from_gpu(context, &at(gate, 2)).unwrap();
    enqueue(&client, context, &ended).unwrap();
    assert!(!reached.is_set());
    client.kernel.signal_from_cpu(&at(gate, 1), SignalFlags::empty()).unwrap();
    reached.wait();
    assert!(!ended.is_set());
    client.kernel.destroy_context(context).unwrap();
    ended.wait();
    let refused = enqueue(&client, context, &ended);
    assert_eq!(refused, Err(Status::INVALID_PARAMETER), "the context is gone");
}

#[test]
fn commands_of_a_render_call_may_be_longer_than_a_message() {
    let service = Service::with_guests_of_machine(ServerConfig::default(), 1, |config| {
        variants::find("patching").unwrap().apply(config);
    });
    renders_long_commands(&client(&service));
    // A guest sends them in pieces.
    let (platform, machine) = (Platform::host(), VirtualMachine::start(&service.guest_socket(0)));
    let kernel = machine.process(&platform, "works in a guest");
    let device = kernel.create_device().unwrap();
    renders_long_commands(&Client::of(&platform, kernel, device));
}

fn renders_long_commands(client: &Client) {
    let (context, fence) = (client.context(0), client.monitored(0).handle);
    let target = client.allocate_in(4096, Placement::LocalOnDemand);
    let fill =
        |at, value| Command::Fill { destination: GpuVa(target.gpu_va + at), bytes: 8, value };
    let one = encoded(&[fill(0, 0)]).len();
    let lengths = [1 << 10, 64 << 10, 65 << 10, 300 << 10, MAX_RENDER_BYTES];
    for (bytes, value) in lengths.into_iter().zip(1u32..) {
        let mut commands = vec![fill(0, 0); bytes / one - 1];
        commands.push(fill(8, value));
        let commands = encoded(&commands);
        let (contexts, allocations) = (&[context], &[(target.handle, true)]);
        let commands = &commands[..];
        client.kernel.render(Render { contexts, commands, allocations }).unwrap();
        client.kernel.signal_from_gpu(context, &at(fence, u64::from(value))).unwrap();
        client.wait(fence, u64::from(value)).unwrap();
        let AllocationMemory::ByCalls(memory) = &target.memory else { panic!("it moves") };
        let mut seen = [0; 16];
        memory.read(0, &mut seen).unwrap();
        assert_eq!(seen[8..], [value.to_le_bytes(), value.to_le_bytes()].concat(), "{bytes}");
    }
    let long = vec![0; MAX_RENDER_BYTES + 8];
    let refused = client.kernel.render(Render {
        contexts: &[context],
        commands: &long,
        allocations: &[(target.handle, true)],
    });
    assert_eq!(refused, Err(Status::INVALID_PARAMETER));
}
