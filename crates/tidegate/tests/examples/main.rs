//! The examples of the crate, each run to its end. An example asserts its own result. The runner of
//! the tests kills one that hangs.

macro_rules! examples {
    ($($name:ident in $file:literal,)*) => {
        $(
            #[path = $file]
            mod $name;

            #[test]
            fn $name() {
                $name::main().unwrap();
            }
        )*
    };
}

examples! {
    async_compute_graphics in "../../examples/async_compute_graphics.rs",
    frame_graph in "../../examples/frame_graph.rs",
    own_driver in "../../examples/own_driver.rs",
    own_protocol_explored in "../../examples/own_protocol_explored.rs",
    pipelined_compute_graphics in "../../examples/pipelined_compute_graphics.rs",
    ring_buffer in "../../examples/ring_buffer.rs",
    tokio_producer_consumer in "../../examples/tokio_producer_consumer.rs",
    two_queues_and_readback in "../../examples/two_queues_and_readback.rs",
}
