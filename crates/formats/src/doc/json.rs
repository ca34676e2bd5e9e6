//! JSON documents with positions.

use super::{Key, Node, Position, Problem, Value, insert};
use crate::json::{ParseError, Token, Tokenizer};

pub fn read(text: &str) -> Result<Node, Problem> {
    let mut tokens = Tokenizer::new(text.as_bytes()).map_err(problem)?;
    let lines = LineStarts::new(text);
    // The tokenizer limits the depth, and with it the stack of open containers.
    let mut open: Vec<(Node, Option<Key>)> = Vec::new();
    let mut key = None;
    let mut root = None;
    while let Some((token, at)) = tokens.next().map_err(problem)? {
        let position = lines.position(at);
        let value = match token {
            Token::Key(text) => {
                key = Some(Key { text: text.into_owned(), position });
                continue;
            }
            Token::ObjectStart => {
                open.push((Node { value: Value::Map(Vec::new()), position }, key.take()));
                continue;
            }
            Token::ArrayStart => {
                open.push((Node { value: Value::List(Vec::new()), position }, key.take()));
                continue;
            }
            Token::ObjectEnd | Token::ArrayEnd => {
                // The tokenizer pairs brackets, so a container is open here.
                if let Some((node, node_key)) = open.pop() {
                    attach(&mut open, &mut root, node_key, node)?;
                }
                continue;
            }
            Token::String(text) => Value::Text(text.into_owned()),
            Token::Number(number) => Value::Number(number.to_owned()),
            Token::Bool(value) => Value::Bool(value),
            Token::Null => Value::Null,
        };
        attach(&mut open, &mut root, key.take(), Node { value, position })?;
    }
    Ok(root.unwrap_or(Node { value: Value::Null, position: Position::START }))
}

fn attach(
    open: &mut [(Node, Option<Key>)],
    root: &mut Option<Node>,
    key: Option<Key>,
    node: Node,
) -> Result<(), Problem> {
    match (open.last_mut().map(|(parent, _)| &mut parent.value), key) {
        (Some(Value::Map(entries)), Some(key)) => insert(entries, key, node)?,
        (Some(Value::List(items)), _) => items.push(node),
        _ => *root = Some(node),
    }
    Ok(())
}

fn problem(parse_error: ParseError) -> Problem {
    Problem::new(
        Position { line: parse_error.line, column: parse_error.column },
        format!("not valid JSON: {}", parse_error.what),
    )
    .hint("JSON requires double quotes and allows no comments or trailing commas")
}

/// Converts byte offsets to lines and columns.
pub(super) struct LineStarts<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineStarts<'a> {
    pub(super) fn new(text: &'a str) -> LineStarts<'a> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        LineStarts { text, starts }
    }

    pub(super) fn position(&self, at: usize) -> Position {
        let line = self.starts.partition_point(|&start| start <= at);
        let start = self.starts[line - 1];
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count());
        Position { line: line as u32, column: column as u32 + 1 }
    }
}
