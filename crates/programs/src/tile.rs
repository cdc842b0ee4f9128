//! The division of an image into groups: tiles of 32 by 32 pixels with one thread per pixel. Also
//! the maximum image size, and access to the rows of a tile.

use super::lanes::{read_f32, read_u32, write_f32, write_u32};
use super::{ProgramFault, ProgramMemory};
use std::ops::Range;

/// Side of a tile in pixels.
pub(super) const TILE: usize = 32;

/// Threads of a group that processes one tile.
pub(super) const TILE_THREADS: [u32; 3] = [TILE as u32, TILE as u32, 1];

/// Maximum side of an image in pixels, as in Direct3D 12.
pub(super) const MAX_SIDE: u32 = 16_384;

pub(super) fn check_image(width: u32, height: u32) -> Result<(), ProgramFault> {
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(ProgramFault::bad("an image is wider or higher than 16,384 pixels"));
    }
    Ok(())
}

/// Returns the size of an image in bytes; `bytes` is the size of a pixel. A size that no address
/// space holds is the largest number.
pub(super) fn image_len(width: u32, height: u32, bytes: u64) -> u64 {
    (u64::from(width) * u64::from(height)).saturating_mul(bytes)
}

pub(super) fn tile_grid(width: u32, height: u32) -> [u32; 3] {
    [width.div_ceil(TILE as u32), height.div_ceil(TILE as u32), 1]
}

/// A rectangle of pixels within an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) x0: usize,
    pub(super) y0: usize,
    pub(super) x1: usize,
    pub(super) y1: usize,
    image_width: usize,
    image_height: usize,
}

impl Tile {
    /// Returns the tile of `group`, which must be inside of the image's grid.
    pub(super) fn of(group: [u32; 3], width: u32, height: u32) -> Self {
        let (image_width, image_height) = (width as usize, height as usize);
        let x0 = (group[0] as usize * TILE).min(image_width);
        let y0 = (group[1] as usize * TILE).min(image_height);
        let (x1, y1) = ((x0 + TILE).min(image_width), (y0 + TILE).min(image_height));
        Self { x0, y0, x1, y1, image_width, image_height }
    }

    /// Returns a rectangle clipped to the image.
    pub(super) fn rectangle(&self, x0: i64, y0: i64, x1: i64, y1: i64) -> Self {
        let clamp = |at: i64, end: usize| at.clamp(0, end as i64) as usize;
        Self {
            x0: clamp(x0, self.image_width),
            y0: clamp(y0, self.image_height),
            x1: clamp(x1, self.image_width),
            y1: clamp(y1, self.image_height),
            ..*self
        }
    }

    /// Returns the tile extended by `margin` pixels on each side and clipped to the image.
    pub(super) fn grown(&self, margin: usize) -> Self {
        let margin = margin as i64;
        self.rectangle(
            self.x0 as i64 - margin,
            self.y0 as i64 - margin,
            self.x1 as i64 + margin,
            self.y1 as i64 + margin,
        )
    }

    pub(super) fn width(&self) -> usize {
        self.x1.saturating_sub(self.x0)
    }

    pub(super) fn height(&self) -> usize {
        self.y1.saturating_sub(self.y0)
    }

    pub(super) fn pixels(&self) -> usize {
        self.width() * self.height()
    }

    /// Returns the index of pixel `(x, y)` of the image among the pixels of the tile, row by row.
    pub(super) fn index(&self, x: usize, y: usize) -> usize {
        (y - self.y0) * self.width() + (x - self.x0)
    }

    /// Returns the pixels `range` of the tile, row by row, as rectangles one row high.
    pub(super) fn rows(&self, range: Range<usize>) -> impl Iterator<Item = Tile> + use<> {
        let (tile, width) = (*self, self.width().max(1));
        let rows = range.start / width..range.end.div_ceil(width);
        rows.filter_map(move |row| {
            let first = range.start.max(row * width) - row * width;
            let end = range.end.min((row + 1) * width) - row * width;
            let y0 = tile.y0 + row;
            (first < end).then_some(Tile {
                x0: tile.x0 + first,
                x1: tile.x0 + end,
                y0,
                y1: y0 + 1,
                ..tile
            })
        })
    }

    /// Stores pixels of one 32-bit word, starting with number `first`.
    pub(super) fn store_u32_from(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
        first: usize,
        pixels: &[u32],
    ) -> Result<(), ProgramFault> {
        let mut rest = pixels;
        for row in self.rows(first..first + pixels.len()) {
            let (part, others) = rest.split_at(row.width());
            row.store_u32(mem, image, part)?;
            rest = others;
        }
        Ok(())
    }

    /// Stores pixels of `words` 32-bit words, starting with number `first`.
    pub(super) fn store_f32_from(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
        words: usize,
        first: usize,
        pixels: &[f32],
    ) -> Result<(), ProgramFault> {
        let mut rest = pixels;
        for row in self.rows(first..first + pixels.len() / words) {
            let (part, others) = rest.split_at(row.width() * words);
            row.store_f32(mem, image, words, part)?;
            rest = others;
        }
        Ok(())
    }

    fn row_va(&self, image: u64, y: usize, words: usize) -> u64 {
        image + ((y * self.image_width + self.x0) * words * 4) as u64
    }

    /// Loads pixels of `words` 32-bit words from the image at address `image`.
    pub(super) fn load_f32(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
        words: usize,
    ) -> Result<Vec<f32>, ProgramFault> {
        let mut out = vec![0.0; self.pixels() * words];
        let row = self.width() * words;
        for (y, part) in (self.y0..).zip(out.chunks_mut(row.max(1))) {
            read_f32(mem, self.row_va(image, y, words), part)?;
        }
        Ok(out)
    }

    /// Loads pixels of one 32-bit word.
    pub(super) fn load_u32(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
    ) -> Result<Vec<u32>, ProgramFault> {
        let mut out = vec![0; self.pixels()];
        for (y, part) in (self.y0..).zip(out.chunks_mut(self.width().max(1))) {
            read_u32(mem, self.row_va(image, y, 1), part)?;
        }
        Ok(out)
    }

    /// Stores pixels of `words` 32-bit words.
    pub(super) fn store_f32(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
        words: usize,
        pixels: &[f32],
    ) -> Result<(), ProgramFault> {
        let row = self.width() * words;
        for (y, part) in (self.y0..self.y1).zip(pixels.chunks(row.max(1))) {
            write_f32(mem, self.row_va(image, y, words), part)?;
        }
        Ok(())
    }

    /// Stores pixels of one 32-bit word.
    pub(super) fn store_u32(
        &self,
        mem: &mut dyn ProgramMemory,
        image: u64,
        pixels: &[u32],
    ) -> Result<(), ProgramFault> {
        for (y, part) in (self.y0..self.y1).zip(pixels.chunks(self.width().max(1))) {
            write_u32(mem, self.row_va(image, y, 1), part)?;
        }
        Ok(())
    }
}
