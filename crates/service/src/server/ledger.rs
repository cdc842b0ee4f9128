//! What one process has created, against its limits.

use super::config::Limits;
use std::collections::BTreeMap;
use tidegate_calls::{Handle, Status};

/// What an object counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    /// Memory in files, in bytes.
    pub(super) bytes: u64,
    /// Whether it is a context or a hardware queue.
    pub(super) queue: bool,
}

/// The objects of a process.
#[derive(Debug)]
pub(super) struct Ledger {
    limits: Limits,
    /// Each with its device, which ends them all.
    objects: BTreeMap<Handle, (Handle, Charge)>,
    /// What ends with an object that is not a device.
    held: BTreeMap<Handle, Vec<Handle>>,
    bytes: u64,
    queues: u32,
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Ledger {
        Ledger { limits, objects: BTreeMap::new(), held: BTreeMap::new(), bytes: 0, queues: 0 }
    }

    /// Returns the number of objects, their bytes, and the number of queues.
    pub(super) fn held(&self) -> (u64, u64, u64) {
        (self.objects.len() as u64, self.bytes, u64::from(self.queues))
    }

    /// Checks an object before it is created.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES for one object or queue too many, NO_MEMORY for too many bytes.
    pub(super) fn check(&self, charge: Charge) -> Result<(), Status> {
        let queues = self.queues + u32::from(charge.queue);
        if self.objects.len() >= self.limits.objects as usize || queues > self.limits.queues {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        match self.bytes.checked_add(charge.bytes) {
            Some(bytes) if bytes <= self.limits.memory_bytes => Ok(()),
            _ => Err(Status::NO_MEMORY),
        }
    }

    /// Records an object that was created from `parent`: a device, or an object of one.
    pub(super) fn enter(&mut self, handle: Handle, parent: Handle, charge: Charge) {
        let device = self.objects.get(&parent).map_or(parent, |(device, _)| *device);
        self.bytes += charge.bytes;
        self.queues += u32::from(charge.queue);
        self.objects.insert(handle, (device, charge));
    }

    /// Records that objects end with `holder`.
    pub(super) fn hold(&mut self, holder: Handle, held: Vec<Handle>) {
        self.held.insert(holder, held);
    }

    /// Returns the memory of the objects that end with `holder`.
    pub(super) fn bytes_held_by(&self, holder: Handle) -> u64 {
        let held = self.held.get(&holder).into_iter().flatten();
        held.filter_map(|handle| self.objects.get(handle)).map(|(_, charge)| charge.bytes).sum()
    }

    /// Records that an object has ended, and what it holds with it. Returns all that have ended.
    pub(super) fn leave(&mut self, handle: Handle) -> Vec<Handle> {
        let of_device = |(_, (device, _)): &(&Handle, &(Handle, Charge))| *device == handle;
        let mut ended: Vec<Handle> = match self.objects.get(&handle) {
            Some((device, _)) if *device == handle => {
                self.objects.iter().filter(of_device).map(|(handle, _)| *handle).collect()
            }
            _ => Vec::new(),
        };
        ended.push(handle);
        ended.extend(self.held.remove(&handle).unwrap_or_default());
        for handle in &ended {
            self.held.remove(handle);
            if let Some((_, charge)) = self.objects.remove(handle) {
                self.bytes -= charge.bytes;
                self.queues -= u32::from(charge.queue);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        objects: 3,
        memory_bytes: 100,
        queues: 1,
        waits: 1,
        wait_fences: 1,
        nt_handles: 1,
        queued: 1,
    };

    #[test]
    fn limits_hold_until_objects_end() {
        let mut ledger = Ledger::new(LIMITS);
        let (device, queue, memory) = (Handle(1), Handle(2), Handle(3));
        let (of_queue, of_memory) =
            (Charge { bytes: 0, queue: true }, Charge { bytes: 60, queue: false });
        ledger.enter(device, device, Charge::default());
        ledger.enter(queue, device, of_queue);
        assert_eq!(ledger.check(of_queue), Err(Status::INSUFFICIENT_RESOURCES));
        ledger.enter(memory, device, of_memory);
        assert_eq!(ledger.check(Charge::default()), Err(Status::INSUFFICIENT_RESOURCES));
        assert_eq!(ledger.leave(queue), [queue]);
        assert_eq!(
            (ledger.check(of_queue), ledger.check(of_memory)),
            (Ok(()), Err(Status::NO_MEMORY))
        );
        let _ended = ledger.leave(device);
        assert_eq!(ledger.held(), (0, 0, 0));
    }

    #[test]
    fn held_objects_end_with_their_holder() {
        let mut ledger = Ledger::new(LIMITS);
        let (device, memory, resource) = (Handle(1), Handle(2), Handle(3));
        for _ in 0..2 {
            ledger.enter(device, device, Charge::default());
            ledger.enter(memory, device, Charge { bytes: 60, queue: false });
            ledger.enter(resource, device, Charge { bytes: 10, queue: false });
            ledger.hold(resource, vec![memory]);
            assert_eq!((ledger.bytes_held_by(resource), ledger.bytes_held_by(memory)), (60, 0));
            let _ended = ledger.leave(resource);
            assert_eq!((ledger.held(), ledger.bytes_held_by(resource)), ((1, 0, 0), 0));
            ledger.enter(resource, device, Charge::default());
            ledger.hold(resource, vec![memory]);
            let _ended = ledger.leave(device);
            assert!(ledger.objects.is_empty() && ledger.held.is_empty());
        }
    }

    #[test]
    fn an_object_of_an_object_belongs_to_its_device() {
        let mut ledger = Ledger::new(LIMITS);
        let (device, context, queue) = (Handle(1), Handle(2), Handle(3));
        ledger.enter(device, device, Charge::default());
        ledger.enter(context, device, Charge::default());
        ledger.enter(queue, context, Charge { bytes: 0, queue: true });
        let _ended = ledger.leave(device);
        assert_eq!(ledger.objects.len(), 0);
        let _ended = ledger.leave(queue);
        assert_eq!(ledger.queues, 0, "an object ends once");
    }

    #[test]
    fn limits_are_reached_and_not_passed() {
        let mut ledger = Ledger::new(LIMITS);
        let bytes = |bytes| Charge { bytes, queue: false };
        assert_eq!(ledger.check(bytes(100)), Ok(()));
        for too_many in [101, u64::MAX] {
            assert_eq!(ledger.check(bytes(too_many)), Err(Status::NO_MEMORY));
        }
        ledger.enter(Handle(1), Handle(1), bytes(99));
        assert_eq!(
            (ledger.check(bytes(1)), ledger.check(bytes(2))),
            (Ok(()), Err(Status::NO_MEMORY))
        );
        assert_eq!(ledger.check(bytes(u64::MAX)), Err(Status::NO_MEMORY), "no sum is so large");
        ledger.enter(Handle(2), Handle(1), bytes(1));
        assert_eq!(ledger.check(bytes(0)), Ok(()));
        ledger.enter(Handle(3), Handle(1), bytes(0));
        // One object too many is the first refusal.
        assert_eq!(ledger.check(bytes(1)), Err(Status::INSUFFICIENT_RESOURCES));
        assert_eq!(ledger.held(), (3, 100, 0));
    }

    #[test]
    fn an_object_that_is_not_known_ends_without_an_effect() {
        let mut ledger = Ledger::new(LIMITS);
        let (device, other) = (Handle(1), Handle(2));
        ledger.enter(device, device, Charge { bytes: 7, queue: false });
        ledger.enter(other, other, Charge { bytes: 5, queue: true });
        assert_eq!(ledger.leave(Handle(9)), [Handle(9)]);
        assert_eq!(ledger.held(), (2, 12, 1));
        // The end of a device is not the end of another one.
        let _ended = ledger.leave(device);
        assert_eq!(ledger.held(), (1, 5, 1));
        assert_eq!(
            ledger.check(Charge { bytes: 0, queue: true }).err(),
            Some(Status::INSUFFICIENT_RESOURCES)
        );
    }

    #[test]
    fn all_that_ends_is_named_so_that_others_can_forget_it() {
        let limits = Limits { objects: 9, ..LIMITS };
        let mut ledger = Ledger::new(limits);
        let [device, resource, memory, queue] = [1, 2, 3, 4].map(Handle);
        for object in [device, resource, memory, queue] {
            ledger.enter(object, device, Charge::default());
        }
        ledger.hold(resource, vec![memory]);
        assert_eq!(ledger.leave(resource), [resource, memory]);
        let mut ended = ledger.leave(device);
        ended.sort_unstable();
        ended.dedup();
        assert_eq!(ended, [device, queue]);
    }
}
