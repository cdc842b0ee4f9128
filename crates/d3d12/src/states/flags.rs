//! The resource states with D3D12's values, and which of them are writes.

use std::fmt;

bitflags::bitflags! {
    /// The uses that a resource is ready for (D3D12_RESOURCE_STATES). No bits: COMMON.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ResourceStates: u32 {
        /// No particular use. Required for a change of the queue type class and for CPU access.
        const COMMON = 0;
        /// For the display: the same as COMMON.
        const PRESENT = 0;
        /// Vertices or constants.
        const VERTEX_AND_CONSTANT_BUFFER = 0x1;
        /// Indices.
        const INDEX_BUFFER = 0x2;
        /// Written by draws as a render target.
        const RENDER_TARGET = 0x4;
        /// Read and written by programs.
        const UNORDERED_ACCESS = 0x8;
        /// Written as a depth buffer.
        const DEPTH_WRITE = 0x10;
        /// Read as a depth buffer.
        const DEPTH_READ = 0x20;
        /// Read by programs other than pixel programs.
        const NON_PIXEL_SHADER_RESOURCE = 0x40;
        /// Read by pixel programs.
        const PIXEL_SHADER_RESOURCE = 0x80;
        /// Written as a stream output.
        const STREAM_OUT = 0x100;
        /// Arguments of indirect commands.
        const INDIRECT_ARGUMENT = 0x200;
        /// Value of a predicate.
        const PREDICATION = 0x200;
        /// Destination of copies.
        const COPY_DEST = 0x400;
        /// Source of copies.
        const COPY_SOURCE = 0x800;
        /// Destination of resolves.
        const RESOLVE_DEST = 0x1000;
        /// Source of resolves.
        const RESOLVE_SOURCE = 0x2000;
        /// Read by programs of every kind.
        const ALL_SHADER_RESOURCE = 0xC0;
        /// Every read that a resource of an upload heap serves.
        const GENERIC_READ = 0xAC3;
    }
}

impl ResourceStates {
    /// The states in which the GPU writes. At most one is set, and never with a read state.
    pub const WRITES: ResourceStates = ResourceStates::RENDER_TARGET
        .union(ResourceStates::UNORDERED_ACCESS)
        .union(ResourceStates::DEPTH_WRITE)
        .union(ResourceStates::STREAM_OUT)
        .union(ResourceStates::COPY_DEST)
        .union(ResourceStates::RESOLVE_DEST);

    /// The states that are separate in each queue type class.
    pub const COPIES: ResourceStates = ResourceStates::COPY_SOURCE.union(ResourceStates::COPY_DEST);

    /// Returns whether a write state is set.
    pub fn writes(self) -> bool {
        self.intersects(ResourceStates::WRITES)
    }

    // spec: ME-076
    /// Returns whether these states can be set together: any set of reads, or a single write.
    pub fn combine(self) -> bool {
        !self.writes() || self.bits().count_ones() == 1
    }
}

impl fmt::Display for ResourceStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("COMMON");
        }
        if *self == ResourceStates::GENERIC_READ {
            return f.write_str("GENERIC_READ");
        }
        let mut rest = *self;
        for (name, flag) in ResourceStates::all().iter_names() {
            if rest.contains(flag) && flag.bits().count_ones() == 1 {
                if rest != *self {
                    f.write_str(" | ")?;
                }
                f.write_str(name)?;
                rest.remove(flag);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceStates as S;

    #[test]
    fn numbers_are_the_published_ones() {
        let numbers = [
            (S::COMMON, 0),
            (S::PRESENT, 0),
            (S::VERTEX_AND_CONSTANT_BUFFER, 0x1),
            (S::INDEX_BUFFER, 0x2),
            (S::RENDER_TARGET, 0x4),
            (S::UNORDERED_ACCESS, 0x8),
            (S::DEPTH_WRITE, 0x10),
            (S::DEPTH_READ, 0x20),
            (S::NON_PIXEL_SHADER_RESOURCE, 0x40),
            (S::PIXEL_SHADER_RESOURCE, 0x80),
            (S::STREAM_OUT, 0x100),
            (S::INDIRECT_ARGUMENT, 0x200),
            (S::PREDICATION, 0x200),
            (S::COPY_DEST, 0x400),
            (S::COPY_SOURCE, 0x800),
            (S::RESOLVE_DEST, 0x1000),
            (S::RESOLVE_SOURCE, 0x2000),
            (S::ALL_SHADER_RESOURCE, 0xC0),
            (S::GENERIC_READ, 0xAC3),
        ];
        for (states, number) in numbers {
            assert_eq!(states.bits(), number, "{states}");
        }
    }

    #[test]
    // spec: ME-076
    fn one_write_stands_alone_and_reads_combine() {
        let single: Vec<S> =
            (0..14).map(|bit| S::from_bits(1 << bit).expect("a state of one bit")).collect();
        let writes = [0x4, 0x8, 0x10, 0x100, 0x400, 0x1000];
        for a in &single {
            assert_eq!(a.writes(), writes.contains(&a.bits()), "{a}");
            for b in &single {
                let together = *a | *b;
                let expected = a == b || !(a.writes() || b.writes());
                assert_eq!(together.combine(), expected, "{together}");
            }
        }
        assert!(S::COMMON.combine() && S::GENERIC_READ.combine());
    }

    #[test]
    fn states_print_as_their_names() {
        assert_eq!(S::COMMON.to_string(), "COMMON");
        assert_eq!(S::GENERIC_READ.to_string(), "GENERIC_READ");
        assert_eq!(S::COPY_DEST.to_string(), "COPY_DEST");
        let both = S::COPY_SOURCE | S::NON_PIXEL_SHADER_RESOURCE;
        assert_eq!(both.to_string(), "NON_PIXEL_SHADER_RESOURCE | COPY_SOURCE");
    }
}
