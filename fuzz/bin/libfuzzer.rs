//! The fuzzer: libFuzzer around the target that the environment names. `cargo xtask fuzz` builds
//! it, with coverage counters in all that it is made of, and starts it; nothing else does.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports the function by which libFuzzer calls in")]

use std::sync::OnceLock;
use tidegate_fuzz::{TARGET_VARIABLE, TARGETS, Target, find};

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!(
                "{TARGET_VARIABLE} is '{name}', which is no target; use one of {}",
                names.join(", ")
            );
            std::process::exit(2);
        })
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| (target().run)(data));
