//! Owns the mailbox: the driver's commands to the CMP. A command runs on the agent that writes the
//! run register. The driver's lock over the mailbox registers admits one command at a time.
//!
//! Order of a command that changes a queue: 1. hold the queue, so that no engine takes it again; 2.
//! wait for the end of its current turn; 3. change it; 4. release it. Turns are bounded, and so is
//! the wait. The interrupt routine issues no commands: it runs inside a turn, and the command would
//! wait for the end of that turn.

mod address_spaces;
mod doorbells;
mod fence_page;
mod fences;
mod power;
mod queues;
mod recovery;
pub(crate) mod shadow;

use crate::doorbell::Placement;
use crate::hardware::Hardware;
use crate::runlist::Bands;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE, Mailbox};
use tidegate_gpu_abi::regs::MAILBOX_WORDS;
use tidegate_gpu_abi::{AdminCommand, AdminError};
use tidegate_platform::QueueNumber;

/// The byte offset of the status. The results follow it.
pub(crate) const STATUS_OFFSET: u64 = MAILBOX_WORDS as u64 * 8;

/// Runs the command in the mailbox and stores its status and results.
pub(crate) fn run(gpu: &Hardware) {
    let mut bytes = [0; MAILBOX_WORDS as usize * 8];
    // The mailbox has room for all of them.
    let _ = gpu.mailbox.read(0, &mut bytes);
    let mut words = Mailbox::default();
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    let answer = AdminCommand::decode(&words).and_then(|command| obey(gpu, command));
    let (status, low, high) = match answer {
        Ok((low, high)) => (0, low, high),
        Err(error) => (error as u64, 0, 0),
    };
    let report = [status, low, high].map(u64::to_le_bytes);
    let _ = gpu.mailbox.write(STATUS_OFFSET, report.as_flattened());
}

fn obey(gpu: &Hardware, command: AdminCommand) -> AdminAnswer {
    match command {
        AdminCommand::SetAddressSpace { address_space, root, physical_gpu } => {
            address_spaces::renew(gpu, address_space, physical_gpu, Some(root))
        }
        AdminCommand::InvalidateTlb { address_space, physical_gpu } => {
            address_spaces::renew(gpu, address_space, physical_gpu, None)
        }
        AdminCommand::CreateQueue { shape, band, os_handle, context } => {
            queues::create(gpu, shape, band, QueueNumber(os_handle), context)
        }
        AdminCommand::DestroyQueue { queue } => queues::destroy(gpu, queue),
        AdminCommand::SuspendQueue { queue } => queues::suspend(gpu, queue),
        AdminCommand::ResumeQueue { queue } => queues::resume(gpu, queue),
        AdminCommand::KickQueue { queue } => queues::kick(gpu, queue),
        AdminCommand::QueryQueue { queue } => queues::query(gpu, queue),
        AdminCommand::SetLogBuffer { queue, kind, header, payload, entries, notify_every } => {
            queues::set_log(gpu, queue, kind, (header, payload, entries), notify_every)
        }
        AdminCommand::SetScheduling { queue, band, realtime_level, in_process, quantum_ns } => {
            queues::set_scheduling(gpu, queue, (band, realtime_level), in_process, quantum_ns)
        }
        AdminCommand::SetBands { process_quantum_ns, normal_percent } => {
            queues::set_bands(gpu, Bands { process_quantum_ns, normal_percent })
        }
        AdminCommand::ConnectDoorbell { queue, global, secondary } => {
            doorbells::connect(gpu, queue, Placement { global, secondary })
        }
        AdminCommand::DisconnectDoorbell { queue } => doorbells::disconnect(gpu, queue),
        AdminCommand::NotifyFence { address_space, current_value } => {
            fences::notify(gpu, address_space, current_value)
        }
        AdminCommand::RescanWaits => {
            gpu.rescan_waits();
            DONE
        }
        AdminCommand::RenewFence { current_value, monitored_value, stride_bytes } => {
            fences::renew(gpu, current_value, monitored_value, stride_bytes)
        }
        AdminCommand::CondemnFence { current_value } => fences::condemn(gpu, current_value),
        AdminCommand::WatchFence { current_value, monitored_value, history } => {
            let peers = gpu.peers.get().ok_or(AdminError::BadValue)?;
            peers.watch(&gpu.bus, current_value, monitored_value, history)?;
            DONE
        }
        AdminCommand::LinkPeer { current_value, peer, monitored_value, linked } => {
            let peers = gpu.peers.get().ok_or(AdminError::BadValue)?;
            peers.link(&gpu.bus, current_value, peer, monitored_value, linked)?;
            DONE
        }
        AdminCommand::KeepShadow { fence, address_space, current_value, monitored_value } => {
            shadow::keep(gpu, fence, address_space, current_value, monitored_value)
        }
        AdminCommand::DropShadow { fence } => shadow::drop_copy(gpu, fence),
        AdminCommand::HoldEngines => fence_page::hold_engines(gpu),
        AdminCommand::ReleaseEngines => fence_page::release_engines(gpu),
        AdminCommand::MoveFencePage { from, to } => fence_page::move_page(gpu, from, to),
        AdminCommand::PowerEngine { engine, on, if_idle } => {
            power::set_engine(gpu, engine, on, if_idle)
        }
        AdminCommand::PowerDevice { on, if_idle } => power::set_device(gpu, on, if_idle),
        AdminCommand::ReportIdle { engine, after_ns } => power::report_idle(gpu, engine, after_ns),
        AdminCommand::PreemptNode { engine, preemption_fence_id } => {
            recovery::preempt_node(gpu, engine, preemption_fence_id)
        }
        AdminCommand::ResetEngine { engine } => recovery::reset_engine(gpu, engine),
        AdminCommand::QueryEngine { engine } => recovery::query_engine(gpu, engine),
    }
}
