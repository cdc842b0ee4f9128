//! Textures on machines: real texels over regions, heaps and subresources, on queues of each type.

use crate::bench::{Bench, bench, desc};
use crate::states::{TYPES, buffer};
use tidegate_d3d12::ResourceStates as S;
use tidegate_d3d12::TextureCopyLocation::{Footprint, Subresource};
use tidegate_d3d12::*;
use tidegate_testbed::QueueApi;

fn texture(b: &Bench<'_>, desc: TextureDesc) -> Texture {
    b.device.create_texture(desc).unwrap()
}

/// Texel (x, y, z) of a picture of 32-bit texels.
fn texel(x: u32, y: u32, z: u32) -> u32 {
    0x0100_0000 * (z + 1) + 0x1000 * y + x
}

/// An upload buffer with texels at a footprint from byte 512 on.
fn uploaded(b: &Bench<'_>, format: Format, size: [u32; 3]) -> (Buffer, SubresourceFootprint) {
    let footprint = SubresourceFootprint::new(512, format, size);
    let upload = buffer(b, "upload", Heap::Upload, 512 + footprint.bytes());
    for z in 0..size[2] {
        for y in 0..size[1] {
            let row: Vec<u8> = (0..size[0]).flat_map(|x| texel(x, y, z).to_le_bytes()).collect();
            let at = u64::from(z) * footprint.slice_pitch() + u64::from(y) * footprint.row_pitch;
            upload.write(512 + at, &row).unwrap();
        }
    }
    (upload, footprint)
}

fn read_texel(from: &Buffer, footprint: &SubresourceFootprint, [x, y, z]: [u32; 3]) -> u32 {
    let mut bytes = [0; 4];
    let row = u64::from(z) * footprint.slice_pitch() + u64::from(y) * footprint.row_pitch;
    from.read(footprint.offset + row + 4 * u64::from(x), &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

#[test]
fn texels_pass_over_regions_of_subresources_on_queues_of_each_type() {
    for list_type in TYPES {
        bench(move |b| {
            let queue = b.device.create_queue(desc(list_type, Submission::Hardware)).unwrap();
            let format = Format::R32Uint;
            let (upload, whole) = uploaded(&b, format, [20, 10, 1]);
            let first = texture(&b, TextureDesc::new_2d("first", format, 40, 20).mips(2).array(2));
            let second = texture(&b, TextureDesc::new_2d("second", Format::R32Float, 64, 64));
            let back = SubresourceFootprint::new(1024, format, [64, 64, 1]);
            let readback = buffer(&b, "readback", Heap::Readback, 1024 + back.bytes());
            let mut list = b.device.create_command_list(list_type);
            list.set_name("pass on");
            // Mip 1 of slice 1 has 20 by 10 texels.
            let small = first.desc().subresource(1, 1);
            list.copy_texture_region(
                Subresource(&first, small),
                [0; 3],
                Footprint(&upload, whole),
                None,
            )
            .unwrap();
            let to_source = |texture, subresource| {
                Barrier::transition(texture, S::COPY_DEST, S::COPY_SOURCE)
                    .of_subresource(subresource)
            };
            list.barrier(&[to_source(&first, small)]).unwrap();
            let region = TexelBox { from: [3, 2, 0], to: [8, 6, 1] };
            list.copy_texture_region(
                Subresource(&second, 0),
                [50, 60, 0],
                Subresource(&first, small),
                Some(region),
            )
            .unwrap();
            list.barrier(&[to_source(&second, 0)]).unwrap();
            list.copy_texture_region(
                Footprint(&readback, back),
                [0; 3],
                Subresource(&second, 0),
                None,
            )
            .unwrap();
            assert_eq!(list.commands(), 5);
            queue.execute(&[&list.close().unwrap()]).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(b.device.state_violations(), [], "{list_type}");
            for y in 0..64 {
                for x in 0..64 {
                    let inside = (50..55).contains(&x) && (60..64).contains(&y);
                    let expected = if inside { texel(x - 47, y - 58, 0) } else { 0 };
                    assert_eq!(read_texel(&readback, &back, [x, y, 0]), expected, "{x} {y}");
                }
            }
        });
    }
}

#[test]
fn boxes_of_three_dimensions_and_whole_resources_are_copied() {
    bench(|b| {
        let queue = b.device.create_queue(desc(CommandListType::Copy, Submission::User)).unwrap();
        let (format, size) = (Format::R32Uint, [64, 4, 3]);
        let (upload, whole) = uploaded(&b, format, size);
        let [one, two] =
            ["one", "two"].map(|name| texture(&b, TextureDesc::new_3d(name, format, size).mips(2)));
        let readback = buffer(&b, "readback", Heap::Readback, upload.bytes());
        let again = buffer(&b, "again", Heap::Readback, upload.bytes());
        let mut list = b.device.create_command_list(CommandListType::Copy);
        let slice = TexelBox { from: [0, 0, 1], to: [64, 4, 3] };
        let from = Footprint(&upload, whole);
        list.copy_texture_region(Subresource(&one, 0), [0, 0, 1], from, Some(slice)).unwrap();
        let to_source = |texture| Barrier::transition(texture, S::COPY_DEST, S::COPY_SOURCE);
        list.barrier(&[to_source(&one).of_subresource(0)]).unwrap();
        list.copy_resource(&two, &one).unwrap();
        list.barrier(&[to_source(&two)]).unwrap();
        list.copy_texture_region(Footprint(&readback, whole), [0; 3], Subresource(&two, 0), None)
            .unwrap();
        list.copy_resource(&again, &upload).unwrap();
        queue.execute(&[&list.close().unwrap()]).unwrap();
        queue.wait_idle().unwrap();
        assert_eq!(b.device.state_violations(), []);
        for z in 0..3 {
            for (x, y) in [(0, 0), (63, 3), (17, 2)] {
                let expected = if z == 0 { 0 } else { texel(x, y, z) };
                assert_eq!(read_texel(&readback, &whole, [x, y, z]), expected, "{x} {y} {z}");
                assert_eq!(read_texel(&again, &whole, [x, y, z]), texel(x, y, z));
            }
        }
    });
}

#[test]
fn the_cpu_maps_textures_of_upload_and_readback_heaps() {
    bench(|b| {
        let queue = b.device.create_queue(desc(CommandListType::Copy, Submission::Packet)).unwrap();
        let of = |name: &str, heap| {
            texture(&b, TextureDesc::new_2d(name, Format::R8Unorm, 5, 3).heap(heap))
        };
        let (from, to) = (of("from", Heap::Upload), of("to", Heap::Readback));
        let texels: Vec<u8> = (0..15).map(|n| n * 7).collect();
        from.write(0, &texels).unwrap();
        b.device.execute(&queue, |list| list.copy_resource(&to, &from));
        queue.wait_idle().unwrap();
        let mut read = vec![0; 15];
        to.read(0, &mut read).unwrap();
        assert_eq!(read, texels);
        assert_eq!(b.device.state_violations(), []);
        let local = of("local", Heap::Default);
        assert_eq!(
            local.write(0, &texels).unwrap_err().to_string(),
            "a map of texture 'local': no CPU maps the default heap; copy over an upload or \
             readback heap"
        );
        assert!(from.write(1, &texels).is_err() && from.write(0, &texels[1..]).is_err());
    });
}

#[test]
fn copies_outside_their_ends_are_refused_and_leave_no_command() {
    bench(|b| {
        let format = Format::R32Uint;
        let t = texture(&b, TextureDesc::new_2d("t", format, 8, 8));
        let other = texture(&b, TextureDesc::new_2d("other", Format::R8G8B8A8Unorm, 8, 8));
        let plain = buffer(&b, "plain", Heap::Default, 4096);
        let mut list = b.device.create_command_list(CommandListType::Copy);
        let good = SubresourceFootprint::new(0, format, [8, 8, 1]);
        let outside = TexelBox { from: [1, 0, 0], to: [9, 1, 1] };
        let huge = TexelBox { from: [0; 3], to: [u32::MAX, 1, 1] };
        let empty = TexelBox { from: [4, 4, 0], to: [4, 8, 1] };
        let mut copy = |to, at, from, region| list.copy_texture_region(to, at, from, region);
        let refused = [
            copy(Subresource(&t, 0), [0; 3], Subresource(&other, 0), None),
            copy(Subresource(&t, 1), [0; 3], Footprint(&plain, good), None),
            copy(Subresource(&t, 0), [1, 0, 0], Footprint(&plain, good), None),
            copy(Footprint(&plain, good), [0; 3], Subresource(&t, 0), Some(outside)),
            copy(Footprint(&plain, good), [0; 3], Subresource(&t, 0), Some(huge)),
            copy(Subresource(&t, 0), [0; 3], Subresource(&t, 0), None),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            assert!(matches!(refused, Err(Error::BadValue { .. })), "{number}: {refused:?}");
        }
        for footprint in [
            SubresourceFootprint { offset: 256, ..good },
            SubresourceFootprint { row_pitch: 100, ..good },
            SubresourceFootprint { width: 65, ..good },
            SubresourceFootprint { width: 0, ..good },
        ] {
            let end = Footprint(&plain, footprint);
            assert!(copy(Subresource(&t, 0), [0; 3], end, None).is_err(), "{footprint:?}");
        }
        let leaves = SubresourceFootprint { offset: 2560, ..good };
        let refused = copy(Subresource(&t, 0), [0; 3], Footprint(&plain, leaves), None);
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{refused:?}");
        assert_eq!(copy(Subresource(&t, 0), [0; 3], Footprint(&plain, good), Some(empty)), Ok(()));
        assert!(list.copy_resource(&t, &other).is_err() && list.copy_resource(&t, &t).is_err());
        assert!(list.copy_resource(&t, &plain).is_err());
        assert_eq!(list.commands(), 0);
        let foreign = b.another();
        let theirs = texture(&foreign, TextureDesc::new_2d("theirs", format, 8, 8));
        let refused = list.copy_resource(&t, &theirs);
        assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    });
}

#[test]
fn placed_resources_share_the_bytes_of_their_heap() {
    bench(|b| {
        const UNIT: u64 = 64 << 10;
        let queue =
            b.device.create_queue(desc(CommandListType::Copy, Submission::Hardware)).unwrap();
        let heap = b.device.create_heap(HeapDesc::new("heap", 3 * UNIT - 5)).unwrap();
        assert_eq!(heap.bytes(), 3 * UNIT);
        let placed = |name: &str, offset, bytes| {
            let desc = BufferDesc { name: name.to_owned(), bytes, heap: Heap::Default };
            b.device.create_placed_buffer(&heap, offset, desc)
        };
        let (low, high) =
            (placed("low", 0, 2 * UNIT).unwrap(), placed("high", UNIT, 2 * UNIT).unwrap());
        assert_eq!(high.gpu_va(), low.gpu_va() + UNIT);
        for refused in [placed("odd", 512, 1), placed("long", UNIT, 2 * UNIT + 1)] {
            assert!(matches!(refused, Err(Error::BadValue { .. })), "{refused:?}");
        }
        let desc_2d = |name: &str| TextureDesc::new_2d(name, Format::R32Uint, 64, 64);
        let picture = b.device.create_placed_texture(&heap, 2 * UNIT, desc_2d("picture")).unwrap();
        assert!(b.device.create_placed_texture(&heap, 3 * UNIT, desc_2d("out")).is_err());
        let upload_heap = desc_2d("up").heap(Heap::Upload);
        assert!(b.device.create_placed_texture(&heap, 0, upload_heap).is_err());

        let (upload, _) = uploaded(&b, Format::R32Uint, [64, 64, 1]);
        let readback = buffer(&b, "readback", Heap::Readback, 256);
        let run = |barrier: bool| {
            let mut list = b.device.create_command_list(CommandListType::Copy);
            list.copy(&high, UNIT, &upload, 512, 256).unwrap();
            if barrier {
                list.barrier(&[Barrier::aliasing(&high, &picture)]).unwrap();
            }
            // The first row of the picture lies where the buffer's second half begins.
            let row = SubresourceFootprint::new(0, Format::R32Uint, [64, 1, 1]);
            let region = TexelBox { from: [0; 3], to: [64, 1, 1] };
            let (to, from) = (Footprint(&readback, row), Subresource(&picture, 0));
            list.copy_texture_region(to, [0; 3], from, Some(region)).unwrap();
            if barrier {
                list.barrier(&[Barrier::aliasing(&picture, &high)]).unwrap();
            }
            queue.execute(&[&list.close().unwrap()]).unwrap();
            queue.wait_idle().unwrap();
            for x in 0..64 {
                let mut bytes = [0; 4];
                readback.read(4 * x, &mut bytes).unwrap();
                assert_eq!(u32::from_le_bytes(bytes), texel(x as u32, 0, 0));
            }
            b.device.state_violations()
        };
        assert_eq!(run(true), []);
        let found = run(false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].rule, found[0].resource.as_str()), (StateRule::Aliased, "picture"));
        assert_eq!(found[0].other.as_deref(), Some("high"));
        // The resources keep the heap.
        drop(heap);
        b.device.execute(&queue, |list| list.copy(&low, 0, &upload, 0, 4));
        queue.wait_idle().unwrap();
    });
}

#[test]
// spec: ME-067
fn queues_are_ordered_by_fences_and_by_what_the_cpu_has_seen() {
    bench(|b| {
        let queue = |list_type| {
            let desc =
                QueueDesc { name: list_type_name(list_type), ..desc(list_type, Submission::User) };
            b.device.create_queue(desc).unwrap()
        };
        let (copies, draws) = (queue(CommandListType::Copy), queue(CommandListType::Direct));
        let fence = b.device.create_fence("copied", 0).unwrap();
        let t = texture(&b, TextureDesc::new_2d("t", Format::R32Uint, 8, 8));
        let [from, to] = [Heap::Upload, Heap::Readback]
            .map(|heap| texture(&b, TextureDesc::new_2d("end", Format::R32Uint, 8, 8).heap(heap)));
        let list = |list_type, to: &Texture, from: &Texture| {
            let mut list = b.device.create_command_list(list_type);
            list.set_name("copy");
            list.copy_resource(to, from).unwrap();
            list.close().unwrap()
        };
        let write = list(CommandListType::Copy, &t, &from);
        let read = list(CommandListType::Direct, &to, &t);
        copies.execute(&[&write]).unwrap();
        draws.execute(&[&read]).unwrap();
        let found = b.device.state_violations();
        assert_eq!(found.len(), 1, "{found:?}");
        let missing = found[0].missing_fence.as_ref().unwrap();
        assert_eq!((&*missing.signal, &*missing.wait), ("copy", "direct"));
        assert_eq!(found[0].earlier.as_ref().unwrap().kind, "CopyResource");
        b.device.wait_idle().unwrap();

        // A fence between the queues; the CPU's wait for it; its completed value; an event.
        for round in 1..=4 {
            copies.execute(&[&write]).unwrap();
            copies.signal(&fence, round).unwrap();
            match round {
                1 => draws.wait(&fence, round).unwrap(),
                2 => fence.wait(round).unwrap(),
                3 => {
                    b.work();
                    assert_eq!(fence.completed_value(), round);
                }
                _ => {
                    let event = b.device.create_event(EventDesc::default());
                    fence.set_event_on_completion(round, &event).unwrap();
                    b.work();
                }
            }
            draws.execute(&[&read]).unwrap();
            draws.wait_idle().unwrap();
            assert_eq!(b.device.state_violations(), [], "round {round}");
        }
        // Without any of them the machine is as early, and the order is missing.
        copies.execute(&[&write]).unwrap();
        b.work();
        draws.execute(&[&read]).unwrap();
        let rules: Vec<_> = b.device.state_violations().iter().map(|found| found.rule).collect();
        assert_eq!(rules, [StateRule::Unordered]);
    });
}

fn list_type_name(list_type: CommandListType) -> String {
    list_type.name().to_owned()
}
