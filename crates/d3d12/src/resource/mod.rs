//! Resources: memory that lists name.
//!
//! Rooms: [`buffer`] and [`texture`] · [`mod@reference`] (any of them, as barriers take it) ·
//! [`heap`] (placed resources) · [`tiles`] (reserved buffers) · [`footprint`] (how texels lie in
//! memory) · [`mod@format`].

pub mod buffer;
pub mod footprint;
pub mod format;
pub mod heap;
pub mod reference;
pub mod texture;
pub mod tiles;

pub use buffer::Buffer;
pub use footprint::{CopyableFootprints, SubresourceFootprint};
pub use format::Format;
pub use heap::{HeapDesc, ResourceHeap};
pub use reference::Resource;
pub use texture::{Texture, TextureDesc, TextureDimension};
pub use tiles::{TILE_BYTES, TileMapping};
