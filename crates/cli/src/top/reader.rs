//! The thread that reads the service, so that one that does not answer leaves the keys alive.

use super::snapshot::{Request, Snapshot};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::platform::{Event, Mutex, Step};
use tidegate::service::client::{ConnectError, Watch};

/// A request for the reader, and its result.
#[derive(Default)]
struct Exchange {
    request: Option<Request>,
    result: Option<Result<Snapshot, String>>,
}

/// The reader as the view's loop sees it.
pub(super) struct Reader {
    exchange: Arc<Mutex<Exchange>>,
    requested: Event,
}

impl Reader {
    /// Starts the thread. It ends with the program.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        platform: &Platform,
        socket: PathBuf,
        adapter: u32,
        watch: Watch,
    ) -> io::Result<Reader> {
        let exchange = Arc::new(platform.mutex("readings of a service", Exchange::default()));
        let reader = Reader { exchange: exchange.clone(), requested: platform.event(false) };
        let requested = reader.requested.clone();
        platform.spawn_outside("reader", move || {
            let mut connected = Some(watch);
            loop {
                requested.wait();
                let Some(request) = exchange.lock().request.take() else { continue };
                let again = connected.take().map_or_else(|| Watch::connect(&socket, adapter), Ok);
                let read = again.and_then(|mut watch| {
                    let snapshot = Snapshot::read(&mut watch, request)?;
                    connected = Some(watch);
                    Ok(snapshot)
                });
                exchange.lock().result = Some(read.map_err(reason));
            }
        })?;
        Ok(reader)
    }

    /// Has the reader make a reading.
    pub(super) fn request(&self, request: Request) {
        self.exchange.lock().request = Some(request);
        self.requested.set(Step::ThreadWake);
    }

    /// Returns the last reading, once.
    pub(super) fn take(&self) -> Option<Result<Snapshot, String>> {
        self.exchange.lock().result.take()
    }
}

/// The socket is on the screen already.
fn reason(error: ConnectError) -> String {
    match error {
        ConnectError::NoService { error, .. } => error.to_string(),
        other => other.to_string(),
    }
}
