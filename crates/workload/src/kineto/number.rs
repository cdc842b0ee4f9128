//! Decimal numbers of a trace → whole nanoseconds, without floats.
//!
//! Times are written in microseconds since 1970, whole or with a fraction. As a float such a number is good to a
//! quarter of a microsecond only, and differences of them drift; so the digits are moved by three places instead.

/// Nanoseconds of a decimal text in microseconds; `None` for what is no finite number.
pub fn us_to_ns(text: &str) -> Option<i128> {
    shifted(text, 3)
}

/// A whole number, also when it is written as `7.0` or in quotes.
pub fn whole(text: &str) -> Option<i64> {
    i64::try_from(shifted(text, 0)?).ok()
}

/// The number times `10^places`, what remains behind the point cut off.
fn shifted(text: &str, places: i32) -> Option<i128> {
    let text = text.trim().trim_matches('"');
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if before.is_empty() && after.is_empty() {
        return None;
    }
    let keep = exponent.checked_add(places)?;
    // Nothing in a trace is this large or this exact; it also bounds the work below.
    if !(-40..=30).contains(&keep) || before.len() + after.len() > 60 {
        return None;
    }
    let mut value: i128 = 0;
    let digits = before.bytes().chain(after.bytes());
    let wanted = i64::try_from(before.len()).ok()? + i64::from(keep);
    for (k, digit) in digits.chain(std::iter::repeat(b'0')).enumerate() {
        let k = i64::try_from(k).ok()?;
        let all_seen = k >= i64::try_from(before.len() + after.len()).ok()?;
        if k >= wanted && all_seen {
            break;
        }
        if !digit.is_ascii_digit() {
            return None;
        }
        if k < wanted {
            value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_become_exact_nanoseconds() {
        assert_eq!(us_to_ns("1695835583881571"), Some(1_695_835_583_881_571_000));
        assert_eq!(us_to_ns("1695835583881571.123"), Some(1_695_835_583_881_571_123));
        assert_eq!(us_to_ns("1695835583881571.1239"), Some(1_695_835_583_881_571_123));
        assert_eq!(us_to_ns("0.5"), Some(500));
        assert_eq!(us_to_ns("\"12.25\""), Some(12_250));
        assert_eq!(us_to_ns("-3"), Some(-3_000));
        assert_eq!(us_to_ns("1.695e3"), Some(1_695_000));
        assert_eq!(us_to_ns("25e-1"), Some(2_500));
        assert_eq!(us_to_ns("5e-4"), Some(0));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "null", "1.2.3", "nan", "1e999", "-", ".", "12a", "[1]", "1e"] {
            assert_eq!(us_to_ns(text), None, "{text}");
        }
        assert_eq!(us_to_ns(&"9".repeat(80)), None);
    }

    #[test]
    fn whole_numbers_come_in_three_spellings() {
        assert_eq!(whole("7"), Some(7));
        assert_eq!(whole("\"-1\""), Some(-1));
        assert_eq!(whole("4294967295.0"), Some(4_294_967_295));
        assert_eq!(whole("true"), None);
    }
}
