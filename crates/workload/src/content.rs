//! First contents of buffers as bytes.
//!
//! An [`Init`] becomes little-endian words, the same in every run and on every machine. The runner
//! fills buffers with them and compares results with them. A [`SceneLibrary`] makes the parts of
//! ready-made scenes ([`Init::Content`]).

use crate::model::{Buffer, Content, Init};

/// Makes the parts of ready-made scenes.
pub trait SceneLibrary {
    /// The bytes of a part, or `None` when there is no such part.
    fn part(&self, content: &Content) -> Option<Vec<u8>>;
}

/// Errors of making the first content of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// An unknown part.
    #[error("there is no content '{name}'; correct the name")]
    Unknown {
        /// As written.
        name: String,
    },
    /// Content longer than the buffer.
    #[error("its content has {content} bytes and the buffer {buffer}; set bytes = {content}")]
    TooLong {
        /// Bytes of the content.
        content: u64,
        /// Bytes of the buffer.
        buffer: u64,
    },
}

/// The bytes that a buffer holds at the start; `None` for zeros, which need no writing.
///
/// # Errors
/// Contents that the library does not know, and contents that are longer than the buffer.
pub fn initial_bytes(
    buffer: &Buffer,
    library: &dyn SceneLibrary,
) -> Result<Option<Vec<u8>>, ContentError> {
    // A buffer's length was checked when it was declared; it fits in memory or the allocation says
    // so.
    let words = usize::try_from(buffer.bytes / 4).unwrap_or(usize::MAX);
    let mut content: Vec<u8> = match &buffer.init {
        Init::Zero => return Ok(None),
        Init::Pattern(word) => std::iter::repeat_n(word.to_le_bytes(), words).flatten().collect(),
        Init::SequenceU32 { start, step } => {
            each(words, |k| start.wrapping_add(step.wrapping_mul(k)).to_le_bytes())
        }
        Init::SequenceF32 { start, step } => {
            each(words, |k| (start + step * k as f32).to_le_bytes())
        }
        Init::RandomF32 { seed, low, high } => {
            each(words, |k| (low + (high - low) * unit(scramble(seed ^ scramble(k)))).to_le_bytes())
        }
        Init::ValuesU32(values) => values.iter().flat_map(|word| word.to_le_bytes()).collect(),
        Init::ValuesF32(values) => values.iter().flat_map(|float| float.to_le_bytes()).collect(),
        Init::Content(content) => library
            .part(content)
            .ok_or_else(|| ContentError::Unknown { name: content.name.clone() })?,
    };
    if content.len() as u64 > buffer.bytes {
        return Err(ContentError::TooLong { content: content.len() as u64, buffer: buffer.bytes });
    }
    content.resize(words * 4, 0);
    Ok(Some(content))
}

fn each(words: usize, word: impl Fn(u32) -> [u8; 4]) -> Vec<u8> {
    (0..words).flat_map(|k| word(u32::try_from(k).unwrap_or(u32::MAX))).collect()
}

/// A 32-bit mix in which every input bit reaches every output bit; the same on every machine.
fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Uniform over `0.0..1.0`; 24 bits, so that every value is exact.
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Span;

    struct Fixed;
    impl SceneLibrary for Fixed {
        fn part(&self, content: &Content) -> Option<Vec<u8>> {
            match content.name.as_str() {
                "short" => Some(vec![7; 4]),
                "long" => Some(vec![7; 12]),
                _ => None,
            }
        }
    }

    fn bytes(bytes: u64, init: Init) -> Vec<u8> {
        let buffer = Buffer { name: "b".into(), bytes, init, span: Span::default() };
        initial_bytes(&buffer, &Fixed).unwrap().unwrap()
    }

    #[test]
    fn sequences_fill_the_buffer() {
        assert_eq!(
            bytes(12, Init::SequenceU32 { start: 5, step: 2 }),
            [5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0]
        );
        assert_eq!(
            bytes(8, Init::SequenceF32 { start: 1.0, step: 0.5 })[4..],
            1.5f32.to_le_bytes()
        );
        assert_eq!(bytes(8, Init::Pattern(0x0102_0304)), [4, 3, 2, 1, 4, 3, 2, 1]);
    }

    #[test]
    fn short_values_are_followed_by_zeros() {
        assert_eq!(bytes(8, Init::ValuesU32(vec![1])), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn random_floats_stay_in_range_and_repeat() {
        let init = Init::RandomF32 { seed: 3, low: -1.0, high: 1.0 };
        let content = bytes(4000, init.clone());
        assert_eq!(content, bytes(4000, init));
        let floats: Vec<f32> =
            content.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(floats.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = floats.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }

    #[test]
    fn scenes_come_from_the_library_and_must_fit() {
        let content =
            |name: &str| Init::Content(Content { name: name.into(), width: 8, height: 8 });
        let buffer = |init| Buffer { name: "b".into(), bytes: 8, init, span: Span::default() };
        assert_eq!(
            initial_bytes(&buffer(content("short")), &Fixed),
            Ok(Some(vec![7, 7, 7, 7, 0, 0, 0, 0]))
        );
        assert!(matches!(
            initial_bytes(&buffer(content("long")), &Fixed),
            Err(ContentError::TooLong { content: 12, buffer: 8 })
        ));
        assert!(matches!(
            initial_bytes(&buffer(content("none")), &Fixed),
            Err(ContentError::Unknown { .. })
        ));
    }
}
