//! Calls and their messages: what is answered without one, and what follows an answer.

use super::*;
use crate::arguments::{Commands, RenderMessage};
use crate::long::MAX_INLINE_BYTES;
use crate::wire::{AllocationView, MemoryView, OpenedResourceView};
use tidegate_calls::*;
use tidegate_platform::CpuTime;

const DEVICE: Handle = Handle(1);
const QUEUE: Handle = Handle(2);
const NONE: [&str; 0] = [];

/// A session whose fences are the words of a page, by handles 10, 11, … in the order of creation.
fn with_fences(words: usize) -> (Scripted, RemoteKernel, Page) {
    let platform = Platform::sharing_host();
    let values = shared_page(&platform, words);
    let (page, mut made) = (values.clone(), 0);
    let (scripted, kernel) = Scripted::kernel(0, move |message, notices| {
        let mut next = || {
            made += 1;
            fence(9 + made, &page, made - 1)
        };
        Some(match message {
            Message::Call(Call::CreateMonitoredFence { .. }) => Answer::with(next(), &[&page]),
            Message::Call(Call::CreatePagingQueue { .. }) => {
                Answer::with((QUEUE, next()), &[&page])
            }
            // Each wait is over at once.
            Message::Own(OwnMessage::RegisterWait { key, .. }) => {
                notices.store(key.slot as usize, wire::over(*key));
                Answer::ok(())
            }
            _ => Answer::ok(()),
        })
    });
    (scripted, kernel, values)
}

fn monitored(kernel: &RemoteKernel, device: Handle, flags: SyncObjectFlags) -> Handle {
    let args =
        CreateMonitoredFence { device, initial_value: 0, flags, engine_affinity: 0, name: "f" };
    kernel.create_monitored_fence(args).unwrap().handle
}

fn at(fence: Handle, value: u64) -> FenceValue {
    FenceValue { fence, value }
}

/// The messages of a wait for fences whose service ends it at once.
const ASKS: [&str; 2] = ["register_wait", "check_wait"];

#[test]
fn a_wait_for_values_that_are_reached_sends_no_message() {
    let (session, kernel, values) = with_fences(2);
    let [a, b] = [(); 2].map(|()| monitored(&kernel, DEVICE, SyncObjectFlags::empty()));
    assert_eq!((a, b), (Handle(10), Handle(11)));
    values.store(0, 5);
    session.take();
    let wait = |fences: &[FenceValue], mode| {
        kernel.wait_from_cpu(fences, mode, None).unwrap();
        session.names()
    };
    assert_eq!(wait(&[at(a, 5)], WaitMode::All), NONE);
    assert_eq!(wait(&[at(a, 5), at(b, 0)], WaitMode::All), NONE);
    assert_eq!(wait(&[at(b, 1), at(a, 4)], WaitMode::Any), NONE);
    assert_eq!(wait(&[at(a, 6)], WaitMode::All), ASKS);
    assert_eq!(wait(&[at(a, 5), at(b, 1)], WaitMode::All), ASKS);
    assert_eq!(wait(&[at(a, 6), at(b, 1)], WaitMode::Any), ASKS);
    // The kernel refuses an empty list, and it knows which fences there are.
    assert_eq!(wait(&[], WaitMode::All), ASKS);
    assert_eq!(wait(&[], WaitMode::Any), ASKS);
    assert_eq!(wait(&[at(Handle(12), 0)], WaitMode::All), ASKS);
    // The device of a fence that reads its maximum may be lost.
    values.store(0, u64::MAX);
    assert_eq!(wait(&[at(a, 5)], WaitMode::All), ASKS);
    values.store(0, u64::MAX - 1);
    assert_eq!(wait(&[at(a, u64::MAX - 1)], WaitMode::All), NONE);
}

#[test]
fn a_wait_that_the_process_may_not_make_is_for_the_service_to_refuse() {
    let (session, kernel, values) = with_fences(2);
    let no_wait = monitored(&kernel, DEVICE, SyncObjectFlags::NO_WAIT);
    values.store(0, 5);
    session.take();
    kernel.wait_from_cpu(&[at(no_wait, 5)], WaitMode::All, None).unwrap();
    assert_eq!(session.names(), ASKS);
}

/// The messages of an end of a fence, and the end.
type End = (&'static [&'static str], fn(&RemoteKernel, Handle));

#[test]
fn an_ended_fence_is_not_waited_for_by_its_last_value() {
    let ends: [End; 2] = [
        (&["destroy_synchronization_object"], |kernel, fence| {
            kernel.destroy_synchronization_object(fence).unwrap();
        }),
        (&["destroy_device", "take_outcome"], |kernel, _| {
            kernel.destroy_device(DEVICE).unwrap();
        }),
    ];
    for (names, end) in ends {
        let (session, kernel, values) = with_fences(2);
        let ended = monitored(&kernel, DEVICE, SyncObjectFlags::empty());
        let of_another = monitored(&kernel, Handle(3), SyncObjectFlags::empty());
        values.store(0, 5);
        values.store(1, 5);
        session.take();
        end(&kernel, ended);
        assert_eq!(session.names(), names);
        kernel.wait_from_cpu(&[at(of_another, 5)], WaitMode::All, None).unwrap();
        assert_eq!(session.names(), NONE);
        kernel.wait_from_cpu(&[at(ended, 5)], WaitMode::All, None).unwrap();
        assert_eq!(session.names(), ASKS);
    }
}

#[test]
fn the_fence_of_a_paging_queue_ends_with_the_queue_or_its_device() {
    let ends: [fn(&RemoteKernel); 2] = [
        |kernel| kernel.destroy_paging_queue(QUEUE).unwrap(),
        |kernel| kernel.destroy_device(DEVICE).unwrap(),
    ];
    for end in ends {
        let (session, kernel, values) = with_fences(1);
        let args = CreatePagingQueue { device: DEVICE, priority: PagingPriority::Normal };
        let fence = kernel.create_paging_queue(args).unwrap().fence.handle;
        values.store(0, 1);
        session.take();
        kernel.wait_from_cpu(&[at(fence, 1)], WaitMode::All, None).unwrap();
        assert_eq!(session.names(), NONE);
        end(&kernel);
        session.take();
        kernel.wait_from_cpu(&[at(fence, 1)], WaitMode::All, None).unwrap();
        assert_eq!(session.names(), ASKS);
    }
}

/// The check after a wait tells a destroyed fence, which releases its waiters, from a lost device.
#[test]
fn a_wait_ends_as_the_check_after_it_says() {
    let ends = [
        (Ok(()), Ok(())),
        (Err(Status::INVALID_PARAMETER), Ok(())),
        (Err(Status::DEVICE_REMOVED), Err(Status::DEVICE_REMOVED)),
    ];
    for (checked, result) in ends {
        let (_session, kernel) = Scripted::kernel(0, move |message, notices| {
            Some(match (message, checked) {
                (Message::Own(OwnMessage::CheckWait { .. }), Err(status)) => {
                    Answer::refusal(status)
                }
                (Message::Own(OwnMessage::RegisterWait { key, .. }), _) => {
                    notices.store(key.slot as usize, wire::over(*key));
                    Answer::ok(())
                }
                _ => Answer::ok(()),
            })
        });
        assert_eq!(kernel.wait_from_cpu(&[at(Handle(9), 1)], WaitMode::All, None), result);
    }
}

#[test]
fn times_of_the_service_are_told_on_the_clock_of_the_client() {
    for (ahead, there, here) in [(0, 7, 7), (5, 40, 45), (-30, 40, 10), (-50, 40, 0)] {
        let (_session, kernel) = Scripted::kernel(ahead, move |_, _| {
            let cpu = CpuTime(there);
            Some(Answer::ok(ClockCalibration { gpu_frequency: 3, gpu_clock: 4, cpu }))
        });
        let read = kernel.query_clock_calibration(0, 0).unwrap();
        let expected = ClockCalibration { gpu_frequency: 3, gpu_clock: 4, cpu: CpuTime(here) };
        assert_eq!(read, expected);
    }
}

#[test]
fn long_commands_travel_in_a_file() {
    let (session, kernel) = Scripted::kernel(0, done);
    let render = |bytes: usize| {
        let commands = &vec![7; bytes][..];
        kernel.render(Render { contexts: &[DEVICE], commands, allocations: &[(QUEUE, true)] })
    };
    let sent = |session: &Scripted| match session.take().pop() {
        Some(Message::Call(Call::Render { args: RenderMessage { commands, .. } })) => {
            Some(match commands {
                Commands::Here(commands) => (commands.len(), false),
                Commands::File(bytes) => (bytes as usize, true),
                Commands::Pieces(_) => panic!("pieces over a socket"),
            })
        }
        _ => None,
    };
    render(MAX_INLINE_BYTES).unwrap();
    assert_eq!(sent(&session), Some((MAX_INLINE_BYTES, false)));
    for bytes in [MAX_INLINE_BYTES + 1, MAX_RENDER_BYTES] {
        render(bytes).unwrap();
        assert_eq!(sent(&session), Some((bytes, true)));
    }
    assert_eq!(render(MAX_RENDER_BYTES + 1), Err(Status::INVALID_PARAMETER));
    assert_eq!(sent(&session), None);
}

#[test]
fn a_call_that_fits_no_message_is_refused_without_one() {
    let (session, kernel) = Scripted::kernel(0, done);
    let signal = |count| {
        let fences = vec![at(Handle(u32::MAX), u64::MAX); count];
        kernel.signal_from_cpu(&fences, SignalFlags::empty())
    };
    // 15 bytes for each fence, of 163,840 bytes.
    signal(10_900).unwrap();
    assert_eq!(session.names(), ["signal_from_cpu"]);
    assert_eq!(signal(10_930), Err(Status::INVALID_PARAMETER));
    assert_eq!(session.names(), NONE);
    assert!(kernel.is_connected());
}

#[test]
fn an_answer_that_is_none_of_its_call_ends_the_connection() {
    let (_session, kernel) = Scripted::kernel(0, |_, _| Some(Answer::ok((1u8, 2u8))));
    assert!(kernel.is_connected());
    assert_eq!(kernel.destroy_context(QUEUE), Err(Status::DEVICE_REMOVED));
    assert!(!kernel.is_connected());
    assert_eq!(kernel.device_state(DEVICE), Ok(DeviceState::Removed));
    assert_eq!(kernel.create_device(), Err(Status::DEVICE_REMOVED));
    assert_eq!((kernel.display(), kernel.queue_number(QUEUE)), (None, None));
}

#[test]
fn a_handle_of_another_kernel_is_none_of_the_service() {
    let (session, kernel) = Scripted::kernel(0, done);
    let foreign = NtHandle::new(7u32);
    let flags = SyncObjectFlags::empty();
    let open = OpenSyncObject { device: DEVICE, nt_handle: &foreign, flags, engine_affinity: 0 };
    let older = OpenSynchronizationObject::NtHandle { nt_handle: &foreign, device: None, flags };
    let refusals = [
        kernel.open_sync_object_from_nt_handle(open).map(drop),
        kernel.open_native_fence_from_nt_handle(open).map(drop),
        kernel.open_synchronization_object(older).map(drop),
        kernel.query_resource_info(DEVICE, ResourceName::NtHandle(&foreign)).map(drop),
        kernel.open_resource(DEVICE, ResourceName::NtHandle(&foreign)).map(drop),
    ];
    assert_eq!(refusals, [Err(Status::INVALID_HANDLE); 5]);
    assert_eq!(session.names(), NONE);
}

/// A session that hands over memory which it has not attached.
fn without_memory() -> (Scripted, RemoteKernel) {
    Scripted::kernel(0, |message, _| {
        let memory = MemoryView::Bulk { file: 0, bytes: 4096 };
        Some(match message {
            Message::Call(Call::CreateAllocation { .. }) => {
                let (handle, bytes) = (Handle(5), 4096);
                Answer::ok(AllocationView { handle, gpu_va: 0, bytes, memory })
            }
            Message::Call(Call::OpenResource { .. }) => {
                let allocations = vec![(Handle(6), 0, 4096), (Handle(7), 0, 4096)];
                let view: OpenedResourceView = (Handle(5), ResourceData::default(), allocations);
                Answer::ok(view)
            }
            Message::Call(Call::Lock2 { .. }) => Answer::ok((memory, 4096u64)),
            _ => Answer::ok(()),
        })
    })
}

#[test]
fn an_allocation_whose_memory_is_not_mapped_is_destroyed() {
    let (session, kernel) = without_memory();
    let (kind, placement) = (AllocationKind::Bulk, Placement::System);
    let args = CreateAllocation { device: DEVICE, bytes: 4096, kind, placement };
    assert_eq!(kernel.create_allocation(args).map(drop), Err(Status::NO_MEMORY));
    match &session.take()[..] {
        [_, Message::Call(Call::DestroyAllocation { allocation })] => {
            assert_eq!(*allocation, Handle(5));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_resource_is_opened_with_all_its_memory_or_not_at_all() {
    let (session, kernel) = without_memory();
    let opened = kernel.open_resource(DEVICE, ResourceName::Shared(3)).map(drop);
    assert_eq!(opened, Err(Status::NO_MEMORY));
    match &session.take()[..] {
        [_, Message::Call(Call::Lock2 { allocation, .. }), Message::Call(last)] => {
            assert_eq!(*allocation, Handle(6));
            assert!(matches!(last, Call::DestroyResource { resource: Handle(5) }), "{last:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_older_object_is_opened_by_the_name_that_it_has() {
    let (session, kernel) = Scripted::kernel(0, |_, _| Some(Answer::ok(Handle(8))));
    let opened = kernel.open_synchronization_object(OpenSynchronizationObject::Shared(6));
    assert_eq!(opened, Ok(Handle(8)));
    match &session.take()[..] {
        [Message::Call(Call::OpenSynchronizationObject { args })] => {
            assert_eq!((args.shared, args.device), (Some(6), None));
            assert_eq!(args.flags, SyncObjectFlags::empty());
        }
        other => panic!("{other:?}"),
    }
}
