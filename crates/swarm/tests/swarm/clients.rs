//! A client that fails outside of any step is a failure of the program, and is named.

use std::path::Path;
use std::sync::Arc;
use tidegate_swarm::line::ReplayLine;
use tidegate_swarm::{Failure, clients, threads};

/// `tidegate` runs programs of processes; its tests have those that hold.
#[test]
fn a_client_that_ends_by_itself_is_named() {
    let line = "swarm/processes | service; adapter standard; process a0 steady; thread p0; \
                t0 rest 100";
    let line: ReplayLine = line.parse().unwrap();
    assert_eq!(line.to_string().parse(), Ok(line.clone()));
    let program = Arc::new(line.program);
    let run = |executable: &str| {
        let platform = threads::platform(&program);
        clients::run_watched(&platform, &program, Path::new(executable)).failure
    };
    let failure = run("/bin/false").expect("no client");
    let Failure::Panic(text) = &failure else { panic!("{failure}") };
    assert!(text.starts_with("p0 has started and has ended: exit status: 1"), "{text}");
    let failure = run("/nonexistent/tidegate").expect("no client");
    let Failure::Panic(text) = &failure else { panic!("{failure}") };
    assert!(text.starts_with("p0 does not start: "), "{text}");
}
