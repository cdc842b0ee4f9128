//! Comparison of the bytes that a program wrote with the expected bytes.

/// The tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compare {
    /// Byte by byte, without tolerance.
    Exact,
    /// As `f32` numbers.
    Float {
        /// Permitted absolute difference.
        absolute: f64,
        /// Permitted relative difference.
        relative: f64,
        /// Number of values that may differ by more.
        outliers: usize,
    },
    /// As bytes of an image.
    Colour {
        /// Permitted difference of a byte.
        step: u8,
        /// Number of bytes that may differ by more.
        outliers: usize,
    },
}

/// The expected content of one buffer after a dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Index of the buffer's argument.
    pub argument: usize,
    /// Its bytes, from the address in the argument.
    pub bytes: Vec<u8>,
    /// The tolerance.
    pub compare: Compare,
}

/// A buffer that differs from its expected content.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "argument {argument}: {wrong} elements are out of tolerance, at most {allowed} may be; \
     element {element} is {found}, expected {expected}"
)]
pub struct Mismatch {
    /// Index of the buffer's argument.
    pub argument: usize,
    /// Number of elements (bytes or numbers) out of tolerance.
    pub wrong: usize,
    /// Permitted number of elements out of tolerance.
    pub allowed: usize,
    /// Index of the first element out of tolerance.
    pub element: usize,
    /// Its value.
    pub found: f64,
    /// Its expected value.
    pub expected: f64,
}

impl Expected {
    pub(super) fn new(argument: usize, bytes: Vec<u8>, compare: Compare) -> Self {
        Self { argument, bytes, compare }
    }

    /// Compares with the bytes found at the address in the argument. Excess bytes are ignored.
    ///
    /// # Errors
    /// [`Mismatch`] with the first element out of tolerance. Missing bytes count as wrong.
    pub fn check(&self, found: &[u8]) -> Result<(), Mismatch> {
        match self.compare {
            Compare::Exact => self.check_bytes(found, 0, 0),
            Compare::Colour { step, outliers } => self.check_bytes(found, step, outliers),
            Compare::Float { absolute, relative, outliers } => {
                let (expected, found) = (floats(&self.bytes), floats(found));
                let wrong = |index: usize| {
                    let (want, got) = (
                        f64::from(expected[index]),
                        found.get(index).map_or(f64::NAN, |got| f64::from(*got)),
                    );
                    let same =
                        want == got || (want.is_nan() && got.is_nan() && index < found.len());
                    let close = (want - got).abs() <= absolute + relative * want.abs();
                    (!same && !close).then_some((got, want))
                };
                self.judge(expected.len(), outliers, wrong)
            }
        }
    }

    fn check_bytes(&self, found: &[u8], step: u8, outliers: usize) -> Result<(), Mismatch> {
        self.judge(self.bytes.len(), outliers, |index| match found.get(index) {
            None => Some((f64::NAN, f64::from(self.bytes[index]))),
            Some(got) => {
                let want = self.bytes[index];
                (want.abs_diff(*got) > step).then_some((f64::from(*got), f64::from(want)))
            }
        })
    }

    fn judge(
        &self,
        count: usize,
        allowed: usize,
        wrong: impl Fn(usize) -> Option<(f64, f64)>,
    ) -> Result<(), Mismatch> {
        let mut first = None;
        let mut number = 0;
        for element in 0..count {
            if let Some((found, expected)) = wrong(element) {
                number += 1;
                first.get_or_insert((element, found, expected));
            }
        }
        match first {
            Some((element, found, expected)) if number > allowed => Err(Mismatch {
                argument: self.argument,
                wrong: number,
                allowed,
                element,
                found,
                expected,
            }),
            _ => Ok(()),
        }
    }
}

pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(super) fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn word_bytes(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_elements_may_be_out_of_tolerance_as_there_are_outliers() {
        let wrong = |compare, bytes: &[u8], found: &[u8]| {
            let compared = Expected::new(3, bytes.to_vec(), compare).check(found);
            compared.err().map(|found| (found.wrong, found.allowed, found.element))
        };
        let bytes = [10, 20, 30, 40];
        let exact = |found: &[u8]| wrong(Compare::Exact, &bytes, found);
        assert_eq!(exact(&[10, 20, 30, 40, 99]), None, "excess bytes are ignored");
        assert_eq!(exact(&[10, 21, 30, 40]), Some((1, 0, 1)));
        assert_eq!(exact(&[10, 20, 30]), Some((1, 0, 3)));
        let colour = |found: &[u8]| wrong(Compare::Colour { step: 2, outliers: 1 }, &bytes, found);
        assert_eq!(colour(&[12, 18, 33, 40]), None);
        assert_eq!(colour(&[12, 17, 33, 40]), Some((2, 1, 1)));
        let float = |found: [f32; 3]| {
            let compare = Compare::Float { absolute: 0.5, relative: 0.25, outliers: 1 };
            wrong(compare, &float_bytes(&[0.0, 8.0, f32::NAN]), &float_bytes(&found))
        };
        assert_eq!(float([0.5, 10.5, f32::NAN]), None);
        assert_eq!(float([0.75, 10.5, f32::NAN]), None);
        assert_eq!(float([0.75, 10.75, f32::NAN]), Some((2, 1, 0)));
        assert_eq!(float([0.5, 10.75, 1.0]), Some((2, 1, 1)));
    }
}
