//! A strict JSON tokenizer (RFC 8259): one pass, positions in every error, no tree.
//!
//! It rejects input that parsers disagree on (duplicate members, lone surrogates, deep nesting), because a
//! value that was checked here is later parsed by a tool in another language.

use std::borrow::Cow;
use std::fmt;
use toolyard_protocol::text::unescaped_prefix_len;

/// Deeper nesting has no legitimate use and overflows recursive parsers.
pub const MAX_DEPTH: usize = 128;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl JsonType {
    pub fn with_article(self) -> &'static str {
        match self {
            JsonType::Object => "an object",
            JsonType::Array => "an array",
            JsonType::String => "a string",
            JsonType::Number => "a number",
            JsonType::Bool => "a boolean",
            JsonType::Null => "null",
        }
    }
}

/// Where and why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub line: u32,
    pub column: u32,
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.what, self.line, self.column)
    }
}

/// One token of a JSON text. A member of an object is a `Key` followed by its value.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'a> {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Key(Cow<'a, str>),
    String(Cow<'a, str>),
    /// The number as written, so that integers of any size are preserved.
    Number(&'a str),
    Bool(bool),
    Null,
}

/// Checks that `bytes` is exactly one JSON value and returns its type.
pub fn scan(bytes: &[u8]) -> Result<JsonType, ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let mut kind = None;
    while let Some((token, _)) = tokens.next()? {
        kind.get_or_insert(match token {
            Token::ObjectStart => JsonType::Object,
            Token::ArrayStart => JsonType::Array,
            Token::String(_) => JsonType::String,
            Token::Number(_) => JsonType::Number,
            Token::Bool(_) => JsonType::Bool,
            _ => JsonType::Null,
        });
    }
    // `next` rejects an empty text, so there was a first token.
    Ok(kind.unwrap_or(JsonType::Null))
}

/// A pull tokenizer over one JSON text.
pub struct Tokenizer<'a> {
    text: &'a str,
    at: usize,
    /// One entry per open container: its members, or `None` in an array.
    open: Vec<Option<MemberNames<'a>>>,
    /// The first member names of every open object, outermost object first.
    names: Vec<Cow<'a, str>>,
    expect: Expect,
}

#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    FirstValueOrEnd,
    FirstKeyOrEnd,
    Key,
    CommaOrEnd,
    Nothing,
}

impl<'a> Tokenizer<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Tokenizer<'a>, ParseError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            parse_error_at(&before, before.len(), "invalid UTF-8")
        })?;
        Ok(Tokenizer { text, at: 0, open: Vec::new(), names: Vec::new(), expect: Expect::Value })
    }

    /// The next token and the byte offset where it starts; `None` after the value.
    #[allow(clippy::should_implement_trait)] // an iterator of results could not stop at the first error by itself
    pub fn next(&mut self) -> Result<Option<(Token<'a>, usize)>, ParseError> {
        loop {
            self.skip_space();
            let Some(&byte) = self.text.as_bytes().get(self.at) else {
                return if self.expect == Expect::Nothing {
                    Ok(None)
                } else {
                    Err(self.error_at(self.at, "unexpected end of text"))
                };
            };
            match (self.expect, byte) {
                (Expect::Nothing, _) => {
                    return Err(self.error_at(self.at, "unexpected text after the value"));
                }
                (Expect::CommaOrEnd, b',') => {
                    self.at += 1;
                    let in_object = matches!(self.open.last(), Some(Some(_)));
                    self.expect = if in_object { Expect::Key } else { Expect::Value };
                }
                (Expect::CommaOrEnd | Expect::FirstKeyOrEnd, b'}')
                    if matches!(self.open.last(), Some(Some(_))) =>
                {
                    return Ok(Some(self.close(Token::ObjectEnd)));
                }
                (Expect::CommaOrEnd | Expect::FirstValueOrEnd, b']')
                    if matches!(self.open.last(), Some(None)) =>
                {
                    return Ok(Some(self.close(Token::ArrayEnd)));
                }
                (Expect::CommaOrEnd, _) => {
                    return Err(self.error_at(self.at, "missing comma or closing bracket"));
                }
                (Expect::Key | Expect::FirstKeyOrEnd, b'"') => return self.key().map(Some),
                (Expect::Key | Expect::FirstKeyOrEnd, _) => {
                    return Err(self.error_at(self.at, "expected a double-quoted member name"));
                }
                (Expect::Value | Expect::FirstValueOrEnd, _) => return self.value(byte).map(Some),
            }
        }
    }

    /// The number of containers that are open after the last token.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The byte offset just after the last token.
    pub fn position(&self) -> usize {
        self.at
    }

    /// An error at a byte offset.
    pub fn error_at(&self, at: usize, what: impl Into<String>) -> ParseError {
        parse_error_at(self.text, at, what)
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn close(&mut self, token: Token<'a>) -> (Token<'a>, usize) {
        let start = self.at;
        self.at += 1;
        if let Some(Some(members)) = self.open.pop() {
            self.names.truncate(members.from);
        }
        self.value_done();
        (token, start)
    }

    fn value_done(&mut self) {
        self.expect = if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn key(&mut self) -> Result<(Token<'a>, usize), ParseError> {
        let start = self.at;
        let key = self.string()?;
        self.skip_space();
        if self.text.as_bytes().get(self.at) != Some(&b':') {
            return Err(self.error_at(self.at, "missing colon after the member name"));
        }
        self.at += 1;
        if let Some(Some(members)) = self.open.last_mut()
            && !members.insert(&mut self.names, key.clone())
        {
            return Err(self.error_at(start, format!("duplicate member \"{}\"", short(&key))));
        }
        self.expect = Expect::Value;
        Ok((Token::Key(key), start))
    }

    fn value(&mut self, byte: u8) -> Result<(Token<'a>, usize), ParseError> {
        let start = self.at;
        let token = match byte {
            b'{' | b'[' => {
                if self.open.len() == MAX_DEPTH {
                    return Err(
                        self.error_at(start, format!("the nesting is deeper than {MAX_DEPTH} levels"))
                    );
                }
                self.at += 1;
                let object = byte == b'{';
                self.open.push(object.then(|| MemberNames { from: self.names.len(), many: None }));
                self.expect = if object { Expect::FirstKeyOrEnd } else { Expect::FirstValueOrEnd };
                return Ok((if object { Token::ObjectStart } else { Token::ArrayStart }, start));
            }
            b'"' => Token::String(self.string()?),
            b'-' | b'0'..=b'9' => Token::Number(self.number()?),
            b't' => self.word("true", Token::Bool(true))?,
            b'f' => self.word("false", Token::Bool(false))?,
            b'n' => self.word("null", Token::Null)?,
            _ => return Err(self.error_at(start, "expected a value")),
        };
        self.value_done();
        Ok((token, start))
    }

    fn word(&mut self, word: &str, token: Token<'a>) -> Result<Token<'a>, ParseError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error_at(self.at, "expected a value"));
        }
        self.at += word.len();
        Ok(token)
    }

    fn number(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |at: &mut usize| {
            let from = *at;
            while matches!(bytes.get(*at), Some(b'0'..=b'9')) {
                *at += 1;
            }
            *at > from
        };
        let mut at = start + usize::from(bytes[start] == b'-');
        let leading_zero = bytes.get(at) == Some(&b'0');
        let whole_from = at;
        let mut good = digits(&mut at) && !(leading_zero && at - whole_from > 1);
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            good &= digits(&mut at);
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            good &= digits(&mut at);
        }
        if !good {
            return Err(self.error_at(start, "invalid number"));
        }
        self.at = at;
        Ok(&self.text[start..at])
    }

    fn string(&mut self) -> Result<Cow<'a, str>, ParseError> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let at = start + unescaped_prefix_len(&bytes[start..]);
        match bytes.get(at) {
            Some(b'"') => {
                self.at = at + 1;
                Ok(Cow::Borrowed(&self.text[start..at]))
            }
            Some(b'\\') => self.escaped_string(start, at).map(Cow::Owned),
            Some(_) => Err(self.error_at(at, "unescaped control character in a string")),
            None => Err(self.error_at(start - 1, "unterminated string")),
        }
    }

    fn escaped_string(&mut self, start: usize, first_escape: usize) -> Result<String, ParseError> {
        let mut out = self.text[start..first_escape].to_owned();
        self.at = first_escape;
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(0..=0x1f) => {
                    return Err(self.error_at(self.at, "unescaped control character in a string"));
                }
                Some(_) => {
                    let rest = &self.text[self.at..];
                    let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
                    out.push_str(&rest[..plain]);
                    self.at += plain;
                }
                None => return Err(self.error_at(start - 1, "unterminated string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        let code = self.text.as_bytes().get(start + 1);
        self.at += 2;
        Ok(match code {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.error_at(start, "invalid escape sequence")),
        })
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char, ParseError> {
        let first = self.hex4(start)?;
        let code = if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.hex4(start)?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.error_at(start, "unpaired surrogate"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.error_at(start, "unpaired surrogate"))
    }

    fn hex4(&mut self, start: usize) -> Result<u32, ParseError> {
        let digits =
            self.text.as_bytes().get(self.at..self.at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(self.error_at(start, "\\u needs four hex digits"));
        };
        let code =
            digits.iter().fold(0, |code, &digit| code * 16 + (digit as char).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(code)
    }
}

/// The member names of one object: the first few in a list shared by all objects, the others in a set.
struct MemberNames<'a> {
    /// Where its names start in the list. Names are only added to the innermost object.
    from: usize,
    many: Option<std::collections::HashSet<Cow<'a, str>>>,
}

impl<'a> MemberNames<'a> {
    const FEW: usize = 12;

    fn insert(&mut self, names: &mut Vec<Cow<'a, str>>, key: Cow<'a, str>) -> bool {
        let few = &names[self.from..];
        if few.contains(&key) {
            return false;
        }
        if few.len() < Self::FEW {
            names.push(key);
            return true;
        }
        self.many.get_or_insert_default().insert(key)
    }
}

fn parse_error_at(text: &str, at: usize, what: impl Into<String>) -> ParseError {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let lines = before.iter().filter(|&&b| b == b'\n').count();
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
    ParseError { line: lines as u32 + 1, column: column as u32 + 1, what: what.into() }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_json_is_rejected_with_its_position() {
        for (text, position, what) in [
            ("", (1, 1), "end of text"),
            ("{", (1, 2), "end of text"),
            ("{\"a\":1,}", (1, 8), "member name"),
            ("[1 2]", (1, 4), "comma"),
            ("[1]\n x", (2, 2), "text after"),
            ("01", (1, 1), "number"),
            ("1.", (1, 1), "number"),
            ("\"a", (1, 1), "unterminated"),
            ("\"\u{1}\"", (1, 2), "control character"),
            ("\"\\x\"", (1, 2), "escape"),
            ("\"\\ud800\"", (1, 2), "surrogate"),
            ("{\"a\":1,\"\\u0061\":2}", (1, 8), "duplicate"),
            ("[}", (1, 2), "expected a value"),
            ("{]", (1, 2), "member name"),
            ("nul", (1, 1), "expected a value"),
        ] {
            let parse_error = scan(text.as_bytes()).expect_err(text);
            assert_eq!((parse_error.line, parse_error.column), position, "{text:?}: {parse_error}");
            assert!(parse_error.what.contains(what), "{text:?}: {parse_error}");
        }
        assert!(scan(b"\"\xff\"").is_err());
    }

    #[test]
    fn nesting_is_bounded_without_recursion() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(scan(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert!(scan(deep(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(scan("[".repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn many_members_are_still_checked_for_duplicates() {
        let object = |last: &str| {
            let members: Vec<String> = (0..500).map(|i| format!("\"k{i}\":{i}")).collect();
            format!("{{{},\"{last}\":0}}", members.join(","))
        };
        assert!(scan(object("new").as_bytes()).is_ok());
        assert!(scan(object("k3").as_bytes()).is_err());
        assert!(scan(object("k400").as_bytes()).is_err());
    }

    proptest! {
        // serde_json is the reference: except for duplicates, both accept the same texts.
        #[test]
        fn agrees_with_the_reference_parser(text in "[\\[\\]{}:,\"\\\\ a1\\-.eEtrufalsn0]{0,24}") {
            let reference: Result<serde_json::Value, _> = serde_json::from_str(&text);
            let ours = scan(text.as_bytes());
            if let Err(parse_error) = &ours && parse_error.what.contains("duplicate") { return Ok(()); }
            prop_assert_eq!(ours.is_ok(), reference.is_ok(), "{:?}", ours);
        }

        #[test]
        fn never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = scan(&bytes);
        }
    }
}
