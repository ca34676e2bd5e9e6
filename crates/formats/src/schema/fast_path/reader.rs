//! Checks JSON bytes against rules in one pass. `None` means undecided: the validator must check the value.

use super::rules::{ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, Rule, STRING, Scalar};

/// Well below the depth limit of the validator's parser.
const MAX_DEPTH: usize = 64;
/// A number of at most this length, with a two-digit exponent, is finite in every parser.
const MAX_NUMBER: usize = 32;

pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    rules: &'a [Rule],
}

/// An undecoded string.
struct RawString<'a> {
    raw: &'a str,
    /// It has no escapes, so that the raw text is the value.
    plain: bool,
}

enum Number {
    Integer(i64),
    /// With a fraction or an exponent, or too large.
    Other,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, rules: &'a [Rule]) -> Reader<'a> {
        Reader { text, at: 0, rules }
    }

    /// Whether the whole text is one value that matches the rule.
    pub fn accepts(mut self, rule: usize) -> Option<()> {
        self.value(rule, 0)?;
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    fn value(&mut self, rule: usize, depth: usize) -> Option<()> {
        let rule = &self.rules[rule];
        self.space();
        match self.peek()? {
            b'{' => rule.allows(OBJECT, None) && self.object(rule, depth).is_some(),
            b'[' => rule.allows(ARRAY, None) && self.array(rule, depth).is_some(),
            b'"' => rule.accepts_string(&self.string()?),
            b't' => self.word("true") && rule.allows(BOOLEAN, Some(Scalar::Boolean(true))),
            b'f' => self.word("false") && rule.allows(BOOLEAN, Some(Scalar::Boolean(false))),
            b'n' => self.word("null") && rule.allows(NULL, Some(Scalar::Null)),
            _ => rule.accepts_number(self.number()?),
        }
        .then_some(())
    }

    fn object(&mut self, rule: &Rule, depth: usize) -> Option<()> {
        let mut seen = 0u64;
        let mut more = self.enter_container(b'}', depth)?;
        while more {
            self.space();
            let key = self.string()?;
            self.space();
            self.eat(b':')?;
            // Duplicate members and escaped names, which may be duplicates, are undecided.
            let member = rule.members.iter().position(|member| *member.name == *key.raw);
            let bit = member.map_or(0, |at| 1 << at);
            if !key.plain || seen & bit != 0 {
                return None;
            }
            seen |= bit;
            self.value(member.map_or(rule.others, |at| rule.members[at].rule), depth + 1)?;
            more = self.next_entry(b'}')?;
        }
        (seen & rule.required == rule.required).then_some(())
    }

    fn array(&mut self, rule: &Rule, depth: usize) -> Option<()> {
        let mut count = 0;
        let mut more = self.enter_container(b']', depth)?;
        while more {
            self.value(rule.items, depth + 1)?;
            count += 1;
            more = self.next_entry(b']')?;
        }
        rule.count.contains(&count).then_some(())
    }

    /// Enters a container; false when it is empty.
    fn enter_container(&mut self, end: u8, depth: usize) -> Option<bool> {
        self.at += 1;
        self.space();
        let empty = self.peek()? == end;
        self.at += usize::from(empty);
        (depth < MAX_DEPTH).then_some(!empty)
    }

    /// After an entry of a container; false at its end.
    fn next_entry(&mut self, end: u8) -> Option<bool> {
        self.space();
        let byte = self.peek()?;
        self.at += 1;
        (byte == b',' || byte == end).then_some(byte == b',')
    }

    fn string(&mut self) -> Option<RawString<'a>> {
        self.eat(b'"')?;
        let (start, mut plain) = (self.at, true);
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    self.escape()?;
                }
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Some(RawString { raw, plain })
    }

    fn escape(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        self.at += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            // Surrogates are undecided.
            [b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..] => return None,
            [b'u', digits @ ..] if digits.get(..4)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
        Some(())
    }

    fn number(&mut self) -> Option<Number> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        let leading_zero = self.peek()? == b'0';
        let mut good = !(self.digits()? > 1 && leading_zero);
        let mut whole = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            whole = false;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            good &= self.digits()? <= 2;
            whole = false;
        }
        let raw = &self.text[start..self.at];
        good &= raw.len() <= MAX_NUMBER;
        // Not every parser reads -0 as an integer.
        let integer = if whole && raw != "-0" { raw.parse().ok() } else { None };
        good.then_some(integer.map_or(Number::Other, Number::Integer))
    }

    /// Consumes digits and returns their number, at least one.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }

    fn word(&mut self, word: &str) -> bool {
        let there = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        there
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        let there = self.peek()? == byte;
        self.at += 1;
        there.then_some(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

impl Rule {
    /// `value` is `None` for values that cannot be listed in `one_of`.
    fn allows(&self, kind: u8, value: Option<Scalar>) -> bool {
        let listed = |list: &[Scalar]| value.is_some_and(|value| list.contains(&value));
        self.kinds & kind != 0 && self.one_of.as_deref().is_none_or(listed)
    }

    fn accepts_string(&self, text: &RawString<'_>) -> bool {
        let listed = |scalar: &Scalar| matches!(scalar, Scalar::Text(one) if **one == *text.raw);
        let free = self.one_of.is_none() && self.length.is_none();
        self.kinds & STRING != 0
            && (text.plain || free)
            && self.one_of.as_deref().is_none_or(|list| list.iter().any(listed))
            && self.length.as_ref().is_none_or(|length| length.contains(&(text.raw.chars().count() as u64)))
    }

    fn accepts_number(&self, number: Number) -> bool {
        match number {
            Number::Integer(value) => {
                self.allows(INTEGER, Some(Scalar::Integer(value)))
                    && self.range.as_ref().is_none_or(|range| range.contains(&value))
            }
            Number::Other => self.range.is_none() && self.allows(NUMBER, None),
        }
    }
}
