//! Resource states on machines: barriers change no result, and what breaks the rules is reported.

use crate::bench::{Bench, bench, bench_with, desc};
use tidegate_d3d12::ResourceStates as S;
use tidegate_d3d12::*;

pub const TYPES: [CommandListType; 3] =
    [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];

pub fn buffer(b: &Bench<'_>, name: &str, heap: Heap, bytes: u64) -> Buffer {
    b.device.create_buffer(BufferDesc { name: name.to_owned(), bytes, heap }).unwrap()
}

/// Copies 64 bytes from an upload heap over two buffers of the default heap into a readback heap,
/// with or without barriers between. Returns what arrived.
fn pass_on(b: &Bench<'_>, list_type: CommandListType, barriers: bool) -> [u8; 64] {
    let queue = b.device.create_queue(desc(list_type, Submission::Hardware)).unwrap();
    let (from, to) = (buffer(b, "from", Heap::Upload, 64), buffer(b, "to", Heap::Readback, 64));
    let (one, two) = (buffer(b, "one", Heap::Default, 64), buffer(b, "two", Heap::Default, 64));
    let data: [u8; 64] = std::array::from_fn(|at| at as u8 ^ 0x5A);
    from.write(0, &data).unwrap();
    let mut list = b.device.create_command_list(list_type);
    list.set_name("pass on");
    list.copy(&one, 0, &from, 0, 64).unwrap();
    let read = |buffer| Barrier::transition(buffer, S::COPY_DEST, S::COPY_SOURCE);
    if barriers {
        list.barrier(&[read(&one)]).unwrap();
    }
    list.copy(&two, 0, &one, 0, 64).unwrap();
    if barriers {
        list.barrier(&[read(&two).begin()]).unwrap();
        list.barrier(&[read(&two).end()]).unwrap();
    }
    list.copy(&to, 0, &two, 0, 64).unwrap();
    queue.execute(&[&list.close().unwrap()]).unwrap();
    queue.wait_idle().unwrap();
    let mut read = [0; 64];
    to.read(0, &mut read).unwrap();
    assert_eq!(read, data, "{list_type}");
    read
}

#[test]
fn barriers_change_no_result_and_their_absence_is_reported() {
    for list_type in TYPES {
        bench(move |b| {
            pass_on(&b, list_type, true);
            assert_eq!(b.device.state_violations(), [], "{list_type}");
            pass_on(&b, list_type, false);
            let found = b.device.state_violations();
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found.iter().all(|violation| violation.rule == StateRule::NeedsBarrier));
            assert_eq!(
                found[0].to_string(),
                "buffer 'one' subresource 0: command 1 (CopyBufferRegion) of list 'pass on' needs \
                 COPY_SOURCE, but it is in COPY_DEST of the "
                    .to_owned()
                    + &TypeClass::of(list_type).to_string()
                    + " class since command 0 (CopyBufferRegion) of list 'pass on'; record a \
                       barrier to that state before the command"
            );
            assert_eq!(b.device.state_violations(), [], "they are taken");
        });
        // Without the check the same runs and nothing is kept.
        bench_with(DeviceOptions::default(), move |b| {
            pass_on(&b, list_type, false);
            assert_eq!(b.device.state_violations(), []);
        });
    }
}

#[test]
// spec: ME-065, ME-076
fn a_barrier_names_states_that_combine_and_that_its_queues_know() {
    bench(|b| {
        let plain = buffer(&b, "plain", Heap::Default, 64);
        let (upload, readback) =
            (buffer(&b, "up", Heap::Upload, 64), buffer(&b, "back", Heap::Readback, 64));
        for list_type in TYPES {
            let mut list = b.device.create_command_list(list_type);
            let mut set = |to| list.barrier(&[Barrier::transition(&plain, S::COMMON, to)]);
            let direct = list_type == CommandListType::Direct;
            let copy = list_type == CommandListType::Copy;
            assert_eq!(set(S::PIXEL_SHADER_RESOURCE).is_ok(), direct, "{list_type}");
            assert_eq!(set(S::INDEX_BUFFER).is_ok(), direct);
            assert_eq!(set(S::UNORDERED_ACCESS).is_ok(), !copy);
            assert_eq!(set(S::NON_PIXEL_SHADER_RESOURCE).is_ok(), !copy);
            assert!(set(S::COPY_DEST).is_ok() && set(S::COPY_SOURCE).is_ok());
            for refused in [S::COMMON, S::COPY_DEST | S::COPY_SOURCE] {
                assert!(matches!(set(refused), Err(Error::BadValue { .. })), "{refused}");
            }
            let error = list.barrier(&[Barrier::transition(&upload, S::COMMON, S::COPY_DEST)]);
            assert_eq!(
                error.unwrap_err().to_string(),
                format!(
                    "a barrier of buffer 'up' from COMMON to COPY_DEST in a {list_type} list: \
                     upload heaps stay in GENERIC_READ and readback heaps in COPY_DEST; leave it \
                     out"
                )
            );
            let back = Barrier::transition(&readback, S::COPY_DEST, S::COPY_SOURCE);
            assert!(list.barrier(&[back]).is_err());
            let whole = Barrier::transition(&plain, S::COMMON, S::COPY_DEST);
            assert!(list.barrier(&[whole.of_subresource(1)]).is_err());
            assert!(list.barrier(&[Barrier::aliasing(&plain, &readback)]).is_err());
        }
    });
}

#[test]
// spec: ME-065
fn resources_of_fixed_heaps_take_no_transition() {
    bench(|b| {
        let mut list = b.device.create_command_list(CommandListType::Direct);
        let heaps = [Heap::Default, Heap::GpuUpload, Heap::Upload, Heap::Readback];
        for (heap, is_free) in heaps.into_iter().zip([true, true, false, false]) {
            let (from, to) = match heap {
                Heap::Upload => (S::GENERIC_READ, S::COPY_DEST),
                Heap::Readback => (S::COPY_DEST, S::COPY_SOURCE),
                _ => (S::COMMON, S::COPY_DEST),
            };
            let desc = TextureDesc::new_2d("t", Format::R32Uint, 8, 8).heap(heap);
            let (texture, plain) =
                (b.device.create_texture(desc).unwrap(), buffer(&b, "b", heap, 64));
            let of_texture = list.barrier(&[Barrier::transition(&texture, from, to)]);
            let of_buffer = list.barrier(&[Barrier::transition(&plain, from, to)]);
            assert_eq!((of_texture.is_ok(), of_buffer.is_ok()), (is_free, is_free), "{heap:?}");
        }
    });
}

#[test]
fn a_barrier_keeps_its_resources_and_refuses_those_of_another_device() {
    bench(|b| {
        let (other, own) = (b.another(), buffer(&b, "own", Heap::Default, 64));
        let heap = |of: &Device| of.create_heap(HeapDesc::new("heap", 1)).unwrap();
        let placed = |of: &Device| {
            let desc = BufferDesc { name: "p".to_owned(), bytes: 64, heap: Heap::Default };
            of.create_placed_buffer(&heap(of), 0, desc).unwrap()
        };
        let (ours, theirs) = (placed(&b.device), placed(&other.device));
        let mut list = b.device.create_command_list(CommandListType::Direct);
        for barrier in [
            Barrier::transition(&theirs, S::COMMON, S::COPY_DEST),
            Barrier::unordered_access(&theirs),
            Barrier::aliasing(&theirs, &ours),
            Barrier::aliasing(&ours, &theirs),
        ] {
            let refused = list.barrier(&[barrier]);
            assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
        }
        assert_eq!(list.commands(), 0);
        list.barrier(&[Barrier::transition(&own, S::COMMON, S::COPY_DEST)]).unwrap();
        let ended = || {
            let names = b.kernel.take_names().into_iter();
            names.filter(|name| *name == "destroy_allocation").count()
        };
        let list = list.close().unwrap();
        ended();
        drop(own);
        assert_eq!(ended(), 0, "the list names the buffer");
        drop(list);
        assert_eq!(ended(), 1);
    });
}
