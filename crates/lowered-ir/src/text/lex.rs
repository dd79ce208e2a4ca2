//! Text to tokens.

use super::ParseError;

/// A token with the byte offset and the line at which it begins.
#[derive(Clone, Debug)]
pub(super) struct SpannedToken<'t> {
    pub(super) token: Token<'t>,
    pub(super) offset: usize,
    pub(super) line: usize,
}

/// The smallest meaningful pieces of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A word: `for`, `i0`, `l12`, `max`, `f32`, `inff32`.
    Word(&'t str),
    /// A node, `%3`. A remainder sign is never followed by a digit.
    Node(u32),
    /// A name, `@step` or `@"odd name"`.
    Name(String),
    /// Text in quotes.
    Text(String),
    /// Digits with whatever letters follow at once: `12`, `1.5e-3f32`.
    Number { digits: &'t str, suffix: &'t str },
    /// `0x` and hexadecimal digits. The value is the digits without `0x`.
    Hex(&'t str),
    /// Punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// All signs. A sign stands before its prefixes, because the first match is taken.
const SIGNS: [&str; 20] =
    [":=", "..", "<=", "==", "!=", "<", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", ",", ":", "="];

/// Splits a text into tokens; the last one is [`Token::End`]. Comments run from `;` to the end of the line.
pub(super) fn lex(text: &str) -> Result<Vec<SpannedToken<'_>>, ParseError> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let (offset, line) = (lexer.at, lexer.line);
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push(SpannedToken { token, offset, line });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes characters as long as they satisfy `f`.
    fn take(&mut self, f: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !f(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = self.take(char::is_whitespace);
            self.line += blank.matches('\n').count();
            if self.peek() != Some(';') {
                return;
            }
            self.take(|c| c != '\n');
        }
    }

    fn token(&mut self) -> Result<Token<'t>, ParseError> {
        match self.peek() {
            None => Ok(Token::End),
            Some(c) if is_word_start(c) => Ok(Token::Word(self.take(is_word))),
            Some(c) if c.is_ascii_digit() => Ok(self.number()),
            Some('"') => Ok(Token::Text(self.quoted()?)),
            Some('@') => self.name(),
            Some('%') if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.node(),
            Some(c) => self.sign(c),
        }
    }

    fn sign(&mut self, c: char) -> Result<Token<'t>, ParseError> {
        let Some(sign) = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) else {
            return Err(ParseError::at(
                self.text,
                self.at,
                "a token of the text form",
                format!("`{}`", c.escape_debug()),
            ));
        };
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }

    fn number(&mut self) -> Token<'t> {
        if let Some(hex) =
            self.rest().strip_prefix("0x").filter(|r| r.starts_with(|c: char| c.is_ascii_hexdigit()))
        {
            self.at += self.rest().len() - hex.len();
            return Token::Hex(self.take(|c| c.is_ascii_hexdigit()));
        }
        let start = self.at;
        self.take(|c| c.is_ascii_digit());
        // `0..4` is a range, so a point belongs to the number only before a digit.
        if self.rest().strip_prefix('.').is_some_and(starts_with_digit) {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        if let Some(exponent) = self.rest().strip_prefix('e') {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            if starts_with_digit(&exponent[sign..]) {
                self.at += 1 + sign;
                self.take(|c| c.is_ascii_digit());
            }
        }
        Token::Number { digits: &self.text[start..self.at], suffix: self.take(is_word) }
    }

    fn node(&mut self) -> Result<Token<'t>, ParseError> {
        let start = self.at;
        self.at += 1;
        let digits = self.take(|c| c.is_ascii_digit());
        let number = digits.parse().map(Token::Node);
        number
            .map_err(|_| ParseError::at(self.text, start, "a node number below 2^32", format!("`%{digits}`")))
    }

    fn name(&mut self) -> Result<Token<'t>, ParseError> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some('"') => Ok(Token::Name(self.quoted()?)),
            Some(c) if is_word_start(c) => Ok(Token::Name(self.take(is_word).to_owned())),
            _ => Err(ParseError::at(self.text, start, "a name after `@`", "`@` alone")),
        }
    }

    /// Reads text in quotes, which must end on the line on which it begins.
    fn quoted(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            value.push_str(self.take(|c| !matches!(c, '"' | '\\' | '\n')));
            match self.peek() {
                Some('"') => break,
                Some('\\') => value.push(self.escape()?),
                _ => return Err(ParseError::at(self.text, start, "a closing quote on this line", "none")),
            }
        }
        self.at += 1;
        Ok(value)
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let rest = &self.rest()[1..];
        let (c, len) = match rest.chars().next() {
            Some('n') => (Some('\n'), 1),
            Some('"') => (Some('"'), 1),
            Some('\\') => (Some('\\'), 1),
            Some('u') => braced_code_point(&rest[1..]).map_or((None, 0), |(c, len)| (Some(c), 1 + len)),
            _ => (None, 0),
        };
        let Some(c) = c else {
            let expected = r#"an escape: `\"`, `\\`, `\n` or `\u{hex}`"#;
            return Err(ParseError::at(self.text, self.at, expected, "another character after `\\`"));
        };
        self.at += 1 + len;
        Ok(c)
    }
}

/// Reads `{hex}`; returns its length.
fn braced_code_point(text: &str) -> Option<(char, usize)> {
    let (hex, _) = text.strip_prefix('{')?.split_once('}')?;
    let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?;
    Some((c, hex.len() + 2))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a name of a routine or symbol can stand after `@` without quotes: letters, digits and `_`, no
/// digit first.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(is_word_start) && name.chars().all(is_word)
}

/// The text in quotes, control characters escaped.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        lex(text).unwrap().into_iter().map(|t| t.token).collect()
    }

    #[test]
    fn numbers_keep_their_letters_and_ranges_their_points() {
        let number = |digits, suffix| Token::Number { digits, suffix };
        assert_eq!(
            tokens("0..4 1.5e-3f32 2e9 0x7f:f32"),
            [
                number("0", ""),
                Token::Sign(".."),
                number("4", ""),
                number("1.5e-3", "f32"),
                number("2e9", ""),
                Token::Hex("7f"),
                Token::Sign(":"),
                Token::Word("f32"),
                Token::End,
            ]
        );
    }

    #[test]
    fn a_percent_sign_before_a_digit_is_a_node() {
        assert_eq!(tokens("% %3 ; rest")[..2], [Token::Sign("%"), Token::Node(3)]);
        assert!(lex("%99999999999").is_err());
    }

    #[test]
    fn quotes_are_read_back() {
        for text in ["", "a \"b\" \\ c", "line\nend\ttab\u{0}", "π; not a comment"] {
            assert_eq!(tokens(&quote(text)), [Token::Text(text.to_owned()), Token::End]);
        }
        for bad in ["\"open", "\"two\nlines\"", r#""\x""#, r#""\u{110000}""#, "@", "@ x", "$"] {
            assert!(lex(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_are_counted_through_comments() {
        let lines: Vec<usize> = lex("a ; b\nc\n\n;d\ne").unwrap().iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 2, 5, 5]);
    }
}
