//! The fuzzer: runs libFuzzer on the target named by the environment. Only `cargo xtask fuzz`
//! builds and starts it, with coverage counters in all crates.
#![no_main]
#![allow(unsafe_code, reason = "the macro exports the function that libFuzzer calls")]

use std::sync::OnceLock;
use tidegate_fuzz::{TARGET_VARIABLE, TARGETS, Target, find};

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

libfuzzer_sys::fuzz_target!(|data: &[u8]| (target().run)(data));
