//! `tidegate::check`: programs of threads and of queues, explored. Each mistake that is planted in
//! a right program must be found, and the message must name the lines.

mod as_std;
mod classics;
mod protocols;
mod queues;
mod replay;
mod waiting;

use std::panic::catch_unwind;
use tidegate::check::Builder;

/// The message of a check of `program`, which must fail.
fn failure(builder: Builder, program: impl Fn() + Send + Sync + 'static) -> String {
    let builder = builder.name("planted");
    let failed = catch_unwind(std::panic::AssertUnwindSafe(|| builder.check(program)));
    let payload = failed.expect_err("the check finds the mistake");
    payload.downcast_ref::<String>().expect("a message").clone()
}

/// The line of a message that replays its schedule.
fn line_of(message: &str) -> String {
    let after = message.split("TIDEGATE_REPLAY='").nth(1).expect("a line");
    after.split('\'').next().expect("its end").to_owned()
}
