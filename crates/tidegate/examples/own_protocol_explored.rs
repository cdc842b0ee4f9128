//! A protocol of one's own, explored: a ring of two slots between a thread that produces and one
//! that consumes. `tidegate::check` tries every schedule, with the store buffers of x86, and finds
//! what a stress test meets once a month.
//!
//! Outside of a check the types are std's, so the ring is code for the product too.

use std::panic::catch_unwind;
use tidegate::check::cell::RaceCell;
use tidegate::check::sync::Arc;
use tidegate::check::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tidegate::check::sync::atomic::{AtomicUsize, Ordering};
use tidegate::check::{Builder, Coverage, hint, thread};

const SLOTS: usize = 2;

/// One producer, one consumer. `head` counts what was put, `tail` what was taken.
struct Ring {
    slots: [RaceCell<u32>; SLOTS],
    head: AtomicUsize,
    tail: AtomicUsize,
    /// The order in which `put` publishes. `Release` is right.
    publish: Ordering,
}

impl Ring {
    fn new(publish: Ordering) -> Ring {
        let slots = [RaceCell::new(0), RaceCell::new(0)];
        Ring { slots, head: AtomicUsize::new(0), tail: AtomicUsize::new(0), publish }
    }

    fn put(&self, value: u32) {
        let head = self.head.load(Relaxed);
        while head - self.tail.load(Acquire) == SLOTS {
            hint::spin_loop();
        }
        self.slots[head % SLOTS].set(value);
        self.head.store(head + 1, self.publish);
    }

    fn take(&self) -> u32 {
        let tail = self.tail.load(Relaxed);
        while self.head.load(Acquire) == tail {
            hint::spin_loop();
        }
        let value = self.slots[tail % SLOTS].get();
        self.tail.store(tail + 1, Release);
        value
    }
}

/// The program that is explored: three values through two slots.
fn program(publish: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let ring = Arc::new(Ring::new(publish));
        let producer = Arc::clone(&ring);
        let producer = thread::spawn(move || (1..=3).for_each(|value| producer.put(value)));
        assert_eq!([ring.take(), ring.take(), ring.take()], [1, 2, 3]);
        producer.join().unwrap();
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let checked = Builder::new().name("ring").check(program(Release));
    println!("{checked:?}");
    assert_eq!(checked.coverage, Coverage::Everything);

    // Published without a release, the slot is not yet written for the consumer.
    let found = catch_unwind(|| Builder::new().name("ring").check(program(Relaxed)));
    let message = *found.unwrap_err().downcast::<String>().unwrap();
    println!("{message}");
    assert!(message.contains("data race on the RaceCell made at"), "{message}");
    Ok(())
}
