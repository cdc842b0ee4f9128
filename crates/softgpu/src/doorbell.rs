//! Doorbells: a fresh page for each connect, or the one location of a process that its
//! queues share, and the summaries by which an engine finds the ones that were rung.
//!
//! There is one group of doorbells, with one summary, per address space and node; a further one
//! when it is full. The groups of an address space that is gone are vacant, and become those of
//! others, with a new summary. The order that matters is the summary's: bits are taken first,
//! doorbells are read after. No engine reads the page of a disconnected doorbell, so a ring there
//! has no effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_gpu_abi::doorbell::SUMMARY_BITS;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_gpu_abi::{AddressSpaceId, DOORBELL_VALUE_WORD, QueueId, Summary, global_parts};
use tidegate_platform::{Page, Platform, Untrusted, WakeWord, Word};

/// Where a connected doorbell is.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) page: Page,
    pub(crate) secondary: Option<Page>,
    global: bool,
    group: usize,
    bit: u32,
}

/// What the driver asks of a connect.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) global: bool,
    pub(crate) secondary: bool,
}

/// The value words of a connected doorbell, as its engine reads them.
pub(crate) struct Bell {
    words: [Option<Untrusted<Word>>; 2],
    /// This queue, where other queues store to the same words.
    among: Option<QueueId>,
}

/// What a look at a doorbell comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The write pointer that was rung last.
    Pointer(u64),
    /// Another queue has rung since, over whatever this one rang: its control area has the write
    /// pointer.
    Overwritten,
}

impl Bell {
    pub(crate) fn read(&self) -> Reading {
        let values = self.words.iter().flatten().map(Untrusted::load_once);
        let Some(queue) = self.among else { return Reading::Pointer(values.max().unwrap_or(0)) };
        let mine = values
            .map(global_parts)
            .filter(|(named, _)| *named == queue)
            .map(|(_, pointer)| pointer);
        mine.max().map_or(Reading::Overwritten, Reading::Pointer)
    }
}

impl Seat {
    /// The words that the engine of `queue` reads.
    pub(crate) fn bell(&self, queue: QueueId) -> Bell {
        let word = |page: &Page| Untrusted::new(page.word(DOORBELL_VALUE_WORD));
        Bell {
            words: [Some(word(&self.page)), self.secondary.as_ref().map(word)],
            among: self.global.then_some(queue),
        }
    }
}

struct Group {
    address_space: AddressSpaceId,
    node: u32,
    summary: Arc<Summary>,
    /// By bit number: whose doorbell it is.
    seats: Vec<Option<QueueId>>,
    free: Vec<u32>,
}

impl Group {
    fn is_vacant(&self) -> bool {
        self.address_space == VACANT
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

/// All doorbells of the GPU.
#[derive(Default)]
pub(crate) struct Doorbells {
    groups: Vec<Group>,
    /// By process: its location, and the secondary one.
    global: BTreeMap<AddressSpaceId, [Page; 2]>,
    /// The common doorbell, and the number of its group.
    common: Option<(usize, CommonDoorbell)>,
}

/// No process's: the group of the common doorbell has no room for queues.
const NO_PROCESS: AddressSpaceId = AddressSpaceId(u32::MAX);
/// The address space of a vacant group.
const VACANT: AddressSpaceId = AddressSpaceId(u32::MAX - 1);

impl Doorbells {
    pub(crate) fn common(&self) -> Option<&CommonDoorbell> {
        self.common.as_ref().map(|(_, doorbell)| doorbell)
    }

    /// The engine of node 0 looks at the common doorbell from now on.
    pub(crate) fn add_common(&mut self, doorbell: &CommonDoorbell) {
        let summary = Arc::new(doorbell.summary().clone());
        let (seats, free) = (Vec::new(), Vec::new());
        self.groups.push(Group { address_space: NO_PROCESS, node: 0, summary, seats, free });
        self.common = Some((self.groups.len() - 1, doorbell.clone()));
    }

    /// What another GPU wrote, if `group` is the common doorbell's.
    pub(crate) fn payload(&self, group: usize, bit: u32) -> Option<u64> {
        let (common, doorbell) = self.common.as_ref()?;
        (*common == group).then(|| doorbell.take(bit))
    }

    /// Gives `queue` a doorbell whose word shows `known` already, so that a look at it before the
    /// first ring finds nothing new. Returns the seat, and whether the node has a summary more than
    /// before.
    // spec: UMS-006, UMS-029
    pub(crate) fn connect(
        &mut self,
        platform: &Platform,
        wake: &WakeWord,
        (queue, address_space, node): (QueueId, AddressSpaceId, u32),
        known: u64,
        placement: Placement,
    ) -> (Seat, bool) {
        let [page, second] = self.pages(platform, address_space, known, placement);
        let room = |g: &Group| g.address_space == address_space && g.node == node && g.has_room();
        let found = self.groups.iter().position(room);
        let group = found.unwrap_or_else(|| {
            let summary = Arc::new(Summary::new(platform, wake.clone()));
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
        (Seat { page, secondary, global: placement.global, group, bit }, found.is_none())
    }

    /// A doorbell's page and the secondary one, which is a dead one when it was not placement for. A
    /// location that a process's queues share stays as it is: only that process reaches it, and a
    /// ring there for a queue that is not connected has no effect.
    fn pages(
        &mut self,
        platform: &Platform,
        address_space: AddressSpaceId,
        known: u64,
        placement: Placement,
    ) -> [Page; 2] {
        let fresh = || {
            let page = platform.page(8);
            page.word(DOORBELL_VALUE_WORD).named("the doorbell");
            page
        };
        if placement.global {
            return self.global.entry(address_space).or_insert_with(|| [fresh(), fresh()]).clone();
        }
        let page = fresh();
        page.store(DOORBELL_VALUE_WORD, known);
        let second = if placement.secondary { fresh() } else { page.clone() };
        [page, second]
    }

    pub(crate) fn disconnect(&mut self, seat: &Seat) {
        if let Some(group) = self.groups.get_mut(seat.group) {
            group.seats[seat.bit as usize] = None;
            group.free.push(seat.bit);
        }
    }

    /// The address space is gone, and with it every queue that had a seat there.
    pub(crate) fn forget_space(&mut self, id: AddressSpaceId) {
        for group in self.groups.iter_mut().filter(|g| g.address_space == id) {
            group.address_space = VACANT;
            group.seats.fill(None);
        }
        self.global.remove(&id);
    }

    /// How many groups are not vacant, and how many seats are taken.
    pub(crate) fn in_use(&self) -> (usize, usize) {
        let groups = self.groups.iter().filter(|g| !g.is_vacant()).count();
        (groups, self.groups.iter().flat_map(|g| &g.seats).flatten().count())
    }

    /// What the ringer of a seat needs.
    pub(crate) fn ringer(&self, seat: &Seat) -> (Page, Summary, u32) {
        (seat.page.clone(), Summary::clone(&self.groups[seat.group].summary), seat.bit)
    }

    /// Whose doorbell has this number now.
    pub(crate) fn owner(&self, group: usize, bit: u32) -> Option<QueueId> {
        self.groups.get(group)?.seats.get(bit as usize).copied().flatten()
    }

    /// The summaries that an engine of `node` looks at, with the numbers of their groups.
    pub(crate) fn of_node(&self, node: u32) -> Vec<(usize, Arc<Summary>)> {
        let all = self.groups.iter().enumerate().filter(|(_, g)| g.node == node && !g.is_vacant());
        all.map(|(index, g)| (index, Arc::clone(&g.summary))).collect()
    }
}
