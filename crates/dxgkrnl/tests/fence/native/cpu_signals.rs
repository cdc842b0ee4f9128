//! CPU signals of native fences: which of them call the driver, and which publish MonitoredValue.

use tidegate::d3d12::Event;
use tidegate::ddi::fence::UpdateCurrentMode::{self, NotificationOnly, Write};
use tidegate_testbed::prelude::*;

/// A machine whose driver's calls of UpdateCurrentValuesFromCpu and UpdateMonitoredValues are
/// recorded.
struct App {
    machine: Machine,
    device: Device,
    updates: Arc<Mutex<Vec<(u64, UpdateCurrentMode)>>>,
    published: Arc<Mutex<Vec<u64>>>,
}

/// A machine with a changed configuration.
fn app_with(change: impl FnOnce(&mut MachineConfig)) -> App {
    let platform = Platform::virtual_time(StepCosts::free());
    let updates = Arc::new(platform.mutex("updates of CurrentValue", Vec::new()));
    let mut config = MachineConfig::standard(&platform);
    change(&mut config);
    let published = Arc::new(platform.mutex("published values", Vec::new()));
    let (seen, monitored) = (updates.clone(), published.clone());
    let machine = Machine::builder(&platform).reference_behind(config, move |inner| {
        let records = Overrides::default().update_current_values_from_cpu(
            move |inner, level, fences, mode| {
                seen.lock().extend(fences.iter().map(|update| (update.value, mode)));
                inner.update_current_values_from_cpu(level, fences, mode);
            },
        );
        let records = records.update_monitored_values(move |inner, level, fences| {
            monitored.lock().extend(fences.iter().map(|update| update.value));
            inner.update_monitored_values(level, fences);
        });
        records.before(inner)
    });
    let machine = machine.start().unwrap();
    let device = machine.device(DeviceOptions::default()).unwrap();
    App { machine, device, updates, published }
}

fn app() -> App {
    app_with(|_| ())
}

impl App {
    fn fence(&self) -> Fence {
        let fence = self.device.create_fence("fence", 0).unwrap();
        assert!(fence.is_native());
        fence
    }

    /// Signals, and returns the calls of the driver that it made.
    fn signal(&self, fence: &Fence, value: u64) -> Vec<(u64, UpdateCurrentMode)> {
        self.updates.lock().clear();
        fence.signal(value).unwrap();
        assert_eq!(fence.completed_value(), value);
        self.updates.lock().clone()
    }

    /// Returns an event that is set when the fence has reached `value`.
    fn event_at(&self, fence: &Fence, value: u64) -> Event {
        let event = self.device.create_event(EventDesc::manual_reset());
        fence.set_event_on_completion(value, &event).unwrap();
        event
    }

    /// Takes the MonitoredValues that the driver was told to publish.
    fn take_published(&self) -> Vec<u64> {
        std::mem::take(&mut self.published.lock())
    }

    fn run(self, main: impl FnOnce(&App) + Send + 'static) {
        let app = Arc::new(self);
        let own = app.clone();
        app.machine.run(move || main(&own)).unwrap();
        assert_eq!(app.machine.adapter().bug_checks(), []);
        assert_eq!(app.machine.driver().violations(), []);
    }
}

#[test]
fn a_cpu_signal_for_which_no_queue_waits_is_a_store() {
    app().run(|app| {
        let fence = app.fence();
        for value in [1, 1, 7, u64::MAX - 1] {
            assert_eq!(app.signal(&fence, value), [], "a signal of {value}");
        }
        assert_eq!(app.signal(&fence, 3), [(3, Write)], "a value that falls");
        // A CPU waiter is released without the driver, which is told of the next MonitoredValue.
        let [first, second] = [5, 9].map(|value| app.event_at(&fence, value));
        for (value, set) in [(4, [false, false]), (5, [true, false]), (9, [true, true])] {
            assert_eq!(app.signal(&fence, value), []);
            assert_eq!([first.is_set(), second.is_set()], set, "a signal of {value}");
        }
    });
}

// spec: NF-136
#[test]
fn a_cpu_signal_notifies_the_hardware_that_holds_a_waiting_queue() {
    for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
        app().run(move |app| {
            let (gate, done) = (app.fence(), app.fence());
            let desc = QueueDesc::new(CommandListType::Compute).submission(submission);
            let queue = app.device.create_queue(desc).unwrap();
            queue.wait(&gate, 2).unwrap();
            queue.signal(&done, 1).unwrap();
            let platform = app.machine.platform();
            platform.sleep_until(platform.now().after(1_000_000));
            let notified = |value| match submission {
                Submission::Packet => Vec::new(),
                _ => vec![(value, NotificationOnly)],
            };
            assert_eq!(app.signal(&gate, 1), notified(1), "{submission:?}");
            app.updates.lock().clear();
            gate.signal(2).unwrap();
            let first = app.updates.lock().first().copied();
            done.wait(1).unwrap();
            let is_held = submission != Submission::Packet;
            assert_eq!(first == Some((2, NotificationOnly)), is_held, "{submission:?}: {first:?}");
            assert_eq!(app.signal(&gate, 3), [], "no queue waits any more");
        });
    }
}

// spec: NF-135
#[test]
fn every_cpu_signal_calls_a_driver_without_waiting_words_or_with_managed_power() {
    let lacks = || app_with(|config| config.driver.kernel_stores_fence_values = false);
    let managed = || app_with(|config| config.kernel.power = PowerManagement::Managed);
    for app in [lacks as fn() -> App, managed] {
        app().run(|app| {
            let fence = app.fence();
            for value in [1, 2, 1] {
                assert_eq!(app.signal(&fence, value), [(value, Write)]);
            }
            // So does every change of MonitoredValue.
            let events = [5, 9].map(|value| app.event_at(&fence, value));
            assert_eq!(app.take_published(), [4]);
            assert_eq!(app.signal(&fence, 5), [(5, Write)]);
            assert_eq!(app.take_published(), [8]);
            assert_eq!(events.map(|event| event.is_set()), [true, false]);
        });
    }
}

/// Only a lower MonitoredValue needs the driver's barrier. A signal may store a higher one once the
/// last call of the driver is known to have ended.
// spec: NF-048
#[test]
fn the_driver_publishes_the_first_waiter_and_later_signals_raise_the_value_themselves() {
    app().run(|app| {
        let fence = app.fence();
        for round in 0..3 {
            let base = 100 * round;
            let events = [5, 9, 12].map(|value| app.event_at(&fence, base + value));
            assert_eq!(app.take_published(), [base + 4], "the minimum falls once");
            for (count, value) in [5, 9, 12].into_iter().enumerate() {
                assert_eq!(app.signal(&fence, base + value), []);
                assert_eq!(app.take_published(), [0; 0], "a signal of {value} raises the minimum");
                let set = events.each_ref().map(|event| event.is_set());
                assert_eq!(set, [true, count > 0, count > 1]);
            }
        }
        // The last waiter leaves: a GPU signal interrupts for none. The driver publishes that.
        let event = app.device.create_event(EventDesc::manual_reset());
        let registration = fence.register_event(500, &event).unwrap();
        assert_eq!(app.take_published(), [499]);
        drop(registration);
        assert_eq!(app.take_published(), [u64::MAX]);
    });
}
