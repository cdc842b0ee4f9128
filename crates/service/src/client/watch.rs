//! A view of a service's machine, without being a process of it.

use super::connect::{ConnectError, first_message};
use crate::rows::ProcessRow;
use crate::server::Counts;
use crate::transport::Link;
use crate::wire::{self, Purpose, Table, WatchCall};
use serde::de::DeserializeOwned;
use std::path::Path;
use tidegate_calls::Status;
use tidegate_calls::snapshot::{
    DoorbellRow, FenceRow, MachineRow, Page, PageRequest, QueueRow, WaiterRow,
};

/// A connection that views one adapter.
pub struct Watch {
    link: Link,
    adapter: u32,
    buffer: Vec<u8>,
}

impl Watch {
    /// Connects to the service that listens at `path`, to view `adapter`, counted from 0.
    ///
    /// # Errors
    /// As [`super::connect`].
    pub fn connect(path: &Path, adapter: u32) -> Result<Watch, ConnectError> {
        let (link, (), _) = first_message(path, Purpose::Watch)?;
        Ok(Watch { link, adapter, buffer: Vec::new() })
    }

    fn read<T: DeserializeOwned>(&mut self, table: Table) -> Result<T, ConnectError> {
        let call = WatchCall { adapter: self.adapter, table };
        let received = match self.link.send(&wire::encode(&call), []) {
            Ok(()) => self.link.receive(&mut self.buffer).ok().flatten(),
            Err(_) => None,
        };
        let answer = received.ok_or(ConnectError::Ended)?;
        let answer: Option<Result<T, Status>> = wire::decode(answer.body);
        match answer {
            Some(Ok(rows)) => Ok(rows),
            Some(Err(status)) => Err(ConnectError::NotViewed(status)),
            None => Err(ConnectError::Ended),
        }
    }

    /// Returns the adapter as a whole, and what the service has counted.
    ///
    /// # Errors
    /// [`ConnectError::Ended`] when the service is gone; [`ConnectError::NotViewed`] for an adapter
    /// that there is not.
    pub fn machine(&mut self) -> Result<(MachineRow, Counts), ConnectError> {
        self.read(Table::Machine)
    }

    /// Returns processes of clients.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub fn processes(&mut self, request: PageRequest) -> Result<Page<ProcessRow>, ConnectError> {
        self.read(Table::Processes(request))
    }

    /// Returns contexts for packets and hardware queues.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub fn queues(&mut self, request: PageRequest) -> Result<Page<QueueRow>, ConnectError> {
        self.read(Table::Queues(request))
    }

    /// Returns fences.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub fn fences(&mut self, request: PageRequest) -> Result<Page<FenceRow>, ConnectError> {
        self.read(Table::Fences(request))
    }

    /// Returns waits for fences.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub fn waiters(&mut self, request: PageRequest) -> Result<Page<WaiterRow>, ConnectError> {
        self.read(Table::Waiters(request))
    }

    /// Returns doorbells.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub fn doorbells(&mut self, request: PageRequest) -> Result<Page<DoorbellRow>, ConnectError> {
        self.read(Table::Doorbells(request))
    }
}
