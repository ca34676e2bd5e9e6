//! YAML documents with positions: one document, the core schema, limited aliases, no custom tags.

use super::{Key, MAX_DEPTH, MAX_NODES, Node, Position, Problem, Value, insert};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::HashMap;

pub fn read(text: &str) -> Result<Node, Problem> {
    read_document(text)
        .map_err(|problem| Problem { position: within_line(problem.position, text), ..problem })
}

fn read_document(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { anchors: HashMap::new(), nodes: 0 };
    let mut events = Parser::new_from_str(text);
    let mut root = None;
    while let Some(event) = events.next_event() {
        let (event, span) = event.map_err(syntax)?;
        match event {
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Problem::new(position(&span), "a second YAML document starts here")
                    .hint("a file must contain one document; split it into two files"));
            }
            Event::StreamEnd => break,
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_) => {
                root = Some(reader.node(event, span, &mut events, 0)?);
            }
            _ => {}
        }
    }
    let empty = Node { value: Value::Map(Vec::new()), position: Position::START };
    Ok(root.filter(|node| node.value != Value::Null).unwrap_or(empty))
}

struct Reader {
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

type Events<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

impl Reader {
    fn node(
        &mut self,
        event: Event<'_>,
        span: Span,
        events: &mut Events<'_>,
        depth: usize,
    ) -> Result<Node, Problem> {
        let position = position(&span);
        if depth > MAX_DEPTH {
            return Err(Problem::new(position, format!("the nesting is deeper than {MAX_DEPTH} levels")));
        }
        self.count(1, position)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let core_str = match &tag {
                    None => false,
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => true,
                    Some(tag) => {
                        let message = format!("the tag '{}{}' is not allowed", tag.handle, tag.suffix);
                        return Err(Problem::new(position, message));
                    }
                };
                let plain = style == ScalarStyle::Plain && !core_str;
                (if plain { plain_scalar(&text, position)? } else { Value::Text(text.into_owned()) }, anchor)
            }
            Event::SequenceStart(anchor, None) => (self.list(events, depth)?, anchor),
            Event::MappingStart(anchor, None) => (self.map(events, depth)?, anchor),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let Some(node) = node else {
                    return Err(Problem::new(position, "this alias is inside its own anchor"));
                };
                self.count(size(&node), position)?;
                return Ok(Node { position, ..node });
            }
            _ => return Err(Problem::new(position, "tags on lists and maps are not allowed")),
        };
        let node = Node { value, position };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, events: &mut Events<'_>, depth: usize) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match next(events)? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, events, depth + 1)?),
            }
        }
    }

    fn map(&mut self, events: &mut Events<'_>, depth: usize) -> Result<Value, Problem> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = next(events)?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(text, ..) => Key { text: text.into_owned(), position: position(&span) },
                _ => {
                    return Err(Problem::new(
                        position(&span),
                        "a name was expected here, not a list, map or alias",
                    ));
                }
            };
            let (event, span) = next(events)?;
            let node = self.node(event, span, events, depth + 1)?;
            insert(&mut entries, key, node)?;
        }
    }

    fn count(&mut self, more: usize, position: Position) -> Result<(), Problem> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(Problem::new(position, format!("the document has more than {MAX_NODES} values"))
                .hint("aliases count as often as they are used"));
        }
        Ok(())
    }
}

fn next<'a>(events: &mut Events<'a>) -> Result<(Event<'a>, Span), Problem> {
    match events.next_event() {
        Some(event) => event.map_err(syntax),
        None => Err(Problem::new(Position::START, "unexpected end of the YAML text")),
    }
}

fn syntax(error: saphyr_parser::ScanError) -> Problem {
    let marker = error.marker();
    let position = Position { line: marker.line() as u32, column: marker.col() as u32 + 1 };
    Problem::new(position, format!("not valid YAML: {}", error.info()))
        .hint("check the indentation and quotes near this line")
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line() as u32, column: span.start.col() as u32 + 1 }
}

/// saphyr counts bytes instead of characters in a directive, so that a column can lie beyond the end of its line.
fn within_line(position: Position, text: &str) -> Position {
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let line = lines.flat_map(|line| line.split('\r')).nth(position.line.saturating_sub(1) as usize);
    let end = line.map_or(position.column, |line| line.chars().count() as u32 + 1);
    Position { column: position.column.min(end), ..position }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => entries.iter().map(|(_, node)| size(node)).sum(),
        _ => 0,
    }
}

/// The value of an unquoted scalar in the YAML 1.2 core schema.
fn plain_scalar(text: &str, position: Position) -> Result<Value, Problem> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(text) {
            Some(Ok(number)) => Value::Number(number),
            Some(Err(what)) => return Err(Problem::new(position, what).hint("quote it if a string is meant")),
            None => Value::Text(text.to_owned()),
        },
    })
}

/// `None` for text that is not a number. Integers keep every digit; floats are written in JSON notation.
fn number(text: &str) -> Option<Result<String, &'static str>> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            return Some(
                u128::from_str_radix(digits, radix)
                    .map(|n| n.to_string())
                    .map_err(|_| "this number is too large"),
            );
        }
    }
    if matches!(body, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Err("infinite and undefined numbers are not allowed"));
    }
    if !body.is_empty() && body.bytes().all(|b| b.is_ascii_digit()) {
        let digits = body.trim_start_matches('0');
        return Some(Ok(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") }));
    }
    let looks_like_float = body.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && body.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
        && body.contains(|c: char| c.is_ascii_digit());
    let parsed: f64 = looks_like_float.then(|| text.parse().ok())??;
    Some(if parsed.is_finite() { Ok(format!("{parsed:?}")) } else { Err("this number is too large") })
}

#[cfg(test)]
mod tests {
    use super::super::{DocumentFormat, read};
    use proptest::prelude::*;

    fn json(text: &str) -> String {
        String::from_utf8(read(DocumentFormat::Yaml, text.as_bytes()).unwrap().to_json()).unwrap()
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        assert_eq!(
            json(
                "a: 1\nb: '1'\nc: yes\nd: true\ne: ~\nf: 1.50\ng: 0x1f\nh: 1e3\ni: 2024-01-01\nj: 1.2.3\nk: !!str 5\nl: 007"
            ),
            r#"{"a":1,"b":"1","c":"yes","d":true,"e":null,"f":1.5,"g":31,"h":1000.0,"i":"2024-01-01","j":"1.2.3","k":"5","l":7}"#
        );
        assert_eq!(json("n: 123456789012345678901234567890"), r#"{"n":123456789012345678901234567890}"#);
        assert_eq!(json(""), "{}");
    }

    #[test]
    fn problems_carry_line_and_column() {
        for (text, line, column, what) in [
            ("a: 1\na: 2\n", 2, 1, "given twice"),
            ("a: [1, 2\nb: 3\n", 2, 2, "not valid YAML"),
            ("a: 1\n---\nb: 2\n", 2, 1, "second YAML document"),
            ("a: !ruby/object 1\n", 1, 4, "tag"),
            ("a: .inf\n", 1, 4, "infinite"),
            ("a: &x [*x]\n", 1, 8, "inside its own anchor"),
            ("%ééé\0", 1, 6, "unprintable character"),
            ("a: 1\r\n# é\rb: [\0\n", 3, 5, "unprintable character"),
        ] {
            let problem = read(DocumentFormat::Yaml, text.as_bytes()).expect_err(text);
            assert_eq!(
                (problem.position.line, problem.position.column),
                (line, column),
                "{text:?} {problem:?}"
            );
            assert!(problem.message.contains(what), "{problem:?}");
        }
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..9 {
            let refs = vec![format!("*a{}", i - 1); 10].join(",");
            text += &format!("a{i}: &a{i} [{refs}]\n");
        }
        assert!(read(DocumentFormat::Yaml, text.as_bytes()).unwrap_err().message.contains("more than"));
        let deep = "[".repeat(10_000);
        assert!(read(DocumentFormat::Yaml, deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-c:\\-\\[\\]{}&*!|>'\" \n#,?0-9.]{0,60}") {
            for format in [DocumentFormat::Yaml, DocumentFormat::Json, DocumentFormat::Toml] {
                if let Ok(node) = read(format, text.as_bytes()) {
                    prop_assert!(crate::json::scan(&node.to_json()).is_ok());
                }
            }
        }
    }
}
