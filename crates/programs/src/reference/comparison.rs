//! Comparison of the bytes that a program wrote with the expected bytes.

/// How found bytes are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compare {
    /// Byte by byte.
    Exact,
    /// As `f32` numbers.
    Float {
        /// Allowed difference of any number.
        absolute: f64,
        /// Allowed difference as a share of the expected number.
        relative: f64,
        /// Numbers that may differ by more.
        outliers: usize,
    },
    /// As bytes of a picture.
    Colour {
        /// Allowed difference of a byte.
        step: u8,
        /// Bytes that may differ by more.
        outliers: usize,
    },
}

/// What one buffer should hold after a dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The place of the buffer among the arguments.
    pub argument: usize,
    /// Its bytes, from the address in the argument on.
    pub bytes: Vec<u8>,
    /// How close the found bytes must come.
    pub compare: Compare,
}

/// A buffer does not hold what it should.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "argument {argument}: {wrong} elements differ by more than is allowed, at most {allowed} may; \
     element {element} is {found}, expected {expected}"
)]
pub struct Mismatch {
    /// The place of the buffer among the arguments.
    pub argument: usize,
    /// Elements (bytes or numbers) out of tolerance.
    pub wrong: usize,
    /// Elements that may be out of tolerance.
    pub allowed: usize,
    /// The first element out of tolerance.
    pub element: usize,
    /// What it is.
    pub found: f64,
    /// What it should be.
    pub expected: f64,
}

impl Expected {
    pub(super) fn new(argument: usize, bytes: Vec<u8>, compare: Compare) -> Self {
        Self { argument, bytes, compare }
    }

    /// Compares the bytes that were found from the address in the argument on; more than are
    /// expected are ignored.
    ///
    /// # Errors
    /// [`Mismatch`] with the first element out of tolerance. Bytes that are missing count as wrong.
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
