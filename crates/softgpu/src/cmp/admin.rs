//! Owns the mailbox: what the driver asks of the CMP. A command runs on the agent that writes the
//! run register.
//!
//! The order that matters for a command that changes a queue: 1. hold the queue, so that no engine
//! takes it again; 2. wait for the end of the turn that it is in; 3. change it; 4. let it go. A
//! turn is bounded, so the wait is; but it must not be waited for from inside that turn, which is
//! why the interrupt routine gives no commands.
//!
//! One command at a time: the driver sees to that, since the mailbox is many registers.

use super::{Calls, Cmp, Entry, Shared};
use crate::boundary::may_switch;
use crate::doorbell::{Asked, Heard};
use crate::log::LogBuffer;
use crate::mmu::{self, Space};
use crate::queue::{Packet, Run, Shape};
use crate::runlist::{BANDS, Bands, MAX_IN_PROCESS, MAX_NORMAL_PERCENT, MAX_REALTIME_LEVEL, Place};
use std::ops::Range;
use tidegate_gpu_abi::admin::Mailbox;
use tidegate_gpu_abi::global_base;
use tidegate_gpu_abi::log::LogType;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_gpu_abi::regs::MAILBOX_WORDS;
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;
use tidegate_gpu_abi::{
    AddressSpaceId, AdminCommand, AdminError, CONTROL_INTERRUPTED_WORD, CONTROL_WORDS, GpuVa,
    QueueId, QueueKind, QueueState, SLOT_BYTES,
};
use tidegate_platform::{MutexGuard, PhysicalAddress, QueueNumber, Step, Target, WaitEnd};

/// Bytes of the mailbox: its words, then status and two results.
pub(crate) const MAILBOX_BYTES: usize = (MAILBOX_WORDS as usize + 3) * 8;
/// Where the status stands, in bytes; the results follow.
pub(crate) const STATUS_OFFSET: u64 = MAILBOX_WORDS as u64 * 8;

/// The two result registers.
pub(super) type Answer = Result<(u64, u64), AdminError>;
pub(super) const NOTHING: Answer = Ok((0, 0));

impl Shared {
    /// Runs the command in the mailbox and leaves status and results.
    pub(crate) fn run_mailbox(&self) {
        let mut bytes = [0; MAILBOX_WORDS as usize * 8];
        // The mailbox has all these bytes from birth.
        let _ = self.mailbox.read(0, &mut bytes);
        let mut words: Mailbox = [0; MAILBOX_WORDS as usize];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = chunk.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        let answer = AdminCommand::decode(&words).and_then(|command| self.obey(command));
        let (status, low, high) = match answer {
            Ok((low, high)) => (0, low, high),
            Err(error) => (error as u64, 0, 0),
        };
        let report: Vec<u8> = [status, low, high].iter().flat_map(|w| w.to_le_bytes()).collect();
        let _ = self.mailbox.write(STATUS_OFFSET, &report);
    }

    fn obey(&self, command: AdminCommand) -> Answer {
        match command {
            AdminCommand::PowerEngine { engine, on, if_idle } => {
                self.power_engine(engine, on, if_idle)
            }
            AdminCommand::PowerDevice { on, if_idle } => self.power_device(on, if_idle),
            AdminCommand::ReportIdle { engine, after_ns } => self.report_idle(engine, after_ns),
            AdminCommand::SetAddressSpace { address_space, root, physical_gpu } => {
                self.renew_space(address_space, physical_gpu, Some(root))
            }
            AdminCommand::InvalidateTlb { address_space, physical_gpu } => {
                self.renew_space(address_space, physical_gpu, None)
            }
            AdminCommand::CreateQueue {
                engine,
                kind,
                address_space,
                ring,
                slots,
                control,
                progress_current,
                progress_monitored,
                band,
                os_handle,
                context,
            } => {
                let shape = Shape {
                    id: QueueId(0),
                    node: engine,
                    kind,
                    address_space,
                    ring,
                    slots,
                    control,
                    progress_current,
                    progress_monitored,
                    number: QueueNumber(os_handle),
                };
                self.create_queue(shape, context, band)
            }
            AdminCommand::DestroyQueue { queue } => self.destroy_queue(queue),
            AdminCommand::SuspendQueue { queue } => self.suspend_queue(queue),
            AdminCommand::ResumeQueue { queue } => self.resume_queue(queue),
            AdminCommand::ConnectDoorbell { queue, global, secondary } => {
                self.connect_doorbell(queue, Asked { global, secondary })
            }
            AdminCommand::DisconnectDoorbell { queue } => self.disconnect_doorbell(queue),
            AdminCommand::KickQueue { queue } => self.kick_queue(queue),
            AdminCommand::SetLogBuffer { queue, kind, header, payload, entries, notify_every } => {
                self.set_log(queue, kind, (header, payload, entries), notify_every)
            }
            AdminCommand::NotifyFence { address_space, current_value } => {
                self.notify_fence(address_space, current_value)
            }
            AdminCommand::RescanWaits => {
                self.platform.fence();
                self.unblock(None, None);
                NOTHING
            }
            AdminCommand::PreemptNode { engine, preemption_fence_id } => {
                self.preempt_node(engine, preemption_fence_id)
            }
            AdminCommand::ResetEngine { engine } => self.reset_engine(engine),
            AdminCommand::QueryEngine { engine } => self.query_engine(engine),
            AdminCommand::HoldEngines => self.hold_engines(),
            AdminCommand::ReleaseEngines => self.release_engines(),
            AdminCommand::MoveFencePage { from, to } => self.move_fence_page(from, to),
            AdminCommand::RenewFence { current_value, monitored_value, stride_bytes } => {
                self.renew_fence(current_value, monitored_value, stride_bytes)
            }
            AdminCommand::CondemnFence { current_value } => self.condemn_fence(current_value),
            AdminCommand::WatchFence { current_value, monitored_value, history } => {
                self.watch_fence(current_value, monitored_value, history)?;
                NOTHING
            }
            AdminCommand::LinkPeer { current_value, peer, monitored_value, linked } => {
                self.link_peer(current_value, peer, monitored_value, linked)?;
                NOTHING
            }
            AdminCommand::QueryQueue { queue } => self.query_queue(queue),
            AdminCommand::SetScheduling { queue, band, realtime_level, in_process, quantum_ns } => {
                self.set_scheduling(queue, (band, realtime_level), in_process, quantum_ns)
            }
            AdminCommand::SetBands { process_quantum_ns, normal_percent } => {
                self.set_bands(Bands { process_quantum_ns, normal_percent })
            }
            AdminCommand::KeepShadow { fence, address_space, current_value, monitored_value } => {
                let kept =
                    self.keep_shadow(fence, address_space, current_value, monitored_value)?;
                Ok((u64::from(kept), 0))
            }
            AdminCommand::DropShadow { fence } => {
                self.drop_shadow(fence);
                NOTHING
            }
        }
    }

    /// Gives an address space a new generation on a physical GPU, then waits for the turns there
    /// that may still use the old one. Queues there that wait were parked by the old translations:
    /// they look where their cells are now.
    // spec: NF-326
    fn renew_space(
        &self,
        id: AddressSpaceId,
        physical_gpu: u32,
        root: Option<PhysicalAddress>,
    ) -> Answer {
        if id == AddressSpaceId(u32::MAX) {
            return Err(AdminError::BadValue);
        }
        if physical_gpu >= self.config.physical_gpus {
            return Err(AdminError::NoSuchEngine);
        }
        let nodes = self.config.nodes.len();
        let engines = physical_gpu as usize * nodes..(physical_gpu as usize + 1) * nodes;
        let mut cmp = self.awake()?;
        cmp.renew_space((id, physical_gpu), root);
        let turns: Vec<u64> = cmp.nodes[engines.clone()].iter().map(|n| n.turns).collect();
        let over = |cmp: &mut Cmp| {
            cmp.nodes[engines.clone()].iter().zip(&turns).all(|(n, t)| t % 2 == 0 || n.turns != *t)
        };
        // spec: RES-018
        let unawaited = self.platform.fault("unawaited turns");
        let mut cmp = if unawaited { cmp } else { self.await_turns(cmp, over) };
        if root == Some(PhysicalAddress(0)) {
            cmp.forget_space((id, physical_gpu));
        }
        let mut calls = Calls::default();
        for node in cmp.unpark(&self.armed, id, &engines) {
            self.call(&mut cmp, node, &mut calls);
        }
        drop(cmp);
        self.ring(calls, Step::GpuWaitUnblock);
        NOTHING
    }

    /// Sleeps, with the lock dropped, until `done` holds at the end of some turn. Gives up when the
    /// machine stops.
    pub(super) fn await_turns<'a>(
        &'a self,
        mut cmp: MutexGuard<'a, Cmp>,
        mut done: impl FnMut(&mut Cmp) -> bool,
    ) -> MutexGuard<'a, Cmp> {
        cmp.turn_watchers += 1;
        while !done(&mut cmp) {
            let seen = self.turn_ends.load();
            drop(cmp);
            let end = self.turn_ends.wait_while(seen as u32, None, "the end of an engine's turn");
            cmp = self.cmp.lock();
            if end == WaitEnd::Stopped {
                break;
            }
        }
        cmp.turn_watchers -= 1;
        cmp
    }

    /// The lock, on a device that has power.
    pub(super) fn awake(&self) -> Result<MutexGuard<'_, Cmp>, AdminError> {
        let cmp = self.cmp.lock();
        if cmp.asleep { Err(AdminError::Asleep) } else { Ok(cmp) }
    }

    /// The lock, with `queue` in no engine's hands.
    fn hold(&self, queue: QueueId) -> Result<MutexGuard<'_, Cmp>, AdminError> {
        let mut cmp = self.awake()?;
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        if entry.run.is_none() {
            entry.holds += 1;
            cmp = self.await_turns(cmp, |cmp| cmp.queue(queue).is_none_or(|e| e.run.is_some()));
            let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
            entry.holds -= 1;
            if entry.run.is_none() {
                return Err(AdminError::NoSuchQueue);
            }
        }
        Ok(cmp)
    }

    /// Lets a queue go on if it can, and calls its engine.
    fn let_go(&self, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId, step: Step) {
        let mut calls = Calls::default();
        cmp.enlist(queue, false);
        if let Some((node, true)) = cmp.queue(queue).map(|e| (e.shape.node, e.listed)) {
            self.call(&mut cmp, node, &mut calls);
        }
        drop(cmp);
        self.ring(calls, step);
    }

    fn create_queue(&self, shape: Shape, context: u32, band: u32) -> Answer {
        if shape.node as usize >= self.nodes.len() {
            return Err(AdminError::NoSuchEngine);
        }
        let slots_right = shape.slots.is_power_of_two() && shape.slots <= MAX_RING_SLOTS;
        let aligned = shape.ring.0.is_multiple_of(SLOT_BYTES)
            && [shape.control, shape.progress_current, shape.progress_monitored]
                .iter()
                .all(|a| a.0 % 8 == 0);
        if !slots_right || !aligned || band >= BANDS || shape.address_space.0 == u32::MAX {
            return Err(AdminError::BadValue);
        }
        if shape.kind != QueueKind::User && !self.stands_on_bus(&shape) {
            return Err(AdminError::BadAddress);
        }
        let mut cmp = self.awake()?;
        if shape.kind == QueueKind::Node {
            // Whoever makes an engine's ring begins its line of submission fence ids.
            self.nodes[shape.node as usize].completed.store(0);
        }
        let id = QueueId(u32::try_from(cmp.queues.len()).map_err(|_| AdminError::BadValue)?);
        let shape = Shape { id, ..shape };
        let place = Place {
            process: shape.address_space.0,
            // One that is named by nobody is alone; queues have numbers of 32 bits, and contexts,
            // too.
            context: if context == 0 { 1 << 32 | u64::from(id.0) } else { u64::from(context) },
            band,
            realtime_level: 0,
            in_process: 0,
            quantum_ns: 0,
        };
        cmp.queues.push(Some(Box::new(Entry {
            shape,
            run: Some(Box::new(Run::new(shape))),
            place,
            suspended: false,
            suspending: false,
            faulted: false,
            holds: 0,
            kicked: false,
            waiting: None,
            listed: false,
            seat: None,
            last_ring: 0,
            taken: 0,
        })));
        Ok((u64::from(id.0), 0))
    }

    fn stands_on_bus(&self, shape: &Shape) -> bool {
        let ring = self.bus.resolve(PhysicalAddress(shape.ring.0));
        let control = self.bus.resolve(PhysicalAddress(shape.control.0));
        let ring_fits = matches!(ring, Some(Target::Bulk(bytes, start)) if bytes.len() - start >= shape.slots * SLOT_BYTES);
        let words = CONTROL_WORDS as u64 * 8;
        let control_fits = matches!(control, Some(Target::Protocol(p, start)) if p.len() as u64 * 8 - start >= words);
        ring_fits && control_fits
    }

    fn destroy_queue(&self, queue: QueueId) -> Answer {
        let mut cmp = self.hold(queue)?;
        cmp.delist(queue);
        let Some(entry) = cmp.queues[queue.0 as usize].take() else {
            return Err(AdminError::NoSuchQueue);
        };
        if let Some(key) = entry.waiting {
            cmp.waits.leave(&self.armed, key, queue);
        }
        if let Some(seat) = &entry.seat {
            cmp.doorbells.disconnect(seat);
        }
        self.tell_interrupted(&cmp, &entry);
        self.recall(cmp, entry.shape.node);
        NOTHING
    }

    /// Leaves in the control area which slot's command buffer was begun and does not end, for
    /// whoever takes over the ring.
    fn tell_interrupted(&self, cmp: &Cmp, entry: &Entry) {
        let shape = &entry.shape;
        let Some(run) = entry.run.as_ref().filter(|_| shape.kind == QueueKind::User) else {
            return;
        };
        if matches!(run.packet, Some(Packet::Execute(_))) {
            let at = shape.control.plus(CONTROL_INTERRUPTED_WORD as u64 * 8);
            let space =
                cmp.space(shape.address_space, self.config.physical_gpu_of(shape.node as usize));
            let word = mmu::find_protocol_word(&self.bus, space, at);
            word.iter().for_each(|(_, word)| word.store(run.state.taken + 1));
        }
    }

    /// The common doorbell, which the engine of node 0 looks at like at the doorbells of its
    /// queues.
    pub(crate) fn common_doorbell(&self) -> CommonDoorbell {
        let mut cmp = self.cmp.lock();
        if let Some(doorbell) = cmp.doorbells.common() {
            return doorbell.clone();
        }
        let wake = self.wakes[self.nodes[0].service].clone();
        let doorbell = CommonDoorbell::new(&self.platform, wake, self.armed.page().clone());
        cmp.doorbells.add_common(&doorbell);
        cmp.nodes[0].summaries += 1;
        self.recall(cmp, 0);
        doorbell
    }

    /// Makes an engine look at everything anew: what it is busy with may be gone.
    pub(super) fn recall(&self, cmp: MutexGuard<'_, Cmp>, engine: u32) {
        self.recall_each(cmp, engine..engine + 1);
    }

    /// The same for every engine.
    pub(super) fn recall_all(&self, cmp: MutexGuard<'_, Cmp>) {
        self.recall_each(cmp, 0..self.nodes.len() as u32);
    }

    fn recall_each(&self, mut cmp: MutexGuard<'_, Cmp>, engines: Range<u32>) {
        let mut calls = Calls::default();
        for engine in engines {
            cmp.nodes[engine as usize].recall = true;
            self.call(&mut cmp, engine, &mut calls);
        }
        drop(cmp);
        self.ring(calls, Step::DoorbellToFetch);
    }

    fn suspend_queue(&self, queue: QueueId) -> Answer {
        let mut cmp = self.hold(queue)?;
        let now = self.platform.now();
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        let node = self.config.node_of(entry.shape.node as usize);
        // A queue that was stopped has no engine to leave, whatever it was in.
        if !entry.faulted && entry.run.as_ref().is_some_and(|run| !may_switch(run, node)) {
            entry.suspending = true;
            self.let_go(cmp, queue, Step::DoorbellToFetch);
            return Err(AdminError::Busy);
        }
        entry.suspended = true;
        cmp.delist(queue);
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        if let Some(run) = &mut entry.run {
            run.pause(now);
        }
        let node = entry.shape.node;
        self.recall(cmp, node);
        NOTHING
    }

    // spec: UMS-047
    fn resume_queue(&self, queue: QueueId) -> Answer {
        let mut cmp = self.hold(queue)?;
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        (entry.suspended, entry.suspending) = (false, false);
        if let Some(run) = &mut entry.run {
            run.state.reread = true;
        }
        self.let_go(cmp, queue, Step::DoorbellToFetch);
        NOTHING
    }

    /// Waits for nothing: this is how the kernel submits, and the queue may well be running.
    fn kick_queue(&self, queue: QueueId) -> Answer {
        let mut cmp = self.awake()?;
        cmp.note_ring(queue);
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        match &mut entry.run {
            Some(run) => run.state.reread = true,
            None => entry.kicked = true,
        }
        self.let_go(cmp, queue, Step::DoorbellToFetch);
        NOTHING
    }

    fn connect_doorbell(&self, queue: QueueId, asked: Asked) -> Answer {
        if asked.global && global_base(queue).is_none() {
            return Err(AdminError::BadValue);
        }
        let mut cmp = self.hold(queue)?;
        cmp.note_ring(queue);
        let cmp_mut = &mut *cmp;
        let entry =
            cmp_mut.queues[queue.0 as usize].as_deref_mut().ok_or(AdminError::NoSuchQueue)?;
        if entry.shape.kind != QueueKind::User {
            return Err(AdminError::BadValue);
        }
        if let Some(old) = entry.seat.take() {
            cmp_mut.doorbells.disconnect(&old);
        }
        let (node, known) = (entry.shape.node, entry.run.as_ref().map_or(0, |r| r.state.known));
        let wake = &self.wakes[self.nodes[node as usize].service];
        let who = (queue, entry.shape.address_space, node);
        let (seat, more) = cmp_mut.doorbells.connect(&self.platform, wake, who, known, asked);
        if let Some(run) = &mut entry.run {
            run.state.doorbell = Some(seat.bell(queue));
        }
        entry.seat = Some(seat);
        if more {
            cmp.nodes[node as usize].summaries += 1;
            cmp.enlist(queue, false);
            self.recall(cmp, node);
        } else {
            self.let_go(cmp, queue, Step::DoorbellToFetch);
        }
        NOTHING
    }

    // spec: UMS-009
    fn disconnect_doorbell(&self, queue: QueueId) -> Answer {
        let mut cmp = self.hold(queue)?;
        let cmp_mut = &mut *cmp;
        let entry =
            cmp_mut.queues[queue.0 as usize].as_deref_mut().ok_or(AdminError::NoSuchQueue)?;
        if let Some(seat) = entry.seat.take() {
            cmp_mut.doorbells.disconnect(&seat);
        }
        if let Some(run) = &mut entry.run
            && let Some(doorbell) = run.state.doorbell.take()
        {
            self.platform.fence();
            match doorbell.read() {
                // Its ring is not read; the resume reads the write pointer anew. Until then it is
                // known to have work.
                Heard::Pointer(last) if entry.suspended => {
                    run.state.reread |= last > run.state.known
                }
                Heard::Pointer(last) if last > run.state.known => run.state.last_ring = Some(last),
                Heard::Pointer(_) => {}
                Heard::WrittenOver => run.state.reread = true,
            }
        }
        self.let_go(cmp, queue, Step::DoorbellToFetch);
        NOTHING
    }

    fn set_log(
        &self,
        queue: QueueId,
        kind: LogType,
        (header, payload, entries): (PhysicalAddress, PhysicalAddress, u32),
        notify_every: u32,
    ) -> Answer {
        let log = match entries {
            0 => None,
            _ => {
                let found = LogBuffer::find(&self.bus, header, payload, entries, notify_every);
                Some(found.ok_or(AdminError::BadAddress)?)
            }
        };
        let mut cmp = self.hold(queue)?;
        if let Some(run) = cmp.queue(queue).and_then(|e| e.run.as_mut()) {
            let state = &mut run.state;
            match kind {
                LogType::Waits => state.wait_log = log,
                LogType::Signals => state.signal_log = log,
                LogType::Commands => state.command_log = log,
            }
            // Whoever reads the old log a last time finds all that its index counts.
            self.posted.flush();
        }
        self.let_go(cmp, queue, Step::DoorbellToFetch);
        NOTHING
    }

    #[doc(alias = "DxgkDdiUpdateCurrentValuesFromCpu")]
    fn notify_fence(&self, address_space: AddressSpaceId, current_value: GpuVa) -> Answer {
        // A fence may be mapped on some of the physical GPUs only; wherever it is, the address
        // leads to the same cell.
        let gpus = 0..self.config.physical_gpus;
        let spaces: Vec<Space> = {
            let cmp = self.awake()?;
            gpus.map(|gpu| cmp.space(address_space, gpu)).collect()
        };
        let found =
            spaces.iter().find_map(|space| mmu::find_physical(&self.bus, *space, current_value));
        let at = found.ok_or(AdminError::BadAddress)?;
        self.platform.fence();
        self.unblock(Some(at), None);
        NOTHING
    }

    fn query_queue(&self, queue: QueueId) -> Answer {
        let mut cmp = self.awake()?;
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        let state = if entry.faulted {
            QueueState::Faulted
        } else if entry.suspended {
            QueueState::Suspended
        } else if entry.waiting.is_some() {
            QueueState::Waiting
        } else if entry.run.as_ref().is_none_or(|r| r.has_work()) {
            QueueState::Ready
        } else {
            QueueState::Idle
        };
        Ok((state as u64, entry.taken))
    }

    // spec: HS-013
    /// The switch comes with the engine's next turn, which ends the present part of a packet.
    fn set_scheduling(
        &self,
        queue: QueueId,
        (band, realtime_level): (u32, u32),
        in_process: i32,
        quantum_ns: u64,
    ) -> Answer {
        let in_range = band < BANDS
            && realtime_level <= MAX_REALTIME_LEVEL
            && (-MAX_IN_PROCESS..=MAX_IN_PROCESS).contains(&in_process);
        if !in_range {
            return Err(AdminError::BadValue);
        }
        let mut cmp = self.awake()?;
        cmp.delist(queue);
        let entry = cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
        entry.place = Place { band, realtime_level, in_process, quantum_ns, ..entry.place };
        let node = entry.shape.node;
        let in_packet = entry.run.as_ref().is_some_and(|run| run.packet.is_some());
        cmp.enlist(queue, in_packet);
        self.recall(cmp, node);
        NOTHING
    }

    fn set_bands(&self, bands: Bands) -> Answer {
        if bands.normal_percent > MAX_NORMAL_PERCENT {
            return Err(AdminError::BadValue);
        }
        let mut cmp = self.awake()?;
        cmp.nodes.iter_mut().for_each(|node| node.list.set_bands(bands));
        NOTHING
    }
}
