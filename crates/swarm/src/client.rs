//! The process of one client of a program (`--on processes`). Its machine is in the process that
//! has started it.
//!
//! Entry point: [`serve`].

use crate::control::{Parent, Socket, ToClient};
use crate::failure::Failure;
use crate::program::{BadProgram, Program};
use crate::stage::Stage;
use crate::words::ProcessId;
use std::sync::Arc;
use tidegate::Platform;

/// Why a process cannot be a client.
#[derive(Debug, thiserror::Error)]
pub enum NoClient {
    /// Standard input is not the socket of a machine's process.
    #[error("standard input is no socket of `tidegate swarm --on processes`")]
    StandardInput,
    /// The program cannot be read.
    #[error(transparent)]
    Program(#[from] BadProgram),
    /// The system refused.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Runs the threads of one process of a program, for the process at the other end of standard
/// input.
///
/// # Errors
/// Nothing there speaks as the process of a machine does.
pub fn serve() -> Result<(), NoClient> {
    let socket = Socket::of_standard_input()?;
    let first = socket.receive().ok().flatten().ok_or(NoClient::StandardInput)?;
    let (ToClient::Open { process, service, program }, _) = first else {
        return Err(NoClient::StandardInput);
    };
    let program: Arc<Program> = Arc::new(program.parse()?);
    let platform = Platform::host();
    let parent = Arc::new(Parent::new(&platform, socket));
    let stage = Arc::new(Stage::of_client(&platform, program, parent.clone()));
    let (reader, taker) = (parent.clone(), stage.clone());
    platform.spawn_outside("messages of the machine", move || {
        reader.read(|fence, handle| taker.take_handle(fence, handle));
        // What this process would report has no reader.
        std::process::exit(0);
    })?;
    let (performer, own) = (stage, parent.clone());
    let report = platform.run(move || performer.perform_as(&own, ProcessId(process), service));
    report.panics.iter().for_each(|panic| parent.fail(&Failure::Panic(panic.clone())));
    parent.end();
    Ok(())
}
