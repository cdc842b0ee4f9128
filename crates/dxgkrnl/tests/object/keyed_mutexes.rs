//! Keyed mutexes: their owners, their waiters, and how they end.

use tidegate::calls::{
    CreateKeyedMutex, CreateSynchronizationObject, KeyedMutex, KeyedMutexAcquire,
    MAX_KEYED_MUTEX_DATA_BYTES, OlderObject, OpenSynchronizationObject, ReleaseKeyedMutex,
};
use tidegate_testbed::prelude::*;

fn try_create(client: &Client, data: Vec<u8>, nt: bool) -> Result<KeyedMutex, Status> {
    let (device, initial_key) = (client.device, 1);
    let args = CreateKeyedMutex { device, initial_key, data, nt_security_sharing: nt };
    client.kernel.create_keyed_mutex(args)
}

fn open(client: &Client, global: u32) -> Result<Handle, Status> {
    client.kernel.open_keyed_mutex(ResourceName::Shared(global)).map(|opened| opened.handle)
}

fn acquire(client: &Client, mutex: Handle, key: u64) -> KeyedMutexAcquire {
    client.kernel.acquire_keyed_mutex(mutex, key).unwrap()
}

fn acquired(fence_value: u64) -> KeyedMutexAcquire {
    KeyedMutexAcquire::Acquired { fence_value, data: vec![5] }
}

fn release(client: &Client, mutex: Handle, key: u64, fence_value: u64) -> Result<(), Status> {
    let args = ReleaseKeyedMutex { mutex, key, fence_value, replaces_data: false, data: &[] };
    client.kernel.release_keyed_mutex(args)
}

#[test]
fn a_waiter_of_a_change_finds_the_key_of_the_release() {
    world().run(|w| {
        let other = w.client("other");
        let made = try_create(w, vec![5], false).unwrap();
        let opened = open(&other, made.shared_handle).unwrap();
        let changes = other.kernel.open_keyed_mutex_changes(other.device, opened).unwrap();
        assert_eq!(acquire(w, made.handle, 2), KeyedMutexAcquire::Held { change: 1 });
        assert_eq!(acquire(w, made.handle, 1), acquired(0));
        let held = KeyedMutexAcquire::Held { change: 1 };
        assert_eq!(acquire(&other, opened, 1), held);
        assert_eq!(release(&other, opened, 1, 0), Err(Status::INVALID_PARAMETER));
        let event = other.wait_event(&changes, 1);
        assert!(!event.is_set());
        release(w, made.handle, 3, 77).unwrap();
        assert!(event.is_set());
        assert_eq!(release(w, made.handle, 3, 77), Err(Status::INVALID_PARAMETER));
        assert_eq!(acquire(&other, opened, 1), KeyedMutexAcquire::Held { change: 2 });
        assert_eq!(acquire(&other, opened, 3), acquired(77));
        // The kernel alone counts the changes.
        assert_eq!(other.try_signal(&changes, 9), Err(Status::ACCESS_DENIED));
    });
}

#[test]
fn the_end_of_an_owner_abandons_a_mutex_and_wakes_its_waiters() {
    world().run(|w| {
        let made = try_create(w, vec![5], false).unwrap();
        let changes = w.kernel.open_keyed_mutex_changes(w.device, made.handle).unwrap();
        // An instance that does not own it ends without effect.
        let other = w.client("other");
        open(&other, made.shared_handle).unwrap();
        drop(other);
        let owner = w.client("owner");
        let opened = open(&owner, made.shared_handle).unwrap();
        assert_eq!(acquire(&owner, opened, 1), acquired(0));
        let event = w.wait_event(&changes, 1);
        // Its device does not end it.
        owner.kernel.destroy_device(owner.device).unwrap();
        assert!(!event.is_set());
        drop(owner);
        assert!(event.is_set());
        assert_eq!(acquire(w, made.handle, 1), KeyedMutexAcquire::Abandoned);
        assert_eq!(acquire(w, made.handle, 2), KeyedMutexAcquire::Abandoned);
    });
}

#[test]
fn a_global_handle_of_a_mutex_keeps_nothing_alive() {
    world().run(|w| {
        let large = vec![0; MAX_KEYED_MUTEX_DATA_BYTES + 1];
        assert_eq!(try_create(w, large.clone(), false).err(), Some(Status::INVALID_PARAMETER));
        let made = try_create(w, vec![5], false).unwrap();
        assert_eq!(acquire(w, made.handle, 1), acquired(0));
        let args = ReleaseKeyedMutex {
            mutex: made.handle,
            key: 1,
            fence_value: 0,
            replaces_data: true,
            data: &large,
        };
        assert_eq!(w.kernel.release_keyed_mutex(args), Err(Status::INVALID_PARAMETER));
        let share = |objects: &[Handle]| {
            w.kernel.share_objects(objects, SyncObjectAccess::all(), None).err()
        };
        assert_eq!(share(&[made.handle]), Some(Status::INVALID_PARAMETER));
        assert_eq!(share(&[made.handle; 3]), Some(Status::INVALID_PARAMETER));
        w.kernel.destroy_keyed_mutex(made.handle).unwrap();
        assert_eq!(w.kernel.destroy_keyed_mutex(made.handle), Err(Status::INVALID_PARAMETER));
        assert_eq!(open(w, made.shared_handle), Err(Status::INVALID_PARAMETER));
    });
}

#[test]
fn a_mutex_and_an_object_of_another_adapter_are_not_supported() {
    let (w, other) = (host_world(), host_world());
    let data = ResourceData { runtime: vec![1], driver: vec![], allocations: vec![] };
    let resource = w.kernel.create_resource(CreateResource {
        device: w.device,
        allocations: &[],
        data: &data,
        nt_security_sharing: true,
    });
    let resource = resource.unwrap().handle;
    let object = w.kernel.create_synchronization_object(CreateSynchronizationObject {
        device: w.device,
        object: OlderObject::Fence { initial_value: 0 },
        flags: SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING,
    });
    let object = object.unwrap().handle;
    let share =
        |mutex| w.kernel.share_objects(&[resource, mutex, object], SyncObjectAccess::all(), None);
    let global = try_create(&w, vec![5], false).unwrap().handle;
    assert_eq!(share(global).err(), Some(Status::INVALID_PARAMETER));
    let handle = share(try_create(&w, vec![5], true).unwrap().handle).unwrap();
    let name = ResourceName::NtHandle(&handle);
    let refused = Some(Status::NOT_SUPPORTED);
    assert_eq!(other.kernel.open_keyed_mutex(name).err(), refused);
    assert!(w.kernel.open_keyed_mutex(name).is_ok());
    let open = |client: &World| {
        let args = OpenSynchronizationObject::NtHandle {
            device: Some(client.device),
            nt_handle: &handle,
            flags: SyncObjectFlags::empty(),
        };
        client.kernel.open_synchronization_object(args)
    };
    assert_eq!(open(&other).err(), refused);
    assert!(open(&w).is_ok());
}
