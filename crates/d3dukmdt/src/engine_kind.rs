//! The kinds of engines, as a table.
//!
//! A new kind is a row here, what its engines run (`gpu-abi`, `abilities`), and the type of its
//! command lists (`d3d12`, `model`).

macro_rules! engine_kinds {
    ($($(#[$meta:meta])* $Kind:ident = $number:literal $name:literal $word:literal $type:literal;)*) => {
        /// The kind of work that the engines of a node run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u64)]
        pub enum EngineKind {
            $($(#[$meta])* $Kind = $number,)*
        }

        impl EngineKind {
            /// Every kind, by its number.
            pub const ALL: &[EngineKind] = &[$(EngineKind::$Kind),*];

            /// Returns the name in reports and for nodes.
            pub fn name(self) -> &'static str {
                match self { $(EngineKind::$Kind => $name),* }
            }

            /// Returns the word in files and options.
            pub fn word(self) -> &'static str {
                match self { $(EngineKind::$Kind => $word),* }
            }

            /// Returns the published number, of DXGK_ENGINE_TYPE.
            pub fn engine_type(self) -> u32 {
                match self { $(EngineKind::$Kind => $type),* }
            }
        }
    };
}

// Compute engines have no published type of their own.
engine_kinds! {
    /// Draws, dispatches and copies.
    ThreeD = 0 "3D" "3d" 1;
    /// Dispatches and copies.
    Compute = 1 "compute" "compute" 0;
    /// Copies and fills.
    Copy = 2 "copy" "copy" 6;
    /// Decodes video. Decoding is modelled: work that takes time.
    VideoDecode = 3 "video decode" "video-decode" 2;
    /// Encodes video, which is modelled as well.
    VideoEncode = 4 "video encode" "video-encode" 3;
}

impl EngineKind {
    /// The kinds of which every adapter has an engine. Each can do what those behind it can.
    pub const STANDARD: [EngineKind; 3] =
        [EngineKind::ThreeD, EngineKind::Compute, EngineKind::Copy];

    /// Returns the kind with this number, if there is one.
    pub fn from_number(number: u64) -> Option<EngineKind> {
        EngineKind::ALL.iter().copied().find(|kind| *kind as u64 == number)
    }

    /// Returns the kind with this word, if there is one.
    pub fn from_word(word: &str) -> Option<EngineKind> {
        EngineKind::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// Returns the names of nodes of these kinds. If a kind has several nodes, they are numbered
    /// from 0.
    pub fn node_names(kinds: &[EngineKind]) -> Vec<String> {
        let name = |(at, kind): (usize, &EngineKind)| {
            let of_kind = |nodes: &[EngineKind]| nodes.iter().filter(|k| *k == kind).count();
            match of_kind(kinds) {
                1 => kind.name().to_owned(),
                _ => format!("{} {}", kind.name(), of_kind(&kinds[..at])),
            }
        };
        kinds.iter().enumerate().map(name).collect()
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::EngineKind::{Compute, Copy, ThreeD};
    use super::*;

    #[test]
    fn nodes_of_a_kind_that_has_several_are_numbered() {
        let names = EngineKind::node_names(&[ThreeD, Compute, Copy, Compute]);
        assert_eq!(names, ["3D", "compute 0", "copy", "compute 1"]);
    }

    #[test]
    fn a_kind_is_found_by_its_number_and_by_its_word() {
        for kind in EngineKind::ALL {
            assert_eq!(EngineKind::from_number(*kind as u64), Some(*kind));
            assert_eq!(EngineKind::from_word(kind.word()), Some(*kind));
        }
        assert_eq!(EngineKind::from_number(EngineKind::ALL.len() as u64), None);
        assert_eq!(EngineKind::from_word("3D"), None);
    }
}
