//! Converts decimal numbers of a trace to whole numbers, without floats.
//!
//! Times are written in microseconds since 1970, whole or with a fraction. A float holds such a
//! number to a quarter of a microsecond only, and differences drift. The decimal point is moved
//! instead. Entry points: [`us_to_ns`], [`whole`].

use crate::recording::Fault;

/// Nanoseconds of a decimal text in microseconds.
///
/// # Errors
/// [`Fault::NotANumber`], and [`Fault::OutOfRange`] beyond 63 bits.
pub fn us_to_ns(text: &str) -> Result<i64, Fault> {
    i64::try_from(shifted(text, 3)?).map_err(|_| Fault::OutOfRange)
}

/// A whole number; `7.0` and numbers in quotes count. Numbers above 63 bits keep their lower 64
/// bits, because handles and hashes are ids, too.
///
/// # Errors
/// [`Fault::NotANumber`], and [`Fault::OutOfRange`] beyond 64 bits.
pub fn whole(text: &str) -> Result<i64, Fault> {
    let value = shifted(text, 0)?;
    let unsigned = || u64::try_from(value).map(u64::cast_signed);
    i64::try_from(value).or_else(|_| unsigned()).map_err(|_| Fault::OutOfRange)
}

/// Most digits of a result; they fit in 128 bits.
const MOST_DIGITS: i64 = 38;

/// The number times `10^places`, digits behind the point cut off.
fn shifted(text: &str, places: u32) -> Result<i128, Fault> {
    match plain(text.as_bytes(), places) {
        Some(value) => Ok(i128::from(value)),
        None => any_shifted(text, i64::from(places)),
    }
}

/// The same of a number in its usual spelling: digits, perhaps a point and digits. `None` for any
/// other, and for one that 64 bits may not hold.
fn plain(text: &[u8], places: u32) -> Option<u64> {
    const SAFE_DIGITS: usize = 19;
    let digit = |byte: &u8| byte.is_ascii_digit();
    let count = text.iter().take_while(|byte| digit(byte)).count();
    let (before, rest) = text.split_at(count);
    let after = match rest {
        [] => rest,
        [b'.', after @ ..] if after.iter().all(digit) => after,
        _ => return None,
    };
    let places = places as usize;
    if before.is_empty() || before.len() + places > SAFE_DIGITS {
        return None;
    }
    let behind = after.iter().chain(std::iter::repeat(&b'0')).take(places);
    Some(before.iter().chain(behind).fold(0, |value, byte| value * 10 + u64::from(byte - b'0')))
}

fn any_shifted(text: &str, places: i64) -> Result<i128, Fault> {
    let text = text.trim().trim_matches('"');
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], self::exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = before.bytes().chain(after.bytes());
    if before.len() + after.len() == 0 || !digits.all(|digit| digit.is_ascii_digit()) {
        return Err(Fault::NotANumber);
    }
    let zeros = before.bytes().chain(after.bytes()).take_while(|digit| *digit == b'0').count();
    if zeros == before.len() + after.len() {
        return Ok(0);
    }
    let wanted = before.len() as i64 - zeros as i64 + exponent + places;
    if wanted > MOST_DIGITS {
        return Err(Fault::OutOfRange);
    }
    let digits = before.bytes().chain(after.bytes()).skip(zeros).chain(std::iter::repeat(b'0'));
    let value =
        digits.take(usize::try_from(wanted).unwrap_or(0)).try_fold(0i128, |value, digit| {
            value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
        });
    let value = value.ok_or(Fault::OutOfRange)?;
    Ok(if negative { -value } else { value })
}

/// The exponent, bounded: beyond the bounds every number other than 0 is out of range, or 0.
fn exponent(text: &str) -> Result<i64, Fault> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Fault::NotANumber);
    }
    let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    Ok(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_64_bits_is_out_of_range_and_does_not_wrap() {
        // 17 digits of microseconds have 20 of nanoseconds.
        for text in ["99999999999999999", "99999999999999999.5", "18446744073709551616"] {
            assert_eq!(us_to_ns(text), Err(Fault::OutOfRange), "{text}");
        }
    }

    #[test]
    fn microseconds_become_exact_nanoseconds() {
        assert_eq!(us_to_ns("1695835583881571"), Ok(1_695_835_583_881_571_000));
        assert_eq!(us_to_ns("1695835583881571.123"), Ok(1_695_835_583_881_571_123));
        assert_eq!(us_to_ns("1695835583881571.1239"), Ok(1_695_835_583_881_571_123));
        assert_eq!(us_to_ns("0.5"), Ok(500));
        assert_eq!(us_to_ns("\"12.25\""), Ok(12_250));
        assert_eq!(us_to_ns("-3"), Ok(-3_000));
        assert_eq!(us_to_ns("1.695e3"), Ok(1_695_000));
        assert_eq!(us_to_ns("1.695e+3"), Ok(1_695_000));
        assert_eq!(us_to_ns("25e-1"), Ok(2_500));
        assert_eq!(us_to_ns("5e-4"), Ok(0));
        assert_eq!(us_to_ns("0.00000000000000000000000000000000000000000000000000001e50"), Ok(1));
        assert_eq!(us_to_ns("0e999999999999999999999"), Ok(0));
        assert_eq!(us_to_ns("1e-999999999999999999999"), Ok(0));
    }

    #[test]
    fn what_is_no_number_is_told_from_what_is_too_large() {
        for text in
            ["", "null", "1.2.3", "nan", "inf", "-", ".", "12a", "[1]", "1e", "--1", "1e1.5"]
        {
            assert_eq!(us_to_ns(text), Err(Fault::NotANumber), "{text}");
        }
        for text in ["1e999", "1e30", "-1e30", "9223372036854775.808", "1e999999999999999999999"] {
            assert_eq!(us_to_ns(text), Err(Fault::OutOfRange), "{text}");
        }
        assert_eq!(us_to_ns("9223372036854775.807"), Ok(i64::MAX));
        assert_eq!(us_to_ns(&"9".repeat(80)), Err(Fault::OutOfRange));
        assert_eq!(us_to_ns(&"9".repeat(36)), Err(Fault::OutOfRange));
    }

    #[test]
    fn whole_numbers_come_in_three_spellings() {
        assert_eq!(whole("7"), Ok(7));
        assert_eq!(whole("\"-1\""), Ok(-1));
        assert_eq!(whole("4294967295.0"), Ok(4_294_967_295));
        assert_eq!(whole("18446744073709551615"), Ok(-1));
        assert_eq!(whole("18446744073709551616"), Err(Fault::OutOfRange));
        assert_eq!(whole("true"), Err(Fault::NotANumber));
    }
}
