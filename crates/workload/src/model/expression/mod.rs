//! Whole-number expressions: `i - length`, `(frame - 1) % slots`, `max(1, completed(compute))`,
//! `i > length`.
//!
//! - A text is parsed once, when the file is read. Names are resolved then ([`Names`]); at run time
//!   only slots and ids are left.
//! - Numbers have 128 bits, so every `u64` fence value can be written and `i - length` may be below
//!   zero. A result that does not fit its use is an error, never a wrap.
//! - Entry points: [`parse`] for readers, [`Expr::evaluate`] for the runner.

mod parser;

pub use parser::{Names, ParseError, ReferenceParts, is_name_character, parse, split_reference};

use super::ids::{BufferId, FenceId, GroupMember, QueueId};

/// A variable of a thread: an index into its table of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Rounds towards minus infinity.
    Divide,
    /// Never negative for a positive divisor.
    Remainder,
    Min,
    Max,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

/// A parsed expression. Comparisons give 1 or 0; a condition holds when it is not 0.
///
/// An imported trace has millions of numbers, so a number takes 16 bytes and no memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number, or a constant of the file. [`Expr::number`] makes it.
    Number(i64),
    /// A number of more than 64 bits.
    Large(Box<i128>),
    /// An index or a variable of the thread.
    Variable(Slot),
    /// The fence's value as the CPU sees it now (GetCompletedValue).
    Completed(Box<FenceRef>),
    /// `-x`.
    Negate(Box<Expr>),
    /// `!x`.
    Not(Box<Expr>),
    /// `x op y`.
    Binary(Operator, Box<(Expr, Expr)>),
}

/// The source of values for an evaluation: a running thread, or constants only.
pub trait Scope {
    /// The value of a variable.
    ///
    /// # Errors
    /// When no thread runs yet.
    fn variable(&self, slot: Slot) -> Result<i128, ArithmeticError>;
    /// The fence's current value as the CPU sees it.
    ///
    /// # Errors
    /// When no machine runs yet.
    fn completed(&self, fence: FenceId) -> Result<u64, ArithmeticError>;
}

/// The scope in which only constants have a value.
#[derive(Debug, Clone, Copy)]
pub struct Constants;

impl Scope for Constants {
    fn variable(&self, _: Slot) -> Result<i128, ArithmeticError> {
        Err(ArithmeticError::NotConstant)
    }
    fn completed(&self, _: FenceId) -> Result<u64, ArithmeticError> {
        Err(ArithmeticError::NotConstant)
    }
}

/// Errors of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArithmeticError {
    /// `x / 0` or `x % 0`.
    #[error("division by zero; guard it with a condition")]
    DivisionByZero,
    /// More than 127 bits.
    #[error("the result does not fit in 128 bits; use smaller numbers")]
    Overflow,
    /// Below zero where a fence value, length or offset is needed.
    #[error("the value {0} is below zero; guard it (when = \"i > length\") or use max(0, …)")]
    Negative(i128),
    /// Above the largest value of its type.
    #[error("the value {value} is larger than {limit}, the largest that is possible here")]
    TooLarge {
        /// The result.
        value: i128,
        /// The largest that fits.
        limit: u64,
    },
    /// `name[index]` outside its group.
    #[error("index {index} is outside the group of {count} (0 to {})", count - 1)]
    OutsideGroup {
        /// The index as computed.
        index: i128,
        /// Size of the group.
        count: u32,
    },
    /// A variable or a fence in a place where only constants have a value.
    #[error("this depends on the run; only constants can be used here")]
    NotConstant,
}

impl Expr {
    /// A number as an expression.
    pub fn number(value: impl Into<i128>) -> Self {
        let value = value.into();
        i64::try_from(value).map_or_else(|_| Self::Large(Box::new(value)), Self::Number)
    }

    /// The value.
    ///
    /// # Errors
    /// Division by zero, a result beyond 128 bits, or a name without a value in this scope.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<i128, ArithmeticError> {
        match self {
            Self::Number(value) => Ok(i128::from(*value)),
            Self::Large(value) => Ok(**value),
            Self::Variable(slot) => scope.variable(*slot),
            Self::Completed(fence) => Ok(i128::from(scope.completed(fence.resolve(scope)?)?)),
            Self::Negate(inner) => {
                inner.evaluate(scope)?.checked_neg().ok_or(ArithmeticError::Overflow)
            }
            Self::Not(inner) => Ok(i128::from(inner.evaluate(scope)? == 0)),
            Self::Binary(operator, sides) => {
                let left = sides.0.evaluate(scope)?;
                match operator {
                    // The right side is not evaluated when the left one decides: `i > 0 && 10 / i >
                    // 2`.
                    Operator::And if left == 0 => Ok(0),
                    Operator::Or if left != 0 => Ok(1),
                    _ => operator.apply(left, sides.1.evaluate(scope)?),
                }
            }
        }
    }

    /// The value as `u64`, for fence values, lengths, offsets and durations in nanoseconds.
    ///
    /// # Errors
    /// As [`Expr::evaluate`], and values outside `u64`.
    pub fn evaluate_u64(&self, scope: &dyn Scope) -> Result<u64, ArithmeticError> {
        narrow(self.evaluate(scope)?, u64::MAX)
    }

    /// The value as `u32`, for words of memory.
    ///
    /// # Errors
    /// As [`Expr::evaluate`], and values outside `u32`.
    pub fn evaluate_u32(&self, scope: &dyn Scope) -> Result<u32, ArithmeticError> {
        let value = narrow(self.evaluate(scope)?, u64::from(u32::MAX))?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Whether a condition holds.
    ///
    /// # Errors
    /// As [`Expr::evaluate`].
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool, ArithmeticError> {
        Ok(self.evaluate(scope)? != 0)
    }

    /// The value, if it is the same in every run.
    pub fn constant(&self) -> Option<i128> {
        self.evaluate(&Constants).ok()
    }
}

/// Checks that a value is in `0..=limit`.
fn narrow(value: i128, limit: u64) -> Result<u64, ArithmeticError> {
    if value < 0 {
        return Err(ArithmeticError::Negative(value));
    }
    match u64::try_from(value) {
        Ok(fits) if fits <= limit => Ok(fits),
        _ => Err(ArithmeticError::TooLarge { value, limit }),
    }
}

impl Operator {
    fn apply(self, left: i128, right: i128) -> Result<i128, ArithmeticError> {
        let truth = |holds: bool| Ok(i128::from(holds));
        let whole = |value: Option<i128>| value.ok_or(ArithmeticError::Overflow);
        match self {
            Self::Add => whole(left.checked_add(right)),
            Self::Subtract => whole(left.checked_sub(right)),
            Self::Multiply => whole(left.checked_mul(right)),
            Self::Divide | Self::Remainder if right == 0 => Err(ArithmeticError::DivisionByZero),
            Self::Divide => whole(left.checked_div_euclid(right)),
            Self::Remainder => whole(left.checked_rem_euclid(right)),
            Self::Min => Ok(left.min(right)),
            Self::Max => Ok(left.max(right)),
            Self::Equal => truth(left == right),
            Self::NotEqual => truth(left != right),
            Self::Less => truth(left < right),
            Self::LessOrEqual => truth(left <= right),
            Self::Greater => truth(left > right),
            Self::GreaterOrEqual => truth(left >= right),
            Self::And => truth(left != 0 && right != 0),
            Self::Or => truth(left != 0 || right != 0),
        }
    }
}

/// A reference as written: one object, or one of a group (`count = 300`) chosen when the operation
/// runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Ref<I> {
    /// The object, or the first of its group.
    pub first: I,
    /// Size of the group; 1 for a single object.
    pub count: u32,
    /// Index in the group; `None` for the first.
    pub index: Option<Box<Expr>>,
}

/// A reference to a buffer.
pub type BufferRef = Ref<BufferId>;
/// A reference to a queue.
pub type QueueRef = Ref<QueueId>;
/// A reference to a fence.
pub type FenceRef = Ref<FenceId>;

impl<I: GroupMember> Ref<I> {
    /// A reference to exactly this object.
    pub fn to(id: I) -> Self {
        Self { first: id, count: 1, index: None }
    }

    /// Returns the object.
    ///
    /// # Errors
    /// An index outside the group, or one that cannot be evaluated.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<I, ArithmeticError> {
        let Some(index) = &self.index else { return Ok(self.first) };
        let index = index.evaluate(scope)?;
        match u32::try_from(index) {
            Ok(k) if k < self.count => Ok(self.first.offset(k)),
            _ => Err(ArithmeticError::OutsideGroup { index, count: self.count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letters;
    impl Names for Letters {
        fn value(&self, name: &str) -> Result<Expr, String> {
            match name {
                "length" => Ok(Expr::number(3)),
                "i" => Ok(Expr::Variable(Slot(0))),
                _ => Err(format!("unknown name '{name}'")),
            }
        }
        fn fence(&self, name: &str, index: Option<Expr>) -> Result<FenceRef, String> {
            let count = if index.is_some() { 4 } else { 1 };
            match name {
                "copy-fence" => {
                    Ok(FenceRef { first: FenceId(7), count, index: index.map(Box::new) })
                }
                _ => Err(format!("unknown fence '{name}'")),
            }
        }
    }

    struct Thread(i128);
    impl Scope for Thread {
        fn variable(&self, _: Slot) -> Result<i128, ArithmeticError> {
            Ok(self.0)
        }
        fn completed(&self, fence: FenceId) -> Result<u64, ArithmeticError> {
            Ok(u64::from(fence.0) * 100)
        }
    }

    fn value(text: &str, i: i128) -> Result<i128, ArithmeticError> {
        parse(text, &Letters).expect(text).evaluate(&Thread(i))
    }

    #[test]
    fn arithmetic_has_the_usual_precedence() {
        assert_eq!(value("1 + 2 * 3 - 4", 0), Ok(3));
        assert_eq!(value("(i - 1) % length", 8), Ok(1));
        assert_eq!(value("-i + 0x10", 6), Ok(10));
        assert_eq!(value("min(9, i, 4) + max(1, i)", 5), Ok(9));
        assert_eq!(value("7 / 2 * 2", 0), Ok(6));
        assert_eq!(value("(0 - 1) % 4", 0), Ok(3));
    }

    #[test]
    fn conditions_compare_and_stop_early() {
        assert_eq!(value("i > length", 4), Ok(1));
        assert_eq!(value("i > length", 3), Ok(0));
        assert_eq!(value("i != 0 && 12 / i == 4", 0), Ok(0));
        assert_eq!(value("!(i >= 2) || i == 5", 5), Ok(1));
        assert_eq!(value("!i", 5), Ok(0));
    }

    #[test]
    fn completed_reads_the_fence() {
        assert_eq!(value("max(1, completed(copy-fence)) - 1", 0), Ok(699));
        assert_eq!(value("completed(copy-fence[i + 1])", 2), Ok(1000));
        assert_eq!(
            value("completed(copy-fence[i])", 4),
            Err(ArithmeticError::OutsideGroup { index: 4, count: 4 })
        );
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_never_wraps() {
        assert_eq!(value("i / 0", 1), Err(ArithmeticError::DivisionByZero));
        let below = parse("i - length", &Letters).unwrap();
        assert_eq!(below.evaluate_u64(&Thread(1)), Err(ArithmeticError::Negative(-2)));
        assert_eq!(below.evaluate_u64(&Thread(i128::from(u64::MAX) + 3)), Ok(u64::MAX));
        assert!(below.evaluate_u64(&Thread(i128::from(u64::MAX) + 4)).is_err());
        assert!(parse("i", &Letters).unwrap().evaluate_u32(&Thread(1 << 32)).is_err());
        let huge = format!("{0} * {0}", i128::MAX);
        assert_eq!(value(&huge, 0), Err(ArithmeticError::Overflow));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let wrong = |text: &str| parse(text, &Letters).unwrap_err();
        assert_eq!(wrong("i - lenght").offset, 4);
        assert_eq!(wrong("i - lenght").text, "unknown name 'lenght'");
        assert_eq!(wrong("i i").offset, 2);
        assert_eq!(
            wrong("i +").text,
            "the expression ends too early; a number or a name is missing"
        );
        assert!(wrong("sqrt(2)").text.contains("no function 'sqrt'"));
        assert!(wrong("(1 + 2").text.contains("')' is missing"));
        assert!(wrong("12cats").text.contains("not a whole number"));
        assert!(wrong(&"(".repeat(5000)).text.contains("nested deeper"));
        assert!(wrong(&"-".repeat(5000)).text.contains("too many signs"));
        assert!(wrong("ä").text.contains("not expected"));
    }

    #[test]
    fn constants_are_known_before_the_run() {
        assert_eq!(parse("length * 2", &Letters).unwrap().constant(), Some(6));
        assert_eq!(parse("i * 2", &Letters).unwrap().constant(), None);
    }

    #[test]
    fn references_split_into_name_and_index() {
        assert_eq!(split_reference("done").unwrap(), ("done", None));
        assert_eq!(split_reference("done[i + 1]").unwrap(), ("done", Some((5, "i + 1"))));
        assert!(split_reference("done[i").is_err());
    }
}
