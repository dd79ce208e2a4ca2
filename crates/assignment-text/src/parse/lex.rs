//! The tokens of assignment text.
//!
//! A newline is a token only where a statement can end: outside brackets, after a token that can end a
//! statement, and before a name other than `where`. So a statement may be broken before or after an operator.

use crate::error::{Result, expected};
use crate::number::Number;
use assignments::{AccumOp, ByteRange};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name with its dots, such as `w1.grad`.
    Name(String),
    /// The name in `@name`.
    Symbol(String),
    Number(Number),
    /// A bit pattern in hexadecimal digits, `0x..`.
    Bits(u128),
    /// `:=`, `+=`, `:max=` and so on.
    Assign {
        op: AccumOp,
        init: bool,
    },
    /// A sign of [`SIGNS`].
    Sign(&'static str),
    /// The end of a statement: `;` or a newline.
    End,
    /// The end of the text.
    Eof,
}

#[derive(Clone, Debug)]
pub(super) struct SpannedToken {
    pub(super) token: Token,
    pub(super) span: ByteRange,
}

/// The signs. A sign that begins with another one comes before it.
const SIGNS: [&str; 22] = [
    "..", "->", "<=", ">=", "==", "!=", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]", "{",
    "}", ",",
];

/// The tokens of the text from the byte `start`.
pub(super) fn tokens(text: &str, start: usize) -> Result<Vec<SpannedToken>> {
    let mut lexer = Lexer { text, at: start, tokens: Vec::new(), depth: 0, newline: None };
    while lexer.skip_blank() {
        lexer.token()?;
    }
    let end = text.len()..text.len();
    lexer.push(Token::Eof, end);
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<SpannedToken>,
    /// The number of open brackets.
    depth: usize,
    /// The position of a newline that becomes a token if the next token can begin a statement.
    newline: Option<usize>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves to the next token; false at the end of the text.
    fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return false };
            if first == '#' || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if first.is_whitespace() {
                if first == '\n' {
                    self.newline.get_or_insert(self.at);
                }
                self.at += first.len_utf8();
            } else {
                return true;
            }
        }
    }

    fn token(&mut self) -> Result<()> {
        let (rest, start) = (self.rest(), self.at);
        let first = rest.chars().next().unwrap_or('\0');
        let (token, length) = if let Some(found) = assignment(rest) {
            found
        } else if is_name_start(first) {
            let length = name_length(rest);
            (Token::Name(rest[..length].to_owned()), length)
        } else if first == '@' && rest[1..].starts_with(is_name_start) {
            let length = 1 + word_length(&rest[1..]);
            (Token::Symbol(rest[1..length].to_owned()), length)
        } else if let Some(found) = bit_pattern(rest) {
            found
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            number(rest)
        } else if first == ';' {
            (Token::End, 1)
        } else if let Some(sign) = sign(rest) {
            (Token::Sign(sign), sign.len())
        } else {
            let what = match first {
                '&' => "another operator; truth values are combined by `and(a, b)`",
                '|' => "another operator; truth values are combined by `or(a, b)`",
                '!' => "an expression; a truth value is negated by `not(a)`",
                ':' if self.depth > 0 => "an index; a letter such as `i` runs over the whole axis",
                _ => "a statement or expression",
            };
            return Err(expected(what, format!("`{first}`"), &(start..start + first.len_utf8())));
        };
        self.at += length;
        self.push(token, start..start + length);
        Ok(())
    }

    fn push(&mut self, token: Token, span: ByteRange) {
        if let Some(at) = self.newline.take() {
            let starts = matches!(&token, Token::Name(name) if name != "where");
            let ends = self.tokens.last().is_some_and(|last| can_end(&last.token));
            if self.depth == 0 && starts && ends {
                self.tokens.push(SpannedToken { token: Token::End, span: at..at + 1 });
            }
        }
        match token {
            Token::Sign("(" | "[") => self.depth += 1,
            Token::Sign(")" | "]") => self.depth = self.depth.saturating_sub(1),
            // A `;` ends the statement even if a bracket is not closed.
            Token::End => self.depth = 0,
            _ => {}
        }
        self.tokens.push(SpannedToken { token, span });
    }
}

fn can_end(token: &Token) -> bool {
    match token {
        Token::Name(name) => name != "where",
        Token::Symbol(_) | Token::Number(_) | Token::Bits(_) | Token::Sign(")" | "]" | "}") => true,
        Token::Assign { .. } | Token::Sign(_) | Token::End | Token::Eof => false,
    }
}

/// The sign of [`SIGNS`] at the beginning of `rest`.
fn sign(rest: &str) -> Option<&'static str> {
    let first = rest.bytes().next()?;
    SIGNS.into_iter().find(|sign| sign.as_bytes()[0] == first && rest.starts_with(sign))
}

/// At least the bytes of an operation's name in front of `=`.
const LONGEST_OP: usize = 16;

/// The assignment sign at the beginning of `rest`, with its length.
fn assignment(rest: &str) -> Option<(Token, usize)> {
    let (init, body) = match rest.strip_prefix(':') {
        Some(body) => (true, body),
        None => (false, rest),
    };
    // Most tokens are no assignment signs, so the list is searched only where a sign can end.
    let end = body.bytes().take(LONGEST_OP + 1).position(|byte| byte == b'=')?;
    let op = AccumOp::ALL.into_iter().find(|op| op.token().as_bytes() == &body.as_bytes()[..end])?;
    if body[end + 1..].starts_with('=') {
        return None;
    }
    let length = rest.len() - body.len() + end + 1;
    match (op, init) {
        (AccumOp::Assign, false) => None,
        (AccumOp::Assign, true) => Some((Token::Assign { op, init: false }, length)),
        _ => Some((Token::Assign { op, init }, length)),
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
}

/// The length of a name: words and numbers joined by dots.
fn name_length(rest: &str) -> usize {
    let length = word_length(rest);
    match rest[length..].strip_prefix('.') {
        Some(next) if next.starts_with(is_name_start) || is_number(&next[..word_length(next)]) => {
            length + 1 + name_length(next)
        }
        _ => length,
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The bit pattern at the beginning of `rest` with its length: `0x` and up to 32 hexadecimal digits.
fn bit_pattern(rest: &str) -> Option<(Token, usize)> {
    let digits = rest.strip_prefix("0x")?;
    let digits = &digits[..digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len())];
    Some((Token::Bits(u128::from_str_radix(digits, 16).ok()?), 2 + digits.len()))
}

fn number(rest: &str) -> (Token, usize) {
    let digits =
        |from: usize| from + rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
    let whole = digits(0);
    let has_point = rest[whole..].starts_with('.') && !rest[whole..].starts_with("..");
    let mut end = if has_point { digits(whole + 1) } else { whole };
    let exponent = rest[end..].strip_prefix(['e', 'E']).map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    if let Some(exponent) = exponent.filter(|e| e.starts_with(|c: char| c.is_ascii_digit())) {
        end = digits(rest.len() - exponent.len());
    }
    let value = rest[..end].parse().unwrap_or(f64::INFINITY);
    let int = if end == whole { rest[..end].parse().ok() } else { None };
    (Token::Number(Number { value, int, is_literal: true }), end)
}

/// Describes a token in error messages.
pub(super) fn describe(token: &Token, text: &str) -> String {
    match token {
        Token::Eof => "the end of the text".to_owned(),
        Token::End if text != ";" => "the end of the line".to_owned(),
        _ => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_assignment_signs() {
        for op in AccumOp::ALL {
            assert!(op.token().len() <= LONGEST_OP);
            let found = assignment(&format!(":{}= x", op.token()));
            let init = op != AccumOp::Assign;
            assert_eq!(found, Some((Token::Assign { op, init }, op.token().len() + 2)));
            assert_eq!(assignment(&format!("{}== x", op.token())), None);
        }
    }
}
