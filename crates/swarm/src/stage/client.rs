//! A run of one process of a program, whose machine is in another process.

use super::process::Transport;
use super::{Around, Stage, end_of};
use crate::control::Parent;
use crate::failure::Failure;
use crate::program::Program;
use crate::words::{FenceId, ProcessId};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::NtHandle;

impl Stage {
    /// Returns the stage of a client. The machine is in the process of `parent`.
    pub(crate) fn of_client(
        platform: &Platform,
        program: Arc<Program>,
        parent: Arc<Parent>,
    ) -> Stage {
        let end = end_of(&program);
        Stage::around(platform, program, end, Around::Parent(parent))
    }

    /// Takes the NT handle of a fence of another process.
    pub(crate) fn take_handle(&self, fence: FenceId, handle: Option<NtHandle>) {
        if let Some(slot) = self.handles.get(&fence) {
            slot.put(handle);
        }
    }

    /// Opens the process, runs its threads, judges its objects and destroys them, each in step with
    /// the other processes. `service` is the socket of the service.
    pub(crate) fn perform_as(
        self: &Arc<Stage>,
        parent: &Parent,
        process: ProcessId,
        service: PathBuf,
    ) {
        let transport = Transport::Socket(service);
        if let Err(why) = self.open_processes(&transport, std::iter::once(process)) {
            return parent.fail(&Failure::Panic(why));
        }
        parent.start();
        self.run_threads(|of| of == process);
        if parent.end_threads() {
            self.judge_objects();
        }
        parent.end_judging();
        self.drop_all();
        if let Some(refused) = self.refused() {
            self.fail(refused);
        }
    }
}
