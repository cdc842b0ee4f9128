//! C programs in a guest: QEMU, a kernel, and the device of a service. They find it by the variable
//! that names a socket elsewhere.

use crate::compiler::{Compiler, library, root};
use crate::service::GuestService;
use std::path::Path;
use tidegate_testbed::Guest;

/// Returns a guest with the library and these programs of `tests/c`.
fn guest_with(sources: &[&str], folder: &Path) -> Option<Guest> {
    let compiler = Compiler::find("cc")?;
    let real = library();
    let mut guest = Guest::new()?.with_program("/lib/libtidegate_d3dkmt.so.0", &real);
    for source in sources {
        let source = root().join("tests/c").join(source);
        let name = source.file_stem().unwrap().to_str().unwrap().to_owned();
        let program = folder.join(&name);
        compiler.compile(&source, &["-o", program.to_str().unwrap(), real.to_str().unwrap()]);
        guest = guest.with_program(&format!("/bin/{name}"), &program);
    }
    Some(guest)
}

/// Submissions of the short stream and of the long one.
const STREAMS: [u64; 2] = [1, 400];

// spec: UMS-191
#[test]
fn c_programs_submit_from_a_guest_without_messages() {
    let folder = tempfile::tempdir().unwrap();
    // The programs find the library by its soname when they are linked.
    std::os::unix::fs::symlink(library(), folder.path().join("libtidegate_d3dkmt.so.0")).unwrap();
    let sources = ["../../examples/store.c", "stream.c", "fences.c", "queues.c"];
    let Some(guest) = guest_with(&sources, folder.path()) else { return };
    let service = GuestService::start();
    let runs = [
        "store".to_owned(),
        "fences monitored".to_owned(),
        "fences any-and-all".to_owned(),
        "queues kernel-mode".to_owned(),
        "queues user-mode".to_owned(),
        format!("stream {}", STREAMS[0]),
        format!("stream {}", STREAMS[1]),
    ];
    let script = "export TIDEGATE_SOCKET=$device LD_LIBRARY_PATH=/lib\n".to_owned();
    let script = runs.iter().fold(script, |script, run| {
        format!("{script}/bin/{run}\necho \"guest: {run} ended with $?\"\n")
    });
    let output = guest.boot(&service.socket(), &script).output();
    assert!(output.contains("the GPU wrote 42"), "{output}");
    for run in &runs {
        assert!(output.contains(&format!("guest: {run} ended with 0")), "{run}: {output}");
    }
    while service.counts().guests != 0 {}
    let counts = service.counts();
    assert_eq!((counts.sessions_failed, counts.wakes), (0, 0), "{counts:?}");
    assert!(counts.guest_wakes > 0, "{counts:?}");
    // Messages of all programs together are fewer than the submissions of one.
    assert!(counts.calls < STREAMS[1], "{counts:?}");
}
