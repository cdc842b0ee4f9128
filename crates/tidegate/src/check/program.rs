//! A program as a scenario, and the variables of the environment that replay one.

use std::sync::Arc;
use tidegate_check::thread;
use tidegate_explorer::{Prepared, Scenario};
use tidegate_platform::Platform;

/// The variable of the environment that has the line to replay.
pub const REPLAY: &str = "TIDEGATE_REPLAY";
/// The variable that names a file for the steps of a replay. `tidegate replay` sets it.
pub const REPORT: &str = "TIDEGATE_REPLAY_REPORT";
/// The variable that names an HTML file for the timeline of a replay.
pub const TIMELINE: &str = "TIDEGATE_REPLAY_TIMELINE";

/// A program as a scenario.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) body: Arc<dyn Fn() + Send + Sync>,
}

impl Scenario for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        "a program that is checked"
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        platform.detect_races();
        let body = Arc::clone(&self.body);
        Prepared::new(move || thread::run_main(|| body()), |_| {}).of_program()
    }
}
