//! TOML documents with positions.

use super::json::LineStarts;
use super::{Key, Node, Position, Problem, Value, insert};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub fn read(text: &str) -> Result<Node, Problem> {
    let lines = LineStarts::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let position = error.span().map_or(Position::START, |span| lines.position(span.start));
        Problem::new(position, format!("not valid TOML: {}", error.message()))
    })?;
    let position = Position::START;
    Ok(Node { value: map(table.get_ref(), &lines)?, position })
}

fn map(table: &DeTable<'_>, lines: &LineStarts<'_>) -> Result<Value, Problem> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table.iter() {
        let key = Key { text: key.get_ref().to_string(), position: lines.position(key.span().start) };
        insert(&mut entries, key, node(value, lines)?)?;
    }
    Ok(Value::Map(entries))
}

fn node(spanned: &Spanned<DeValue<'_>>, lines: &LineStarts<'_>) -> Result<Node, Problem> {
    let position = lines.position(spanned.span().start);
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(integer) => {
            let parsed = i128::from_str_radix(integer.as_str(), integer.radix());
            Value::Number(parsed.map_err(|_| Problem::new(position, "this number is too large"))?.to_string())
        }
        DeValue::Float(float) => {
            let parsed: f64 = float.as_str().parse().unwrap_or(f64::NAN);
            if !parsed.is_finite() {
                return Err(Problem::new(position, "only finite numbers are allowed"));
            }
            Value::Number(parsed.to_string())
        }
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(item, lines)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => map(table, lines)?,
    };
    Ok(Node { value, position })
}
