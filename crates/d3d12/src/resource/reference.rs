//! References to resources of any kind.

use crate::resource::buffer::Buffer;
use crate::resource::texture::Texture;
use crate::states::facts::ResourceFacts;
use crate::umd::buffer::BufferMemory;
use std::sync::Arc;

/// A resource of either kind, for barriers and copies of whole resources.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// A buffer.
    Buffer(&'a Buffer),
    /// A texture.
    Texture(&'a Texture),
}

impl<'a> From<&'a Buffer> for Resource<'a> {
    fn from(buffer: &'a Buffer) -> Resource<'a> {
        Resource::Buffer(buffer)
    }
}

impl<'a> From<&'a Texture> for Resource<'a> {
    fn from(texture: &'a Texture) -> Resource<'a> {
        Resource::Texture(texture)
    }
}

impl<'a> Resource<'a> {
    /// Returns its name.
    pub fn name(self) -> &'a str {
        &self.facts().name
    }

    pub(crate) fn facts(self) -> &'a Arc<ResourceFacts> {
        match self {
            Resource::Buffer(buffer) => &buffer.facts,
            Resource::Texture(texture) => &texture.facts,
        }
    }

    pub(crate) fn memory(self) -> &'a Arc<BufferMemory> {
        match self {
            Resource::Buffer(buffer) => &buffer.memory,
            Resource::Texture(texture) => &texture.memory,
        }
    }

    /// Returns its name in messages.
    pub(crate) fn what(self) -> String {
        format!("{} '{}'", self.facts().kind.name(), self.name())
    }
}
