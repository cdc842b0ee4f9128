//! The guide of `docs/guide`, for the tests of its code: each chapter is the documentation of an
//! item here, so that each block of Rust in it is compiled and run. Exists in documentation tests
//! alone.

macro_rules! chapters {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/guide/src/", $file))]
            pub mod $name {}
        )*
    };
}

chapters! {
    about: "about.md",
    first_fence: "first-fence.md",
    queues_and_lists: "queues-and-lists.md",
    order_between_queues: "order-between-queues.md",
    cpu_waits: "cpu-waits.md",
    resources: "resources.md",
    dispatches_and_draws: "dispatches-and-draws.md",
    pipelined_frame: "pipelined-frame.md",
    reading_a_timeline: "reading-a-timeline.md",
    is_it_synchronised: "is-it-synchronised.md",
    exploring: "exploring.md",
    when_the_gpu_fails: "when-the-gpu-fails.md",
    models_and_time: "models-and-time.md",
    testing_a_driver: "testing-a-driver.md",
    a_driver_in_c: "a-driver-in-c.md",
    a_device_model: "a-device-model.md",
}
