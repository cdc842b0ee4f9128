//! The fuzzer: runs libFuzzer on the target named by the environment. Only `cargo xtask fuzz`
//! builds and starts it, with coverage counters in all crates.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports the function that libFuzzer calls")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use tidegate_fuzz::{
    SERIES_VARIABLE, Series, TARGET_VARIABLE, TARGETS, Target, find, recorded_inputs,
};

thread_local! {
    /// Left to the end of the process: by then a machine cannot be dropped.
    static SERIES: RefCell<ManuallyDrop<Series>> = RefCell::default();
}

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!(
                "{TARGET_VARIABLE} is '{name}', which is not a target; use one of {}",
                names.join(", ")
            );
            std::process::exit(2);
        })
    })
}

/// Writes the inputs of the present machine to a file when an input does harm.
fn save_series() {
    let Some(file) = std::env::var_os(SERIES_VARIABLE) else { return };
    // The fuzzer's own hook, which ends the process.
    let then = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Err(error) = std::fs::write(&file, recorded_inputs(target())) {
            eprintln!("{}: cannot write: {error}", file.display());
        }
        then(info);
    }));
}

libfuzzer_sys::fuzz_target!(init: save_series(), |data: &[u8]| {
    SERIES.with_borrow_mut(|series| target().run(series, data));
});
