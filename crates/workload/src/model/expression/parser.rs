//! Parses text to [`Expr`]. Reports the place of the first mistake.
//!
//! The caller resolves names ([`Names`]), so that one grammar serves constants, programs and
//! expectations.

use super::{Expr, FenceRef, Operator};

/// How deep parentheses and calls may be nested.
const DEPTH_LIMIT: u32 = 64;

/// Resolves names for the parser.
pub trait Names {
    /// Resolves a plain name to a constant or a variable.
    ///
    /// # Errors
    /// A message for the author of the file.
    fn value(&self, name: &str) -> Result<Expr, String>;
    /// The fence (or group of fences) of that name; `index` is the expression in its brackets.
    ///
    /// # Errors
    /// A message for the author of the file.
    fn fence(&self, name: &str, index: Option<Expr>) -> Result<FenceRef, String>;
}

/// A mistake in a text, and its byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Byte offset in the text of the expression.
    pub offset: usize,
    /// The mistake and the next step.
    pub text: String,
}

/// Parses one expression and resolves its names.
///
/// # Errors
/// The first mistake, with its place in `text`.
pub fn parse(text: &str, names: &dyn Names) -> Result<Expr, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0, names };
    let expr = parser.choice()?;
    parser.skip_spaces();
    match parser.rest().chars().next() {
        None => Ok(expr),
        Some(found) => {
            Err(parser.wrong(format!("'{found}' is not expected here; an operator is missing?")))
        }
    }
}

/// The two parts of a reference: a name, and the text in its brackets with its byte offset.
pub type ReferenceParts<'a> = (&'a str, Option<(usize, &'a str)>);

/// Splits `name[index]`.
///
/// # Errors
/// Brackets that do not match.
pub fn split_reference(text: &str) -> Result<ReferenceParts<'_>, ParseError> {
    let Some(open) = text.find('[') else { return Ok((text, None)) };
    match text.strip_suffix(']') {
        Some(inner) => Ok((&text[..open], Some((open + 1, &inner[open + 1..])))),
        None => Err(ParseError { offset: open, text: "'[' without a ']' at the end".into() }),
    }
}

/// Whether a character may be in the name of a fence, queue or buffer.
pub fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    names: &'a dyn Names,
}

type Parsed = Result<Expr, ParseError>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, text: String) -> ParseError {
        ParseError { offset: self.at, text }
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes `token` if it is next.
    fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.wrong(format!("'{token}' is missing here")))
        }
    }

    /// One level of left-associative operators; longer tokens are before their prefixes.
    fn level(&mut self, tokens: &[(&str, Operator)], next: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = next(self)?;
        while let Some((_, operator)) = tokens.iter().find(|(token, _)| self.take(token)) {
            let right = next(self)?;
            left = Expr::Binary(*operator, Box::new((left, right)));
        }
        Ok(left)
    }

    fn choice(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(self.wrong(format!(
                "nested deeper than {DEPTH_LIMIT} levels; use a constant in [let]"
            )));
        }
        let expr = self.level(&[("||", Operator::Or)], Self::both);
        self.depth -= 1;
        expr
    }

    fn both(&mut self) -> Parsed {
        self.level(&[("&&", Operator::And)], Self::comparison)
    }

    fn comparison(&mut self) -> Parsed {
        const TOKENS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        self.level(&TOKENS, Self::sum)
    }

    fn sum(&mut self) -> Parsed {
        self.level(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Parsed {
        const TOKENS: [(&str, Operator); 3] =
            [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
        self.level(&TOKENS, Self::unary)
    }

    fn unary(&mut self) -> Parsed {
        self.skip_spaces();
        let negative = self.rest().starts_with('-');
        if negative || (self.rest().starts_with('!') && !self.rest().starts_with("!=")) {
            self.at += 1;
            self.depth += 1;
            if self.depth > DEPTH_LIMIT {
                return Err(self.wrong("too many signs".into()));
            }
            let inner = Box::new(self.unary()?);
            self.depth -= 1;
            return Ok(if negative { Expr::Negate(inner) } else { Expr::Not(inner) });
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed {
        if self.take("(") {
            let inner = self.choice()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.skip_spaces();
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            Some(c) => {
                Err(self
                    .wrong(format!("'{c}' is not expected here; a number or a name is missing")))
            }
            None => {
                Err(self
                    .wrong("the expression ends too early; a number or a name is missing".into()))
            }
        }
    }

    fn word(&mut self, belongs: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn number(&mut self) -> Parsed {
        let start = self.at;
        let digits = self.word(|c| c.is_ascii_alphanumeric() || c == '_').replace('_', "");
        let value = match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        value.map(|number: i128| Expr::number(number)).map_err(|_| ParseError {
            offset: start,
            text: format!("'{digits}' is not a whole number that fits in 128 bits"),
        })
    }

    fn named(&mut self) -> Parsed {
        let start = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if self.take("(") {
            return self.call(name, start);
        }
        self.names.value(name).map_err(|text| ParseError { offset: start, text })
    }

    fn call(&mut self, name: &str, start: usize) -> Parsed {
        let operator = match name {
            "min" => Operator::Min,
            "max" => Operator::Max,
            "completed" => return self.completed(),
            _ => {
                let text = format!("there is no function '{name}'; use min, max or completed");
                return Err(ParseError { offset: start, text });
            }
        };
        let mut result = self.choice()?;
        self.expect(",")?;
        loop {
            let next = self.choice()?;
            result = Expr::Binary(operator, Box::new((result, next)));
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(result)
    }

    /// `completed(fence)` or `completed(group[index])`; fence names may hold dots and dashes.
    fn completed(&mut self) -> Parsed {
        self.skip_spaces();
        let start = self.at;
        let name = self.word(is_name_character);
        let index = if self.take("[") {
            let index = self.choice()?;
            self.expect("]")?;
            Some(index)
        } else {
            None
        };
        self.expect(")")?;
        let fence =
            self.names.fence(name, index).map_err(|text| ParseError { offset: start, text })?;
        Ok(Expr::Completed(Box::new(fence)))
    }
}
