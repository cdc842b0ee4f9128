//! A driver layer that filters the driver's DxgkCbNotifyInterrupt reports.

use std::sync::Arc;
use tidegate::ddi::{CallbackLayer, Callbacks, Dirql, InterruptData, Overrides, StartInfo};

/// Returns overrides that pass each report to `filter` and forward those for which it returns true.
pub fn filter_reports(
    filter: impl Fn(&InterruptData) -> bool + Send + Sync + 'static,
) -> Overrides {
    let filter: Filter = Arc::new(filter);
    Overrides::default().start_device(move |inner, level, start| {
        let callbacks = Arc::new(Filtered { inner: start.callbacks, filter: filter.clone() });
        inner.start_device(level, StartInfo { callbacks, ..start })
    })
}

type Filter = Arc<dyn Fn(&InterruptData) -> bool + Send + Sync>;

/// The kernel behind the filter.
struct Filtered {
    inner: Arc<dyn Callbacks>,
    filter: Filter,
}

impl CallbackLayer for Filtered {
    fn inner(&self) -> &dyn Callbacks {
        &*self.inner
    }

    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        if (self.filter)(&data) {
            self.inner.notify_interrupt(level, data);
        }
    }
}
