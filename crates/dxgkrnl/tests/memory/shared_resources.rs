//! Shared resources: memory that processes have open, its end, and what is refused.

use tidegate::calls::MAX_RESOURCE_DATA_BYTES;
use tidegate_testbed::prelude::*;

fn regions(w: &World) -> usize {
    w.adapter().census().memory_regions
}

fn data(allocations: usize) -> ResourceData {
    let (runtime, driver) = (vec![1, 2, 3], vec![4]);
    ResourceData { runtime, driver, allocations: vec![vec![5, 6]; allocations] }
}

fn share(w: &World, made: &[&Allocation], nt: bool) -> Result<(Handle, u32), Status> {
    let allocations: Vec<Handle> = made.iter().map(|one| one.handle).collect();
    let made = w.kernel.create_resource(CreateResource {
        device: w.device,
        allocations: &allocations,
        data: &data(allocations.len()),
        nt_security_sharing: nt,
    })?;
    Ok((made.handle, made.shared_handle))
}

fn word(made: &Allocation) -> u64 {
    let AllocationMemory::Protocol(page) = &made.memory else { panic!("an allocation of words") };
    page.load(3)
}

fn set_word(made: &Allocation, value: u64) {
    let AllocationMemory::Protocol(page) = &made.memory else { panic!("an allocation of words") };
    page.store(3, value);
}

#[test]
fn memory_lives_until_its_last_opener_ends() {
    world().run(|w| {
        // Page tables of both processes are there.
        let _tables = w.allocate(64, AllocationKind::Protocol);
        let alone = regions(w);
        let other = w.client("other");
        other.allocate(64, AllocationKind::Bulk);
        let before = regions(w);
        let made = w.allocate(64, AllocationKind::Protocol);
        let (resource, global) = share(w, &[&made], false).unwrap();
        set_word(&made, 7);
        let name = ResourceName::Shared(global);
        let kernel = &other.kernel;
        assert_eq!(kernel.query_resource_info(other.device, name), Ok(data(1)));
        let opened = kernel.open_resource(other.device, name).unwrap();
        assert_eq!((opened.data, regions(w)), (data(1), before + 1));
        assert_eq!(word(&opened.allocations[0]), 7);
        w.kernel.destroy_resource(resource).unwrap();
        assert_eq!(w.kernel.destroy_resource(resource), Err(Status::INVALID_PARAMETER));
        let lock = w.kernel.lock2(w.device, made.handle).err();
        assert_eq!(lock, Some(Status::INVALID_PARAMETER), "the resource has ended its allocation");
        assert_eq!(regions(w), before + 1);
        // A process that ends is an opener that ends.
        drop((opened.allocations, other));
        assert_eq!(regions(w), alone);
        let gone = w.kernel.open_resource(w.device, name).err();
        assert_eq!(gone, Some(Status::INVALID_PARAMETER));
    });
}

#[test]
fn an_nt_handle_keeps_the_memory() {
    world().run(|w| {
        let _tables = w.allocate(64, AllocationKind::Protocol);
        let before = regions(w);
        let made = w.allocate(64, AllocationKind::Protocol);
        let (resource, global) = share(w, &[&made], true).unwrap();
        assert_eq!(global, 0);
        let handle = w.kernel.share_objects(&[resource], SyncObjectAccess::all(), None).unwrap();
        set_word(&made, 8);
        w.kernel.destroy_resource(resource).unwrap();
        assert_eq!(regions(w), before + 1);
        let opened = w.kernel.open_resource(w.device, ResourceName::NtHandle(&handle)).unwrap();
        assert_eq!(word(&opened.allocations[0]), 8);
        drop(handle);
        w.kernel.destroy_resource(opened.handle).unwrap();
        assert_eq!(regions(w), before);
        w.kernel.destroy_device(w.device).unwrap();
    });
}

#[test]
fn what_cannot_be_shared_is_refused_and_stays_as_it_was() {
    world().run(|w| {
        let (words, bytes) =
            (w.allocate(64, AllocationKind::Protocol), w.allocate(64, AllocationKind::Bulk));
        let moving = w.allocate_in(4096, Placement::Local);
        assert_eq!(share(w, &[&words, &moving], false), Err(Status::NOT_SUPPORTED));
        assert_eq!(share(w, &[&words, &words], false), Err(Status::INVALID_PARAMETER));
        let create = |device, allocations: &[Handle], data: &ResourceData| {
            let nt_security_sharing = false;
            let args = CreateResource { device, allocations, data, nt_security_sharing };
            w.kernel.create_resource(args).err()
        };
        let refused = Some(Status::INVALID_PARAMETER);
        let large = ResourceData { runtime: vec![0; MAX_RESOURCE_DATA_BYTES + 1], ..data(1) };
        assert_eq!(create(w.device, &[bytes.handle], &large), refused);
        assert_eq!(create(w.device, &[bytes.handle], &data(2)), refused);
        assert_eq!(create(w.kernel.create_device().unwrap(), &[bytes.handle], &data(1)), refused);
        assert_eq!(create(w.device, &[w.device], &data(1)), refused);
        // The refusals have not changed the allocation of bytes.
        let (resource, _) = share(w, &[&bytes], false).unwrap();
        assert_eq!(share(w, &[&bytes], false), Err(Status::INVALID_PARAMETER));
        assert_eq!(w.kernel.destroy_allocation(bytes.handle), Err(Status::INVALID_PARAMETER));
        let by_global = w.kernel.share_objects(&[resource], SyncObjectAccess::all(), None);
        assert_eq!(by_global.err(), refused);
        w.kernel.destroy_resource(resource).unwrap();
        // A resource without allocations carries only data.
        share(w, &[], false).unwrap();
    });
}

#[test]
fn an_nt_handle_of_another_adapter_s_resource_is_not_supported() {
    let (w, other) = (host_world(), host_world());
    let made = w.allocate(64, AllocationKind::Protocol);
    let (resource, _) = share(&w, &[&made], true).unwrap();
    let handle = w.kernel.share_objects(&[resource], SyncObjectAccess::all(), None).unwrap();
    let name = ResourceName::NtHandle(&handle);
    let refused = Some(Status::NOT_SUPPORTED);
    assert_eq!(other.kernel.query_resource_info(other.device, name).err(), refused);
    assert_eq!(other.kernel.open_resource(other.device, name).err(), refused);
    assert_eq!(w.kernel.query_resource_info(w.device, name), Ok(data(1)));
}

#[test]
fn a_global_name_is_given_again_after_its_resource() {
    let w = world();
    let places = (0..2_000).map(|_| {
        let (resource, global) = share(&w, &[], false).unwrap();
        w.kernel.destroy_resource(resource).unwrap();
        // The place in the table of names, between the low bits and the generation.
        global >> 6 & 0x1F_FFFF
    });
    let places: BTreeSet<u32> = places.collect();
    assert!(places.len() < 1_100, "{} places for one name at a time", places.len());
}

/// The kernel opens the driver's object for each device, and has it created again for memory that
/// only an NT handle held.
// spec: RES-020
#[test]
fn devices_share_the_object_of_the_driver_while_one_has_it_open() {
    world_with(|config| config.driver.opens_allocations = true).run(|w| {
        let other = w.client("other");
        let opens = |w: &World| {
            let about = w.driver.take().into_iter().filter_map(|call| match call {
                DdiCall::CreateAllocation { .. } => Some("created"),
                DdiCall::OpenAllocation { args } if args.create => Some("opened by its creator"),
                DdiCall::OpenAllocation { .. } => Some("opened"),
                DdiCall::CloseAllocation { .. } => Some("closed"),
                DdiCall::DestroyAllocation { .. } => Some("destroyed"),
                _ => None,
            });
            about.collect::<Vec<_>>()
        };
        w.driver.take();
        let made = w.allocate(64, AllocationKind::Protocol);
        let (resource, _) = share(w, &[&made], true).unwrap();
        let handle = w.kernel.share_objects(&[resource], SyncObjectAccess::all(), None).unwrap();
        assert_eq!(opens(w), ["created", "opened by its creator"]);
        let open = || {
            let name = ResourceName::NtHandle(&handle);
            other.kernel.open_resource(other.device, name).unwrap().handle
        };
        let opened = open();
        w.kernel.destroy_resource(resource).unwrap();
        other.kernel.destroy_resource(opened).unwrap();
        assert_eq!(opens(w), ["opened", "closed", "closed", "destroyed"]);
        let opened = open();
        assert_eq!(opens(w), ["created", "opened"]);
        drop(handle);
        other.kernel.destroy_resource(opened).unwrap();
        assert_eq!(opens(w), ["closed", "destroyed"]);
    });
}
