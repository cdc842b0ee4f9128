//! The formats of textures, and the bytes of their texels.

use std::fmt;

/// The format of texels (DXGI_FORMAT, with its number).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Format {
    /// Four 32-bit floats.
    R32G32B32A32Float = 2,
    /// Four 16-bit floats.
    R16G16B16A16Float = 10,
    /// Two 32-bit floats.
    R32G32Float = 16,
    /// Red, green, blue and alpha of 8 bits each, from 0 to 1.
    R8G8B8A8Unorm = 28,
    /// One 32-bit float.
    R32Float = 41,
    /// One 32-bit number.
    R32Uint = 42,
    /// One number of 8 bits, from 0 to 1.
    R8Unorm = 61,
    /// Blue, green, red and alpha of 8 bits each, from 0 to 1.
    B8G8R8A8Unorm = 87,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::R32G32B32A32Float,
        Format::R16G16B16A16Float,
        Format::R32G32Float,
        Format::R8G8B8A8Unorm,
        Format::R32Float,
        Format::R32Uint,
        Format::R8Unorm,
        Format::B8G8R8A8Unorm,
    ];

    /// Returns the format with this number of DXGI_FORMAT, if there is one.
    pub fn from_number(number: u32) -> Option<Format> {
        Format::ALL.into_iter().find(|format| *format as u32 == number)
    }

    /// Returns the length of a texel in bytes.
    pub fn texel_bytes(self) -> u32 {
        match self {
            Format::R32G32B32A32Float => 16,
            Format::R16G16B16A16Float | Format::R32G32Float => 8,
            Format::R8G8B8A8Unorm | Format::R32Float | Format::R32Uint | Format::B8G8R8A8Unorm => 4,
            Format::R8Unorm => 1,
        }
    }

    /// Returns four bytes of texels of a colour; `None` for longer texels.
    pub(crate) fn word_of(self, [red, green, blue, alpha]: [f32; 4]) -> Option<u32> {
        let byte = |part: f32| (part.clamp(0.0, 1.0) * 255.0).round() as u8;
        Some(match self {
            Format::R8G8B8A8Unorm => u32::from_le_bytes([red, green, blue, alpha].map(byte)),
            Format::B8G8R8A8Unorm => u32::from_le_bytes([blue, green, red, alpha].map(byte)),
            Format::R8Unorm => u32::from_le_bytes([byte(red); 4]),
            Format::R32Float => red.to_bits(),
            Format::R32Uint => red as u32,
            Format::R32G32B32A32Float | Format::R16G16B16A16Float | Format::R32G32Float => {
                return None;
            }
        })
    }

    /// Returns whether texels can be copied between the formats, because their components have the
    /// same sizes.
    pub fn copies_to(self, other: Format) -> bool {
        let r32 = |format| matches!(format, Format::R32Float | Format::R32Uint);
        self == other || (r32(self) && r32(other))
    }

    /// Returns its published name without the prefix.
    pub fn name(self) -> &'static str {
        match self {
            Format::R32G32B32A32Float => "R32G32B32A32_FLOAT",
            Format::R16G16B16A16Float => "R16G16B16A16_FLOAT",
            Format::R32G32Float => "R32G32_FLOAT",
            Format::R8G8B8A8Unorm => "R8G8B8A8_UNORM",
            Format::R32Float => "R32_FLOAT",
            Format::R32Uint => "R32_UINT",
            Format::R8Unorm => "R8_UNORM",
            Format::B8G8R8A8Unorm => "B8G8R8A8_UNORM",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of DXGI_FORMAT, the names, the lengths, and the bytes of one colour.
    #[test]
    fn each_format_has_its_published_number_name_and_length_and_its_bytes_of_a_colour() {
        let colour = [1.0, 0.2, 0.0, 2.0];
        let table = [
            (2, "R32G32B32A32_FLOAT", 16, None),
            (10, "R16G16B16A16_FLOAT", 8, None),
            (16, "R32G32_FLOAT", 8, None),
            (28, "R8G8B8A8_UNORM", 4, Some([255, 51, 0, 255])),
            (41, "R32_FLOAT", 4, Some(1.0f32.to_le_bytes())),
            (42, "R32_UINT", 4, Some(1u32.to_le_bytes())),
            (61, "R8_UNORM", 1, Some([255; 4])),
            (87, "B8G8R8A8_UNORM", 4, Some([0, 51, 255, 255])),
        ];
        let found = Format::ALL.map(|format| {
            assert_eq!(Format::from_number(format as u32), Some(format));
            let bytes = format.word_of(colour).map(u32::to_le_bytes);
            (format as u32, format.name(), format.texel_bytes(), bytes)
        });
        assert_eq!(found, table);
        assert_eq!([0, 1, 88].map(Format::from_number), [None; 3]);
        assert!(Format::R32Float.copies_to(Format::R32Uint));
        assert!(!Format::R8G8B8A8Unorm.copies_to(Format::B8G8R8A8Unorm));
    }
}
