//! The mailbox: the driver's commands to the CMP. A command runs on the agent that writes the run
//! register, and the write returns without a wait. The driver's lock over the mailbox registers
//! admits one write at a time.
//!
//! A command that needs the end of a turn is pending (`posted`). Order of a command that changes a
//! queue: 1. hold the queue, so that no engine takes it again; 2. the current turn ends; 3. change
//! it;
//! 4. release it. Turns are bounded, and so is the command.

mod address_spaces;
mod doorbells;
mod fence_page;
mod fences;
mod posted;
mod power;
mod queues;
mod recovery;
pub(crate) mod shadow;

use crate::hardware::Hardware;
use crate::runlist::Bands;
use posted::Reply;
use tidegate_gpu_abi::admin::{DONE, Mailbox, PENDING};
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
        Ok(Reply::Done((low, high))) => (0, low, high),
        Ok(Reply::Pending(ticket)) => (PENDING, ticket, 0),
        Err(error) => (error as u64, 0, 0),
    };
    let report = [status, low, high].map(u64::to_le_bytes);
    let _ = gpu.mailbox.write(STATUS_OFFSET, report.as_flattened());
}

fn obey(gpu: &Hardware, command: AdminCommand) -> Result<Reply, AdminError> {
    let done = match command {
        // Commands that need the end of a turn.
        AdminCommand::SetAddressSpace { .. }
        | AdminCommand::InvalidateTlb { .. }
        | AdminCommand::DestroyQueue { .. }
        | AdminCommand::SuspendQueue { .. }
        | AdminCommand::ResumeQueue { .. }
        | AdminCommand::ConnectDoorbell { .. }
        | AdminCommand::DisconnectDoorbell { .. }
        | AdminCommand::HoldEngines
        | AdminCommand::PowerEngine { .. }
        | AdminCommand::PowerDevice { .. }
        | AdminCommand::ResetEngine { .. }
        | AdminCommand::QueryEngine { .. } => return posted::post(gpu, command),
        AdminCommand::Continue { ticket, at_once } => return posted::go_on(gpu, ticket, at_once),
        // Commands that are never pending.
        AdminCommand::CreateQueue { shape, band, os_handle, context } => {
            queues::create(gpu, shape, band, QueueNumber(os_handle), context)
        }
        AdminCommand::KickQueue { queue } => queues::kick(gpu, queue),
        AdminCommand::QueryQueue { queue } => queues::query(gpu, queue),
        AdminCommand::SetLogBuffer { queue, kind, header, payload, entries, notify_every } => {
            queues::set_log(gpu, queue, kind, header, payload, entries, notify_every)
        }
        AdminCommand::SetScheduling { queue, band, realtime_level, in_process, quantum_ns } => {
            queues::set_scheduling(gpu, queue, band, realtime_level, in_process, quantum_ns)
        }
        AdminCommand::SetBands { process_quantum_ns, normal_percent } => {
            queues::set_bands(gpu, Bands { process_quantum_ns, normal_percent })
        }
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
        AdminCommand::ReleaseEngines => fence_page::release_engines(gpu),
        AdminCommand::MoveFencePage { from, to } => fence_page::move_page(gpu, from, to),
        AdminCommand::ReportIdle { engine, after_ns } => power::report_idle(gpu, engine, after_ns),
        AdminCommand::PreemptNode { engine, preemption_fence_id } => {
            recovery::preempt_node(gpu, engine, preemption_fence_id)
        }
    };
    done.map(Reply::Done)
}
