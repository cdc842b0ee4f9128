//! The state rules as tables: which states a list type may set, what is promoted from COMMON, and
//! what decays to it.

use crate::model::CommandListType;
use crate::states::flags::ResourceStates;
use std::fmt;

// spec: ME-065
/// A class of queues that share resource states: a state set on one holds on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// Compute and 3D queues.
    ComputeAnd3D,
    /// Copy queues.
    Copy,
    /// Video queues.
    Video,
}

impl TypeClass {
    /// Returns the class of the queues that run lists of this type.
    pub fn of(list_type: CommandListType) -> TypeClass {
        match list_type {
            CommandListType::Direct | CommandListType::Compute => TypeClass::ComputeAnd3D,
            CommandListType::Copy => TypeClass::Copy,
            CommandListType::VideoDecode | CommandListType::VideoEncode => TypeClass::Video,
        }
    }
}

impl fmt::Display for TypeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TypeClass::ComputeAnd3D => "compute/3D",
            TypeClass::Copy => "copy",
            TypeClass::Video => "video",
        })
    }
}

/// The kinds of resources that promotion and decay distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A buffer.
    Buffer,
    /// A texture that several queues may use at once (ALLOW_SIMULTANEOUS_ACCESS).
    SimultaneousTexture,
    /// Any other texture.
    Texture,
}

impl ResourceKind {
    /// Returns whether several queues may use it at once while one of them writes other bytes.
    pub fn is_simultaneous(self) -> bool {
        self != ResourceKind::Texture
    }

    /// Returns the word used in messages.
    pub fn name(self) -> &'static str {
        if self == ResourceKind::Buffer { "buffer" } else { "texture" }
    }
}

/// Returns the states that barriers in lists of this type may name.
pub fn settable(list_type: CommandListType) -> ResourceStates {
    let compute = ResourceStates::VERTEX_AND_CONSTANT_BUFFER
        | ResourceStates::UNORDERED_ACCESS
        | ResourceStates::NON_PIXEL_SHADER_RESOURCE
        | ResourceStates::INDIRECT_ARGUMENT
        | ResourceStates::COPIES;
    match list_type {
        CommandListType::Direct => ResourceStates::all(),
        CommandListType::Compute => compute,
        CommandListType::Copy => ResourceStates::COPIES,
        // Modelled video work names no resources.
        CommandListType::VideoDecode | CommandListType::VideoEncode => ResourceStates::empty(),
    }
}

// spec: ME-077
/// Returns the states to which a first use can promote a resource from COMMON.
pub fn promotable(kind: ResourceKind) -> ResourceStates {
    if kind.is_simultaneous() {
        // Depth resources never have simultaneous access.
        return ResourceStates::all()
            .difference(ResourceStates::DEPTH_WRITE | ResourceStates::DEPTH_READ);
    }
    ResourceStates::ALL_SHADER_RESOURCE | ResourceStates::COPIES
}

// spec: ME-078
/// Returns whether a resource decays to COMMON when the ExecuteCommandLists call that used it on a
/// queue of `class` is complete. `promoted`: no barrier set its states.
pub fn decays(
    kind: ResourceKind,
    class: TypeClass,
    states: ResourceStates,
    promoted: bool,
) -> bool {
    class == TypeClass::Copy || kind.is_simultaneous() || (promoted && !states.writes())
}

#[cfg(test)]
mod tests {
    use super::ResourceKind::{Buffer, SimultaneousTexture, Texture};
    use super::ResourceStates as S;
    use super::*;

    #[test]
    // spec: ME-077
    fn promotion_is_as_the_table_says() {
        // State, promotion of buffers and simultaneous-access textures, promotion of other
        // textures.
        let table = [
            (S::PIXEL_SHADER_RESOURCE, true, true),
            (S::NON_PIXEL_SHADER_RESOURCE, true, true),
            (S::COPY_SOURCE, true, true),
            (S::COPY_DEST, true, true),
            (S::VERTEX_AND_CONSTANT_BUFFER, true, false),
            (S::INDEX_BUFFER, true, false),
            (S::RENDER_TARGET, true, false),
            (S::UNORDERED_ACCESS, true, false),
            (S::STREAM_OUT, true, false),
            (S::INDIRECT_ARGUMENT, true, false),
            (S::PREDICATION, true, false),
            (S::RESOLVE_DEST, true, false),
            (S::RESOLVE_SOURCE, true, false),
            (S::DEPTH_WRITE, false, false),
            (S::DEPTH_READ, false, false),
        ];
        for (state, simultaneous, other) in table {
            for kind in [Buffer, SimultaneousTexture] {
                assert_eq!(promotable(kind).contains(state), simultaneous, "{kind:?} {state}");
            }
            assert_eq!(promotable(Texture).contains(state), other, "texture {state}");
        }
    }

    #[test]
    // spec: ME-078
    fn decay_is_as_the_list_says() {
        use TypeClass::{ComputeAnd3D, Copy};
        for (states, promoted) in
            [(S::COPY_DEST, true), (S::COPY_DEST, false), (S::COPY_SOURCE, false)]
        {
            for kind in [Buffer, SimultaneousTexture, Texture] {
                assert!(decays(kind, Copy, states, promoted), "used on a copy queue");
            }
            for kind in [Buffer, SimultaneousTexture] {
                assert!(decays(kind, ComputeAnd3D, states, promoted), "{kind:?}");
            }
            assert!(!decays(Texture, ComputeAnd3D, states, promoted), "{states}");
        }
        let reads = S::COPY_SOURCE | S::PIXEL_SHADER_RESOURCE;
        assert!(decays(Texture, ComputeAnd3D, reads, true), "promoted to reads");
        assert!(!decays(Texture, ComputeAnd3D, reads, false), "set by a barrier");
    }

    #[test]
    // spec: ME-065
    fn graphics_states_are_for_direct_lists_and_copy_lists_know_copies_alone() {
        let graphics = [
            S::PIXEL_SHADER_RESOURCE,
            S::RENDER_TARGET,
            S::DEPTH_WRITE,
            S::DEPTH_READ,
            S::INDEX_BUFFER,
            S::STREAM_OUT,
            S::RESOLVE_DEST,
            S::RESOLVE_SOURCE,
        ];
        for state in graphics {
            assert!(settable(CommandListType::Direct).contains(state));
            assert!(!settable(CommandListType::Compute).intersects(state), "{state}");
        }
        assert!(settable(CommandListType::Compute).contains(S::NON_PIXEL_SHADER_RESOURCE));
        assert_eq!(settable(CommandListType::Copy), S::COPY_SOURCE | S::COPY_DEST);
        let class = TypeClass::of;
        assert_eq!(class(CommandListType::Direct), class(CommandListType::Compute));
        assert_ne!(class(CommandListType::Direct), class(CommandListType::Copy));
    }
}
