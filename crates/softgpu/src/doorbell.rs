//! Doorbells (a fresh page for each connect, or one location that the queues of a process or of all
//! processes share), and the summaries by which an engine finds rung doorbells.
//!
//! Each address space and node has a group of doorbells with one summary, and another group when it
//! is full. The groups of a removed address space are vacant: they have no summary, and are reused
//! with a new one. Engines that scanned theirs are recalled, so that its memory is free.
//!
//! Order: the summary's bits are taken before the doorbells are read. No engine reads the page of a
//! disconnected doorbell, so a ring there has no effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_gpu_abi::doorbell::SUMMARY_BITS;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_gpu_abi::{AddressSpaceId, DOORBELL_VALUE_WORD, QueueId, Summary};
use tidegate_platform::{ClientAccess, Page, Platform, Untrusted, WakeWord, Word};

/// The location of a connected doorbell.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) page: Page,
    pub(crate) secondary: Option<Page>,
    sharing: Sharing,
    queue: QueueId,
    group: usize,
    bit: u32,
}

/// The queues whose doorbells are one location.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One queue, until the next connect.
    Queue,
    /// The queues of a process.
    Process,
    /// The queues of all processes.
    All,
}

/// The parameters of a connect.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) sharing: Sharing,
    pub(crate) secondary: bool,
    /// In no memory of a guest.
    pub(crate) in_system_memory: bool,
}

/// The value words of a connected doorbell, as its engine reads them. A location that queues share
/// is not read: another queue's ring may have overwritten this one's, and the queue that had its
/// place before may ring late, as the client loads the status after the ring.
pub(crate) struct Bell([Option<Untrusted<Word>>; 2]);

/// The result of reading a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The write pointer that was rung last.
    Pointer(u64),
    /// The doorbell says that the queue was rung, and the control area has the write pointer.
    InControlArea,
}

impl Bell {
    pub(crate) fn read(&self) -> Reading {
        let pointers = self.0.iter().flatten().map(Untrusted::load_once);
        pointers.max().map_or(Reading::InControlArea, Reading::Pointer)
    }
}

impl Seat {
    /// Returns the group and bit of a doorbell that no other queue shares.
    pub(crate) fn own_bit(&self) -> Option<(usize, u32)> {
        (self.sharing == Sharing::Queue).then_some((self.group, self.bit))
    }

    /// Returns the words that the engine reads.
    pub(crate) fn bell(&self) -> Bell {
        let word = |page: &Page| Untrusted::new(page.word(DOORBELL_VALUE_WORD));
        Bell(match self.sharing {
            Sharing::Queue => [Some(word(&self.page)), self.secondary.as_ref().map(word)],
            Sharing::Process | Sharing::All => [None, None],
        })
    }
}

struct Group {
    address_space: AddressSpaceId,
    node: u32,
    /// `None` in a vacant group.
    summary: Option<Arc<Summary>>,
    /// The queue of each doorbell, by bit number.
    seats: Vec<Option<QueueId>>,
    free: Vec<u32>,
}

impl Group {
    fn is_vacant(&self) -> bool {
        self.summary.is_none()
    }

    fn has_room(&self) -> bool {
        !self.free.is_empty() || (self.seats.len() as u32) < SUMMARY_BITS
    }

    fn seat(&mut self, queue: QueueId) -> u32 {
        if let Some(bit) = self.free.pop() {
            self.seats[bit as usize] = Some(queue);
            return bit;
        }
        self.seats.push(Some(queue));
        self.seats.len() as u32 - 1
    }
}

/// The queue that a doorbell is connected for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeatOwner {
    pub(crate) queue: QueueId,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) node: u32,
}

/// All doorbells of the GPU.
pub(crate) struct Doorbells {
    groups: Vec<Group>,
    /// The shared locations of each process: primary and secondary.
    global: BTreeMap<AddressSpaceId, [Page; 2]>,
    /// The locations that all processes share, if the GPU has them.
    global_of_all: Option<[Page; 2]>,
    /// The common doorbell and its group's number.
    common: Option<(usize, CommonDoorbell)>,
    /// Doorbells whose rings set no bit, by group and bit.
    polled: BTreeMap<(usize, u32), Seat>,
}

/// A doorbell whose rings set no bit, as its engine looks at it.
pub(crate) struct Polled {
    pub(crate) group: usize,
    pub(crate) bit: u32,
    bell: Bell,
    /// What the last look that was taken has found.
    seen: Reading,
}

impl Polled {
    /// Returns whether the doorbell was rung since the last look that was taken.
    pub(crate) fn is_rung(&self) -> bool {
        self.bell.read() != self.seen
    }

    /// Takes a look. Returns whether the doorbell was rung since the last one.
    pub(crate) fn take(&mut self) -> bool {
        let found = self.bell.read();
        std::mem::replace(&mut self.seen, found) != found
    }
}

/// Returns a page for a doorbell. A page that is a file from the start never moves into the memory
/// of a guest.
fn new_page(platform: &Platform, is_file: bool) -> Page {
    let page = platform.client_page(8, ClientAccess::ReadWrite);
    page.word(DOORBELL_VALUE_WORD).named("the doorbell");
    if is_file {
        let _file = page.shared();
    }
    page
}

/// The address space of the common doorbell's group, which takes no queues.
const NO_PROCESS: AddressSpaceId = AddressSpaceId(u32::MAX);

impl Doorbells {
    /// The doorbells of a GPU without a connection. With `one_global` it has locations that all
    /// processes share.
    pub(crate) fn new(platform: &Platform, one_global: bool) -> Doorbells {
        // Their values are never read.
        let location = || new_page(platform, true);
        Doorbells {
            groups: Vec::new(),
            global: BTreeMap::new(),
            global_of_all: one_global.then(|| [location(), location()]),
            common: None,
            polled: BTreeMap::new(),
        }
    }

    pub(crate) fn common(&self) -> Option<&CommonDoorbell> {
        self.common.as_ref().map(|(_, doorbell)| doorbell)
    }

    /// Has the engine of node 0 read the common doorbell.
    pub(crate) fn add_common(&mut self, doorbell: &CommonDoorbell) {
        let summary = Some(Arc::new(doorbell.summary().clone()));
        let (seats, free) = (Vec::new(), Vec::new());
        self.groups.push(Group { address_space: NO_PROCESS, node: 0, summary, seats, free });
        self.common = Some((self.groups.len() - 1, doorbell.clone()));
    }

    /// Returns another GPU's payload, if `group` is the common doorbell's.
    pub(crate) fn payload(&self, group: usize, bit: u32) -> Option<u64> {
        let (common, doorbell) = self.common.as_ref()?;
        (*common == group).then(|| doorbell.take(bit))
    }

    /// Connects a doorbell for `queue`. Its word is 0: a write pointer that the queue knows
    /// already. Returns the seat, and whether the node has a new summary.
    // spec: UMS-006, UMS-029
    pub(crate) fn connect(
        &mut self,
        platform: &Platform,
        wake: &WakeWord,
        owner: SeatOwner,
        placement: Placement,
    ) -> (Seat, bool) {
        let SeatOwner { queue, address_space, node } = owner;
        let [page, second] = self.pages(platform, address_space, placement);
        let room = |g: &Group| {
            !g.is_vacant() && g.address_space == address_space && g.node == node && g.has_room()
        };
        let found = self.groups.iter().position(room);
        let group = found.unwrap_or_else(|| {
            let summary = Some(Arc::new(Summary::new(platform, wake.clone())));
            let fresh = Group { address_space, node, summary, seats: Vec::new(), free: Vec::new() };
            let vacant = self.groups.iter().position(|g| g.node == node && g.is_vacant());
            let place = vacant.unwrap_or(self.groups.len());
            match vacant {
                Some(place) => self.groups[place] = fresh,
                None => self.groups.push(fresh),
            }
            place
        });
        let bit = self.groups[group].seat(queue);
        let secondary = placement.secondary.then_some(second);
        let sharing = placement.sharing;
        (Seat { page, secondary, sharing, queue, group, bit }, found.is_none())
    }

    /// Returns a doorbell's page and its secondary page, which is the same page if none was
    /// requested.
    fn pages(
        &mut self,
        platform: &Platform,
        address_space: AddressSpaceId,
        placement: Placement,
    ) -> [Page; 2] {
        let fresh = || new_page(platform, placement.in_system_memory);
        match placement.sharing {
            Sharing::All => self.global_of_all.clone().expect("the GPU has one global doorbell"),
            Sharing::Process => {
                self.global.entry(address_space).or_insert_with(|| [fresh(), fresh()]).clone()
            }
            Sharing::Queue => {
                let page = fresh();
                let second = if placement.secondary { fresh() } else { page.clone() };
                [page, second]
            }
        }
    }

    /// Returns whether an engine looks at the doorbell's page, and has to be told.
    pub(crate) fn disconnect(&mut self, seat: &Seat) -> bool {
        // Its address space may be gone already.
        if self.owner(seat.group, seat.bit) != Some(seat.queue) {
            return false;
        }
        let group = &mut self.groups[seat.group];
        group.seats[seat.bit as usize] = None;
        group.free.push(seat.bit);
        self.polled.remove(&(seat.group, seat.bit)).is_some()
    }

    /// Has the engine look at the page of a doorbell whose rings set no bit. A location that queues
    /// share is not looked at. Returns whether that is new.
    pub(crate) fn poll(&mut self, seat: &Seat) -> bool {
        let place = (seat.group, seat.bit);
        seat.sharing == Sharing::Queue && self.polled.insert(place, seat.clone()).is_none()
    }

    /// Returns the doorbells at which an engine of `node` looks. A ring from before counts as one
    /// since.
    pub(crate) fn polled_of_node(&self, node: u32) -> Vec<Polled> {
        let of_node = self.polled.iter().filter(|((group, _), _)| self.groups[*group].node == node);
        let polled = |(_, seat): (_, &Seat)| Polled {
            group: seat.group,
            bit: seat.bit,
            bell: seat.bell(),
            seen: Reading::Pointer(0),
        };
        of_node.map(polled).collect()
    }

    /// Removes the doorbells of an address space and its queues. Returns the nodes that have a
    /// summary less.
    pub(crate) fn forget_space(&mut self, id: AddressSpaceId) -> Vec<u32> {
        let mut nodes = Vec::new();
        let of_space = |g: &&mut Group| g.address_space == id && !g.is_vacant();
        for group in self.groups.iter_mut().filter(of_space) {
            group.summary = None;
            group.seats = Vec::new();
            group.free = Vec::new();
            nodes.push(group.node);
        }
        self.polled.retain(|(group, _), _| !self.groups[*group].is_vacant());
        self.global.remove(&id);
        nodes
    }

    /// Returns the number of groups in use and of connected doorbells.
    pub(crate) fn in_use(&self) -> (usize, usize) {
        let groups = self.groups.iter().filter(|g| !g.is_vacant()).count();
        (groups, self.groups.iter().flat_map(|g| &g.seats).flatten().count())
    }

    /// Returns what the ringer of a seat needs: page, summary and bit.
    pub(crate) fn ringer(&self, seat: &Seat) -> Option<(Page, Summary, u32)> {
        let summary = self.groups[seat.group].summary.as_deref()?;
        Some((seat.page.clone(), summary.clone(), seat.bit))
    }

    /// Returns the queue whose doorbell has this number.
    pub(crate) fn owner(&self, group: usize, bit: u32) -> Option<QueueId> {
        self.groups.get(group)?.seats.get(bit as usize).copied().flatten()
    }

    /// Returns the summaries that an engine of `node` scans, with the numbers of their groups.
    pub(crate) fn of_node(&self, node: u32) -> Vec<(usize, Arc<Summary>)> {
        let of_node = self.groups.iter().enumerate().filter(|(_, g)| g.node == node);
        of_node.filter_map(|(index, g)| Some((index, g.summary.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_gpu_abi::doorbell::global_base;

    /// A process of the tests.
    const PROCESS: AddressSpaceId = AddressSpaceId(3);

    struct Gpu {
        platform: Platform,
        wake: WakeWord,
        doorbells: Doorbells,
    }

    impl Gpu {
        fn new() -> Gpu {
            let platform = Platform::host();
            let wake = WakeWord::new(&platform);
            let doorbells = Doorbells::new(&platform, true);
            Gpu { platform, wake, doorbells }
        }

        /// Connects a doorbell of node 0. Returns whether the node has a new summary.
        fn connect(
            &mut self,
            queue: QueueId,
            space: AddressSpaceId,
            sharing: Sharing,
        ) -> (Seat, bool) {
            let placement = Placement { sharing, secondary: false, in_system_memory: false };
            let owner = SeatOwner { queue, address_space: space, node: 0 };
            self.doorbells.connect(&self.platform, &self.wake, owner, placement)
        }
    }

    #[test]
    fn a_seat_is_freed_once_and_only_by_the_queue_that_has_it() {
        let mut gpu = Gpu::new();
        let queues: Vec<QueueId> = (0..5).map(|place| QueueId::new(place, 0)).collect();
        let (first, _) = gpu.connect(queues[0], PROCESS, Sharing::Queue);
        assert_eq!(gpu.doorbells.forget_space(PROCESS), [0]);
        let (second, fresh) = gpu.connect(queues[1], AddressSpaceId(4), Sharing::Queue);
        assert_eq!((second.own_bit(), fresh), (first.own_bit(), true), "the seat has a new queue");
        gpu.doorbells.disconnect(&first);
        assert_eq!(gpu.doorbells.owner(0, 0), Some(queues[1]));

        gpu.doorbells.disconnect(&second);
        gpu.doorbells.disconnect(&second);
        let bits = [2, 3, 4].map(|place| {
            gpu.connect(queues[place], AddressSpaceId(4), Sharing::Queue).0.own_bit().unwrap()
        });
        assert_eq!(bits, [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(gpu.doorbells.in_use(), (1, 3));
    }

    #[test]
    fn a_group_has_as_many_doorbells_as_its_summary_has_bits() {
        let mut gpu = Gpu::new();
        for place in 0..SUMMARY_BITS {
            let (seat, fresh) = gpu.connect(QueueId::new(place, 0), PROCESS, Sharing::Process);
            assert_eq!((seat.group, seat.bit, fresh), (0, place, place == 0));
        }
        let (seat, fresh) = gpu.connect(QueueId::new(SUMMARY_BITS, 0), PROCESS, Sharing::Process);
        assert_eq!((seat.group, seat.bit, fresh), (1, 0, true));
        assert_eq!((gpu.doorbells.of_node(0).len(), gpu.doorbells.of_node(1).len()), (2, 0));
        assert_eq!(gpu.doorbells.in_use(), (2, SUMMARY_BITS as usize + 1));
        assert_eq!(gpu.doorbells.forget_space(PROCESS), [0, 0]);
    }

    #[test]
    fn the_shared_location_of_a_process_ends_with_it() {
        let mut gpu = Gpu::new();
        let (one, other) = (QueueId::new(1, 0), QueueId::new(2, 0));
        let (seat, _) = gpu.connect(one, PROCESS, Sharing::Process);
        let (beside, _) = gpu.connect(other, PROCESS, Sharing::Process);
        assert!(seat.page.same(&beside.page));
        beside.page.store(DOORBELL_VALUE_WORD, 7);

        gpu.doorbells.forget_space(PROCESS);
        let (later, _) = gpu.connect(other, PROCESS, Sharing::Process);
        assert_eq!(later.page.load(DOORBELL_VALUE_WORD), 0, "a process of the same number");
    }

    #[test]
    fn a_late_ring_in_a_shared_location_says_nothing_about_write_pointers() {
        for sharing in [Sharing::Process, Sharing::All] {
            let mut gpu = Gpu::new();
            let (ended, _) = gpu.connect(QueueId::new(1, 0), PROCESS, sharing);
            gpu.doorbells.disconnect(&ended);
            let next = QueueId::new(1, 1);
            let (seat, _) = gpu.connect(next, PROCESS, sharing);
            // The place is the same, so the value is, too.
            ended.page.store(DOORBELL_VALUE_WORD, global_base(next) + 7);
            assert_eq!(seat.bell().read(), Reading::InControlArea);
        }
    }

    #[test]
    fn a_location_of_all_processes_outlives_each() {
        let mut gpu = Gpu::new();
        let (one, other) = (QueueId::new(1, 0), QueueId::new(2, 0));
        let (seat, _) = gpu.connect(one, PROCESS, Sharing::All);
        let (beside, _) = gpu.connect(other, AddressSpaceId(4), Sharing::All);
        assert!(seat.page.same(&beside.page));
        assert_ne!(seat.group, beside.group, "each process rings with its summary");
        gpu.doorbells.forget_space(PROCESS);
        let (again, _) = gpu.connect(one, PROCESS, Sharing::All);
        assert!(again.page.same(&beside.page));
    }
}
