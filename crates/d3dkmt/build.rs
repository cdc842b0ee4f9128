//! Gives the shared library its soname, and keeps it loaded: threads of the machine run its code
//! until the process ends.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtidegate_d3dkmt.so.0");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
