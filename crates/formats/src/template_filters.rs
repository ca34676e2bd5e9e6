//! Filters whose result can be far larger than what they are given, with a bound: a caller's value must not decide
//! how much memory a template takes.

use minijinja::value::{Kwargs, Rest, StringInput, Value};
use minijinja::{Environment, Error, ErrorKind, State, filters};

/// The largest text that one of these filters returns, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The most items or columns that a filter is asked for.
const MAX_COUNT: usize = 1000;

pub fn add(environment: &mut Environment<'_>) {
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("format", format);
    environment.add_filter("tojson", tojson);
}

fn replace(
    state: &mut State,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    let found = value.as_str().matches(from.as_str()).count();
    check_text(found.saturating_mul(to.as_str().len()).saturating_add(value.as_str().len()))?;
    filters::replace(state, value, from, to)
}

fn join(
    state: &mut State,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let by_name = kwargs.get::<Option<String>>("d")?.map_or(0, |joiner| joiner.len());
    let between = joiner.as_ref().map_or(by_name, |joiner| joiner.as_str().len());
    let mut bytes = 0usize;
    // What cannot be iterated is reported below.
    for item in value.try_iter().into_iter().flatten() {
        let item = item.as_str().map_or_else(|| item.to_string().len(), str::len);
        bytes = bytes.saturating_add(item).saturating_add(between);
        check_text(bytes)?;
    }
    filters::join(state, value, joiner, attribute, kwargs)
}

fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let asked = width.or(kwargs.get::<Option<usize>>("width")?).unwrap_or(4);
    check_count(asked)?;
    let lines = value.as_str().matches('\n').count().saturating_add(1);
    check_text(lines.saturating_mul(asked).saturating_add(value.as_str().len()))?;
    filters::indent(value, width, first, blank, kwargs)
}

fn batch(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    check_count(count)?;
    filters::batch(state, value, count, fill)
}

fn slice(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    check_count(count)?;
    filters::slice(state, value, count, fill)
}

/// Widths and precisions are numbers in the format, or values for a `*` in it.
fn format(
    state: &mut State,
    text: &Value,
    values: Rest<minijinja::value::ValueOrKwargs>,
) -> Result<Value, Error> {
    let plain = text.as_str().unwrap_or_default();
    if plain.contains('*') {
        return Err(refuse("'format' with '*' is not supported; write the width as a number"));
    }
    let numbers = plain.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    for number in numbers {
        check_count(number.parse().unwrap_or(usize::MAX))?;
    }
    filters::format(state, text, values)
}

fn tojson(value: &Value, indent: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let asked = indent.clone().or(kwargs.get::<Option<Value>>("indent")?);
    check_count(asked.and_then(|asked| asked.as_usize()).unwrap_or(0))?;
    filters::tojson(value, indent, kwargs)
}

fn check_text(bytes: usize) -> Result<(), Error> {
    match bytes <= MAX_TEXT {
        true => Ok(()),
        false => Err(refuse("a filter would return more than 1048576 bytes")),
    }
}

fn check_count(count: usize) -> Result<(), Error> {
    match count <= MAX_COUNT {
        true => Ok(()),
        false => Err(refuse("a filter is asked for more than 1000 items or columns")),
    }
}

fn refuse(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
