//! Doorbells: the address that a process rings, its status word, and the order of connects and
//! disconnects.
//!
//! Order of a disconnect: 1. the status; 2. the hardware; 3. the mapping is switched to a dummy
//! page. The published order (mapping first) can lose a ring that lands on the dummy page while the
//! status still reads CONNECTED. The driver is then notified of pending work. A dedicated doorbell
//! gets a fresh page per connect, so a stale page rings nothing.
//!
//! Invariants: the transition lock orders every create, connect, disconnect and destroy of an
//! adapter. A disconnect that the driver calls from inside connect (victimising) runs on the lock's
//! owner, inside its transition. When [`Doorbell::end`] returns, no lookup finds the doorbell, no
//! ring reaches hardware, and the driver has released it (decision 51).

mod state;
mod window;

use crate::driver::{DdiCall, DriverPort};
use crate::error::BugCheck;
use crate::memory::{AllocationObject, Memory, Pinned};
use crate::object::hw_queue::HwQueue;
use crate::registry::Registry;
use crate::stats::Count;
use state::{Announcement, State};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::doorbell::Connection;
use tidegate_calls::snapshot::DoorbellState;
use tidegate_calls::{AllocationMemory, CreateDoorbellFlags, DoorbellStatus, Status};
use tidegate_d3dukmdt::DOORBELL_PRIVATE_DATA_BYTES;
use tidegate_ddi::doorbell::{self, ConnectDoorbellFlags, CreateDoorbell, DisconnectReason};
use tidegate_ddi::queue::RingAllocations;
use tidegate_ddi::{ConnectedDoorbell, DriverHandle, Irql, OsHandle, Passive};
use tidegate_platform::planted;
use tidegate_platform::{ClientAccess, CpuTime, Mapping, Mutex, Step, Untrusted, Word};
use tidegate_trace::{Kind, Record};
use window::Window;

/// Live doorbells, with an index by hardware queue.
#[derive(Default)]
struct DoorbellTable {
    all: Registry<Doorbell>,
    /// By queue and doorbell.
    of_queues: BTreeSet<(OsHandle, OsHandle)>,
}

impl DoorbellTable {
    fn insert(&mut self, doorbell: &Arc<Doorbell>) {
        self.all.insert(doorbell.os_handle, doorbell);
        self.of_queues.insert((doorbell.queue.os_handle, doorbell.os_handle));
    }

    fn remove(&mut self, hw_queue: OsHandle, doorbell: OsHandle) {
        // A removal never waits only for doorbells.
        let _emptied = self.all.remove(doorbell);
        self.of_queues.remove(&(hw_queue, doorbell));
    }

    /// Returns the doorbells of one queue, in order of creation.
    fn of_queue(&self, hw_queue: OsHandle) -> Vec<Arc<Doorbell>> {
        let range = (hw_queue, OsHandle(0))..=(hw_queue, OsHandle(u64::MAX));
        self.of_queues.range(range).filter_map(|(_, doorbell)| self.all.get(*doorbell)).collect()
    }
}

/// The doorbells of one adapter.
pub(crate) struct Doorbells {
    port: Arc<DriverPort>,
    table: Mutex<DoorbellTable>,
    /// Orders every create, connect, disconnect and destroy of a doorbell.
    pub(super) transition: Mutex<()>,
    /// Doorbells that the driver victimised during the current transition.
    victimised: Mutex<Vec<Victimised>>,
}

impl Doorbells {
    pub(super) fn new(port: &Arc<DriverPort>) -> Arc<Doorbells> {
        let platform = &port.platform;
        Arc::new(Doorbells {
            port: port.clone(),
            table: platform.mutex("doorbells", DoorbellTable::default()),
            transition: platform.mutex("doorbell transition", ()),
            victimised: platform.mutex("victimised doorbells", Vec::new()),
        })
    }

    /// Returns the number of live doorbells.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().all.len()
    }

    /// Returns at most `most` doorbells that were created after `handle`, in order of creation.
    pub(crate) fn after(&self, handle: u64, most: usize) -> Vec<(u64, Arc<Doorbell>)> {
        self.table.lock().all.live_after(handle, most)
    }

    /// Returns all doorbells, in order of creation.
    pub(super) fn all(&self) -> Vec<Arc<Doorbell>> {
        let all = self.table.lock().all.live();
        self.port.stats.add(Count::doorbells_walked, all.len() as u64);
        all
    }

    /// Returns the doorbells of one hardware queue: at most one, or two during a ring resize.
    pub(crate) fn of_queue(&self, hw_queue: OsHandle) -> Vec<Arc<Doorbell>> {
        let found = self.table.lock().of_queue(hw_queue);
        self.port.stats.add(Count::doorbells_walked, found.len() as u64);
        found
    }

    /// Takes the doorbells that the driver victimised during the current transition.
    fn take_victimised(&self) -> Vec<Victimised> {
        std::mem::take(&mut *self.victimised.lock())
    }

    /// DxgkCbDisconnectDoorbell: the driver victimises the doorbell. It disconnects the hardware
    /// itself after this returns.
    pub(crate) fn disconnected_by_driver(
        &self,
        _level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        // spec: UMS-069
        let found = self.table.lock().all.get(doorbell);
        let doorbell = found.ok_or(Status::INVALID_PARAMETER)?;
        // spec: UMS-070
        let inside = self.transition.is_mine();
        let named = doorbell.queue.os_handle == hw_queue;
        let transition = (!inside).then(|| self.transition.lock_device());
        // 1. The status. 2. The mapping. 3. The driver disconnects the hardware after this returns.
        // spec: UMS-096
        let was_connected = named && doorbell.announce_disconnect(reason);
        if was_connected {
            doorbell.hide();
            doorbell.count_taken();
            doorbell.record("doorbell taken away");
            self.port.count(Count::doorbell_victims);
        }
        drop(transition);
        // Within a connect, the driver disconnects the hardware after this returns. The connect
        // then notifies it of pending work.
        if inside {
            let was_connected = was_connected && reason == DisconnectReason::Retry;
            self.victimised.lock().push(Victimised { doorbell, was_connected });
        }
        if named { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }
}

/// A doorbell that the driver victimised during the current transition.
struct Victimised {
    doorbell: Arc<Doorbell>,
    /// Whether it was connected, so that a ring may be lost.
    was_connected: bool,
}

/// One doorbell.
pub(crate) struct Doorbell {
    all: Arc<Doorbells>,
    pub(crate) os_handle: OsHandle,
    driver: DriverHandle,
    pub(crate) queue: Arc<HwQueue>,
    /// Keeps ring and control area alive as long as the doorbell.
    // spec: UMS-034, UMS-035
    rings: Mutex<PinnedRings>,
    window: Window,
    secondary: Option<Window>,
    pub(crate) status: Word,
    /// Whether the process stores write pointers without a base.
    only_stores: bool,
    /// Whether the process maps the pages itself, after a connect.
    maps_pages: bool,
    // spec: UMS-086
    pub(crate) last_queued: Untrusted<Word>,
    state: Arc<Mutex<State>>,
}

/// Ring and control area, kept resident. The process has already made them resident.
#[derive(Default)]
struct PinnedRings(Vec<Pinned>);

impl PinnedRings {
    fn new(
        level: Irql<'_>,
        memory: &Arc<Memory>,
        ring: &Arc<AllocationObject>,
        control: &Arc<AllocationObject>,
    ) -> Result<PinnedRings, Status> {
        let mut pinned = PinnedRings(Vec::with_capacity(2));
        for allocation in [ring, control] {
            pinned.0.push(memory.pin(level, allocation)?);
        }
        Ok(pinned)
    }
}

/// What a process asks of a doorbell.
pub(crate) struct DoorbellRequest {
    pub(crate) ring: Arc<AllocationObject>,
    pub(crate) control: Arc<AllocationObject>,
    pub(crate) flags: CreateDoorbellFlags,
    /// The process stores write pointers without a base.
    pub(crate) only_stores: bool,
    /// The process maps the pages itself, after a connect.
    pub(crate) maps_pages: bool,
}

impl Doorbell {
    /// Creates a disconnected doorbell (D3DKMTCreateDoorbell). In a resize, the queue's current
    /// doorbell ends with ABORT once the new one exists.
    // spec: UMS-025
    pub(crate) fn new(
        level: &Passive,
        doorbells: &Arc<Doorbells>,
        queue: &Arc<HwQueue>,
        DoorbellRequest { ring, control, flags, only_stores, maps_pages }: DoorbellRequest,
        private_data: &mut Vec<u8>,
    ) -> Result<Arc<Doorbell>, Status> {
        let port = &doorbells.port;
        let caps = port.declared.user_mode_submission.ok_or(Status::NOT_SUPPORTED)?;
        if !port.declared.caps.nodes[queue.engine().node_ordinal as usize].user_mode_submission {
            return Err(Status::NOT_SUPPORTED);
        }
        // spec: UMS-150
        let secondary = match flags.contains(CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA) {
            true => Some(caps.secondary_doorbell_size_bytes.ok_or(Status::NOT_SUPPORTED)?),
            false => None,
        };
        // spec: UMS-032
        if !queue.user_mode_submission || private_data.len() > DOORBELL_PRIVATE_DATA_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let (Some(slots), AllocationMemory::Protocol(pointers)) = (ring.bulk(), &control.memory)
        else {
            return Err(Status::INVALID_PARAMETER);
        };
        let rings = PinnedRings::new(level.into(), &queue.device.layers.memory, &ring, &control)?;
        let ddi = port.driver(level);
        let transition = doorbells.transition.lock_device();
        // A queue that is being destroyed gets no doorbell.
        if !queue.is_live() {
            return Err(Status::INVALID_PARAMETER);
        }
        // One doorbell per queue.
        // spec: UMS-030
        let all = doorbells.of_queue(queue.os_handle);
        let resize = flags.contains(CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION);
        if !resize && !all.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        let os_handle = port.new_handle();
        let private_bytes = private_data.len();
        let mut args = CreateDoorbell {
            hw_queue: queue.driver,
            os_handle,
            ring: RingAllocations {
                ring: slots,
                ring_gpu_va: ring.gpu_va,
                control: pointers.clone(),
                control_gpu_va: control.gpu_va,
            },
            flags: if resize {
                doorbell::CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION
            } else {
                doorbell::CreateDoorbellFlags::empty()
            },
            private_data: std::mem::take(private_data),
        };
        let driver = ddi.create_doorbell(level, &mut args)?;
        // The caller's buffer keeps its length.
        // spec: UMS-172
        *private_data = args.private_data;
        private_data.resize(private_bytes, 0);
        all.iter().for_each(|old| old.supersede(level));
        let platform = &port.platform;
        let cell = |access| platform.client_page(1, access).word(0);
        let (status, queued) = (
            cell(ClientAccess::ReadOnly).named("the doorbell's status"),
            cell(ClientAccess::ReadWrite).named("the last queued value"),
        );
        status.store(DoorbellStatus::DisconnectedRetry as u64);
        let doorbell = Arc::new(Doorbell {
            all: doorbells.clone(),
            os_handle,
            driver,
            queue: queue.clone(),
            rings: platform.mutex("the rings of a doorbell", rings),
            window: Window::new(platform, caps.doorbell_size_bytes),
            secondary: secondary.map(|bytes| Window::new(platform, bytes)),
            status,
            only_stores,
            maps_pages,
            last_queued: Untrusted::new(queued),
            state: Arc::new(platform.mutex("a doorbell", State::default())),
        });
        // In the transition: the destruction of the queue looks for its doorbells there. The fault
        // is the mistake that the scenario doorbell-against-destroy must find.
        let ordered =
            (!planted!(platform, DoorbellEnteredAfterItsTransition)).then_some(transition);
        doorbells.table.lock().insert(&doorbell);
        drop(ordered);
        drop(ddi);
        Ok(doorbell)
    }

    fn port(&self) -> &Arc<DriverPort> {
        &self.all.port
    }

    /// Returns ring and control area; empty after the doorbell has ended.
    pub(crate) fn ring_allocations(&self) -> Vec<Arc<AllocationObject>> {
        self.rings.lock().0.iter().map(|ring| Arc::clone(ring)).collect()
    }

    /// Ends the doorbell (D3DKMTDestroyDoorbell). The agent that has removed its handle calls it.
    // spec: UMS-181
    pub(crate) fn end(&self, level: &Passive) {
        let driver = self.port().driver(level);
        let transition = self.all.transition.lock_device();
        let again = std::mem::replace(&mut self.state.lock().ended, true);
        debug_assert!(!again, "a handle is removed once");
        // 1. Remove the doorbell from the table.
        self.all.table.lock().remove(self.queue.os_handle, self.os_handle);
        // 2. Status first, then the mapping. After this, no method of this doorbell calls
        //    the driver.
        if self.announce_disconnect(DisconnectReason::Abort) {
            self.hide();
        }
        // 3. The driver drains the doorbell a last time and releases it.
        driver.destroy_doorbell(level, self.driver);
        let victimised = self.all.take_victimised();
        let rings = std::mem::take(&mut *self.rings.lock());
        drop(transition);
        drop(driver);
        // 4. Ring and control area may leave memory.
        drop(rings);
        notify_victimised(level, victimised);
    }

    /// Returns the doorbell's address and, if present, the secondary address.
    pub(crate) fn mappings(&self) -> (Mapping, Option<Mapping>) {
        (self.window.mapping.clone(), self.secondary.as_ref().map(|window| window.mapping.clone()))
    }

    /// D3DKMTConnectDoorbell.
    pub(crate) fn connect(&self, level: &Passive) -> Result<Connection, Status> {
        let port = self.port();
        if let Some(decided) = self.is_decided() {
            return decided;
        }
        // Before the driver connects, device and engine are powered and evicted rings paged in.
        // Suspended contexts are resumed afterwards, before the status is written. The power comes
        // before the driver's gate, and the gate before the lock of transitions.
        // spec: UMS-061
        let waking = port.awake_but_suspended(level);
        let _engine = port.engine_in_use(level, self.queue.engine());
        let driver = port.driver(level);
        // 1. One transition at a time.
        let transition = self.all.transition.lock_device();
        if let Some(decided) = self.state.lock().decide_without_hardware(&self.status) {
            return decided;
        }
        port.count(Count::doorbell_connects);
        port.platform.spend(Step::ConnectDoorbell);
        port.watch_for_hangs();
        // 2. The driver allocates hardware. It may victimise another doorbell through the callback.
        let flags = match self.secondary {
            Some(_) => ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS,
            None => ConnectDoorbellFlags::empty(),
        };
        // spec: UMS-063
        let connected = driver.connect_doorbell(level, self.driver, flags);
        // spec: UMS-062
        let _awake = waking.resume();
        let victimised = self.all.take_victimised();
        let connected = connected.map_err(Some).and_then(|c| self.show(level, c));
        drop(transition);
        drop(driver);
        // 5. A victimised doorbell may have lost a ring. Its disconnect is complete by now.
        notify_victimised(level, victimised);
        match connected {
            Err(None) => {
                port.bug_check(level, BugCheck::DoorbellStatus);
                Err(Status::DEVICE_REMOVED)
            }
            Err(Some(status)) => Err(status),
            Ok(connection) => {
                port.watch_progress(self.queue.engine());
                self.record("doorbell connected");
                Ok(connection)
            }
        }
    }

    /// Returns the outcome of a connect that has nothing to do.
    fn is_decided(&self) -> Option<Result<Connection, Status>> {
        self.state.lock().is_decided()
    }

    /// Records an event on the timeline, in the queue's lane.
    fn record(&self, what: &str) {
        let platform = &self.port().platform;
        if let Some(lane) = platform.traced_lane_of(self.queue.os_handle.into()) {
            let now = platform.stamp_ns();
            platform.record(Record::instant(lane, Kind::Doorbell, platform.trace_name(what), now));
        }
    }

    /// Publishes a connection. Returns `Err(None)` if it does not match the request.
    fn show(
        &self,
        level: &Passive,
        connected: ConnectedDoorbell,
    ) -> Result<Connection, Option<Status>> {
        let second = match (&self.secondary, &connected.secondary) {
            (Some(window), page) => page.as_ref().is_some_and(|page| window.takes(page)),
            (None, _) => true,
        };
        if !connected.status.is_connected() || !second || !self.window.takes(&connected.page) {
            return Err(None);
        }
        // The driver aborted the doorbell during the connect.
        if self.state.lock().aborted {
            self.port().driver(level).disconnect_doorbell(level, self.driver);
            return Err(Some(Status::DEVICE_REMOVED));
        }
        // A location that the queues of a process share needs a value with its base.
        // spec: UMS-205
        let shows_hardware = !self.only_stores || connected.value_base == 0;
        let status = match connected.status {
            DoorbellStatus::Connected if !shows_hardware => DoorbellStatus::ConnectedNotify,
            status => status,
        };
        // The fault is the mistake that the scenario ring-against-connect must find.
        if planted!(self.port().platform, ConnectedBeforeTheMapping) {
            self.status.store(status as u64);
        }
        if self.only_stores && shows_hardware {
            connected.hint.is_not_given();
        }
        // 3. The mapping.
        // spec: UMS-026
        if shows_hardware {
            self.window.show(&connected.page);
            if let (Some(window), Some(page)) = (&self.secondary, &connected.secondary) {
                window.show(page);
            }
        }
        // 4. The status, after the mapping: a ring that begins after its thread has read CONNECTED
        //    reaches the hardware. The process may have to map the page first.
        let connection = {
            let mut state = self.state.lock();
            state.connections += 1;
            state.connected = Some(CpuTime(self.port().platform.stamp_ns()));
            let announcement = self
                .maps_pages
                .then(|| Announcement::of(&self.state, &self.status, state.connections, status));
            let ConnectedDoorbell { value_base, hint, .. } = connected;
            let connection = Connection { value_base, hint, announcement };
            state.connection.insert(connection).clone()
        };
        // The fault is the mistake that the scenario served-ring-against-connect must find.
        let platform = &self.port().platform;
        if connection.announcement.is_none()
            || planted!(platform, ConnectedBeforeTheProcessHasMappedThePage)
        {
            // spec: UMS-099
            self.status.store(status as u64);
        }
        Ok(connection)
    }

    /// Writes a DISCONNECTED status, which every later ring reads. Returns `false` if the doorbell
    /// had no hardware.
    // spec: UMS-101
    // spec: UMS-038, UMS-039
    fn announce_disconnect(&self, reason: DisconnectReason) -> bool {
        let mut state = self.state.lock();
        state.aborted |= reason == DisconnectReason::Abort;
        let was_connected = state.connection.take().is_some();
        let has_hardware = was_connected && !std::mem::take(&mut state.by_notification);
        drop(state);
        let status = match reason {
            DisconnectReason::Retry => DoorbellStatus::DisconnectedRetry,
            DisconnectReason::Abort => DoorbellStatus::DisconnectedAbort,
        };
        if was_connected || reason == DisconnectReason::Abort {
            self.status.store(status as u64);
            self.port().platform.fence();
        }
        has_hardware
    }

    /// Maps the dummy page. Later stores to the address reach no hardware.
    fn hide(&self) {
        self.window.hide();
        self.secondary.iter().for_each(Window::hide);
    }

    /// Disconnects the doorbell.
    pub(crate) fn disconnect(&self, level: &Passive, reason: DisconnectReason) {
        // 1, 2.
        let was_connected = self.take_hardware(level, reason);
        // 3. The backstop.
        if was_connected && reason == DisconnectReason::Retry {
            self.notify_pending_work(level);
        }
    }

    /// Disconnects the doorbell permanently, for a process that closes normally. The driver is
    /// notified of announced work even if its ring was lost, since no thread is left to repeat it.
    pub(crate) fn close(&self, level: &Passive) {
        self.take_hardware(level, DisconnectReason::Abort);
        self.restart_pending_work(level);
    }

    /// Returns whether it was connected.
    fn take_hardware(&self, level: &Passive, reason: DisconnectReason) -> bool {
        let driver = self.port().driver(level);
        let transition = self.all.transition.lock_device();
        let was_connected = self.disconnect_in_transition(level, reason);
        let victimised = self.all.take_victimised();
        drop(transition);
        drop(driver);
        notify_victimised(level, victimised);
        was_connected
    }

    /// Ends the doorbell that a resize replaces. The driver is called even if it was not connected,
    /// to release the ring.
    fn supersede(&self, level: &Passive) {
        if !self.disconnect_in_transition(level, DisconnectReason::Abort) {
            self.port().driver(level).disconnect_doorbell(level, self.driver);
        }
    }

    /// Returns whether it was connected.
    fn disconnect_in_transition(&self, level: &Passive, reason: DisconnectReason) -> bool {
        // 1. Status first.
        let was_connected = self.announce_disconnect(reason);
        // 2. The hardware, which reads the page a last time.
        if was_connected {
            self.port().driver(level).disconnect_doorbell(level, self.driver);
        }
        // 3. The mapping: a later ring lands on the dummy page, and its process reads
        //    DISCONNECTED.
        if was_connected {
            self.hide();
            if reason == DisconnectReason::Retry {
                self.count_taken();
            }
        }
        was_connected
    }

    /// Counts that the doorbell has gone while its process may be submitting.
    fn count_taken(&self) {
        let announced = self.announced();
        self.state.lock().count_taken(announced);
    }

    /// Notifies the driver of announced, incomplete work, in case its ring was lost. The engine
    /// keeps its power if there is such work: only a loss of power disconnects with RETRY.
    // spec: UMS-102
    fn notify_pending_work(&self, level: &Passive) {
        self.port().platform.fence();
        if self.has_work() {
            self.port().driver(level).notify_work_submission(level, self.queue.driver);
        }
    }

    /// Notifies the driver of announced, incomplete work on an engine that may have lost its power.
    fn restart_pending_work(&self, level: &Passive) {
        self.port().platform.fence();
        if self.has_work() {
            let _engine = self.port().engine_in_use(level, self.queue.engine());
            self.port().driver(level).notify_work_submission(level, self.queue.driver);
        }
    }

    /// Returns whether announced work is incomplete.
    // spec: UMS-074
    pub(crate) fn has_work(&self) -> bool {
        self.announced() > self.queue.progress.fence.value()
    }

    /// Returns the progress value that the process announced last. Untrusted.
    pub(crate) fn announced(&self) -> u64 {
        self.last_queued.load_once()
    }

    /// Returns its state, for a view of the machine.
    pub(crate) fn shown_state(&self) -> DoorbellState {
        let state = self.state.lock();
        match (&state.connection, state.aborted) {
            (Some(connection), _)
                if state.by_notification || (self.only_stores && connection.value_base != 0) =>
            {
                DoorbellState::ConnectedNotify
            }
            (Some(_), _) => DoorbellState::Connected,
            (None, true) => DoorbellState::DisconnectedAbort,
            (None, false) => DoorbellState::DisconnectedRetry,
        }
    }

    /// Returns whether the doorbell is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().connection.is_some()
    }

    /// Returns the last driver calls for this doorbell, for a report.
    pub(crate) fn last_calls(&self) -> Vec<DdiCall> {
        let state = self.state.lock();
        let calls = [
            ("DxgkDdiConnectDoorbell", state.connected),
            ("DxgkDdiNotifyWorkSubmission", state.notified),
        ];
        let call = |(entry, at): (&'static str, Option<CpuTime>)| {
            Some(DdiCall { entry, number: None, at: at? })
        };
        calls.into_iter().filter_map(call).collect()
    }

    /// Notifies the driver of work (D3DKMTNotifyWorkSubmission), connected or not. The notification
    /// may start the work, so its engine is powered as for a connect.
    ///
    /// # Errors
    /// DEVICE_REMOVED after an ABORT.
    pub(crate) fn notify(&self, level: &Passive) -> Result<(), Status> {
        {
            let mut state = self.state.lock();
            if state.aborted {
                return Err(Status::DEVICE_REMOVED);
            }
            state.notified = Some(CpuTime(self.port().platform.stamp_ns()));
            state.end_by_notification(&self.status);
        }
        let port = self.port();
        port.platform.spend(Step::NotifyWorkSubmission);
        let _engine = port.engine_in_use(level, self.queue.engine());
        port.driver(level).notify_work_submission(level, self.queue.driver);
        port.watch_for_hangs();
        port.watch_progress(self.queue.engine());
        Ok(())
    }
}

/// Notifies the driver, after a transition, of pending work of the doorbells victimised in it.
fn notify_victimised(level: &Passive, victimised: Vec<Victimised>) {
    let lost = victimised.iter().filter(|one| one.was_connected);
    lost.for_each(|one| one.doorbell.restart_pending_work(level));
}
