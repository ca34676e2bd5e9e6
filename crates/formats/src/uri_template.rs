//! URI templates (RFC 6570) that can be matched: a URI yields the values of its variables.
//!
//! Only `{name}` and, at the very end, `{+name}` match unambiguously. Templates that would be ambiguous are
//! rejected when parsed.

use crate::percent::{decode, is_reserved, is_unreserved};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable {
        name: String,
        /// `{+name}`: the value may contain reserved characters such as slashes.
        rest: bool,
    },
}

const MAX_LENGTH: usize = 2048;
const MAX_VARIABLES: usize = 16;

impl UriTemplate {
    /// Fails with the reason.
    pub fn parse(source: &str) -> Result<UriTemplate, String> {
        if source.len() > MAX_LENGTH {
            return Err(format!("it has {} bytes; the limit is {MAX_LENGTH}", source.len()));
        }
        let mut parts = Vec::new();
        let mut left = source;
        while !left.is_empty() {
            let (literal, after) = left.split_once('{').map_or((left, None), |(l, a)| (l, Some(a)));
            check_literal(literal)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let Some(after) = after else { break };
            let (expression, after) = after.split_once('}').ok_or("a '{' has no '}'")?;
            parts.push(variable(expression)?);
            left = after;
        }
        let template = UriTemplate { source: source.to_owned(), parts };
        template.check()?;
        Ok(template)
    }

    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// In the order of the template.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// The decoded values of the variables in `uri`; `None` if it does not match. No value is empty.
    pub fn matches(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let mut values = Vec::new();
        let mut left = uri;
        for part in &self.parts {
            match part {
                Part::Literal(literal) => left = left.strip_prefix(literal.as_str())?,
                Part::Variable { name, rest } => {
                    let fits = |byte: u8| is_unreserved(byte) || byte == b'%' || (*rest && is_reserved(byte));
                    let end = left.bytes().position(|byte| !fits(byte)).unwrap_or(left.len());
                    let (value, after) = left.split_at_checked(end)?;
                    if value.is_empty() {
                        return None;
                    }
                    values.push((name.as_str(), decode(value)?));
                    left = after;
                }
            }
        }
        left.is_empty().then_some(values)
    }

    fn check(&self) -> Result<(), String> {
        let names: Vec<&str> = self.variables().collect();
        if names.is_empty() {
            return Err("it has no variable, such as {id}".to_owned());
        }
        if names.len() > MAX_VARIABLES {
            return Err(format!("it has {} variables; the limit is {MAX_VARIABLES}", names.len()));
        }
        if let Some((i, name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(format!("the variable '{name}' is used twice (again as number {})", i + 1));
        }
        for pair in self.parts.windows(2) {
            match pair {
                [Part::Variable { name, rest: true }, _] => {
                    return Err(format!(
                        "{{+{name}}} must be at the end: text after it could be part of the value"
                    ));
                }
                [Part::Variable { name, .. }, Part::Variable { name: next, .. }] => {
                    return Err(format!("variables {{{name}}} and {{{next}}} need a separator such as '/'"));
                }
                [Part::Variable { name, .. }, Part::Literal(literal)]
                    if !literal.starts_with(|c: char| is_reserved(c as u32 as u8)) =>
                {
                    return Err(format!(
                        "'{literal}' after {{{name}}} could be part of the value; put a separator such as '/' between them"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Accepts only ASCII literals that are properly percent-encoded.
fn check_literal(literal: &str) -> Result<(), String> {
    if literal.contains('}') {
        return Err("a '}' has no '{'".to_owned());
    }
    let bad = literal.chars().find(|&c| !c.is_ascii() || !is_uri_character(c as u8));
    if let Some(bad) = bad {
        return Err(format!("the character {bad:?} is not allowed in a URI; percent-encode it"));
    }
    decode(literal).map(|_| ()).ok_or_else(|| "it is not properly percent-encoded".to_owned())
}

fn is_uri_character(byte: u8) -> bool {
    is_unreserved(byte) || is_reserved(byte) || byte == b'%'
}

fn variable(expression: &str) -> Result<Part, String> {
    let shown = format!("{{{expression}}}");
    let (name, rest) = match expression.strip_prefix('+') {
        Some(name) => (name, true),
        None => (expression, false),
    };
    if let Some(operator) = name.chars().next().filter(|c| "#./;?&=,!@|+".contains(*c)) {
        return Err(format!(
            "unsupported operator '{operator}' in {shown}; use {{name}} or, at the end, {{+name}}"
        ));
    }
    if name.contains(',') {
        return Err(format!("{shown} has several variables; give each its own braces"));
    }
    if name.contains([':', '*']) {
        return Err(format!("{shown} has an unsupported modifier (':' or '*')"));
    }
    if name.is_empty() || name.len() > 64 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("{shown}: a variable name is 1 to 64 letters, digits and '_'"));
    }
    Ok(Part::Variable { name: name.to_owned(), rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::{VALUE, all_but, encode};
    use percent_encoding::AsciiSet;
    use proptest::prelude::*;

    const REST: &AsciiSet = &all_but(b"-._~:/?#[]@!$&'()*+,;=");

    /// Expansion as defined in section 3.2 of RFC 6570.
    fn expand(template: &UriTemplate, values: &[String]) -> String {
        let mut values = values.iter();
        let mut out = String::new();
        for part in &template.parts {
            match part {
                Part::Literal(literal) => out.push_str(literal),
                Part::Variable { rest, .. } => {
                    let value = values.next().unwrap();
                    out += &encode(value, if *rest { REST } else { VALUE }).to_string();
                }
            }
        }
        out
    }

    fn values(template: &str, uri: &str) -> Option<Vec<String>> {
        let template = UriTemplate::parse(template).unwrap();
        template.matches(uri).map(|values| values.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn a_uri_yields_the_values_of_its_variables() {
        let found = |template, uri| values(template, uri).unwrap_or_default();
        assert_eq!(found("test://template/{id}/data", "test://template/123/data"), ["123"]);
        assert_eq!(found("a:{x}/{y}", "a:1%2F2/%C3%A4"), ["1/2", "ä"]);
        assert_eq!(found("a:{x}/{+y}", "a:1/b/c?d"), ["1", "b/c?d"]);
        for (template, uri) in [
            ("test://template/{id}/data", "test://template//data"),
            ("test://template/{id}/data", "test://template/1/2/data"),
            ("test://template/{id}/data", "test://template/1/data/"),
            ("test://template/{id}/data", "test://template/1%/data"),
            ("test://template/{id}/data", "test://template/%ff/data"),
            ("test://template/{id}/data", "test://template/ä/data"),
            ("a:{+x}", "a:b c"),
            ("a:{+x}", "a:ä"),
            ("a:{x}", "b:1"),
        ] {
            assert_eq!(values(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn ambiguous_templates_are_rejected_with_the_reason() {
        for (template, reason) in [
            ("a:b", "no variable"),
            ("a:{x", "no '}'"),
            ("a:x}", "no '{'"),
            ("a:{x}}", "no '{'"),
            ("a:{}", "name is 1 to 64"),
            ("a:{x-y}", "name is 1 to 64"),
            ("a:{#x}", "operator '#'"),
            ("a:{.x}", "operator '.'"),
            ("a:{/x}", "operator '/'"),
            ("a:{;x}", "operator ';'"),
            ("a:{?x}", "operator '?'"),
            ("a:{&x}", "operator '&'"),
            ("a:{++x}", "operator '+'"),
            ("a:{x,y}", "several variables"),
            ("a:{x:3}", "modifier"),
            ("a:{x*}", "modifier"),
            ("a:{x}{y}", "need a separator"),
            ("a:{x}-{y}", "could be part of the value"),
            ("a:{x}%20", "could be part of the value"),
            ("a:{+x}/b", "must be at the end"),
            ("a:{x}/{x}", "twice"),
            ("a: {x}", "not allowed in a URI"),
            ("a:ä{x}", "not allowed in a URI"),
            ("a:%zz{x}", "percent-encoded"),
        ] {
            let error = UriTemplate::parse(template).expect_err(template);
            assert!(error.contains(reason), "{template}: {error}");
        }
        assert!(UriTemplate::parse(&format!("a:{}{{x}}", "b".repeat(3000))).is_err());
    }

    fn template() -> impl Strategy<Value = (String, usize)> {
        let literal = "[/:@!$&'()*+,;=?#][A-Za-z0-9._~/:-]{0,6}";
        (proptest::collection::vec(literal, 1..5), any::<bool>(), "[a-z]{1,5}").prop_map(
            |(literals, rest, scheme)| {
                let mut text = format!("{scheme}:");
                let count = literals.len();
                for (i, literal) in literals.iter().enumerate() {
                    let sign = if rest && i + 1 == count { "+" } else { "" };
                    text += &format!("{literal}{{{sign}v{i}}}");
                }
                (text, count)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_was_put_in_comes_out((text, count) in template(), seed in proptest::collection::vec(".{1,12}", 5)) {
            let template = UriTemplate::parse(&text).unwrap();
            prop_assert_eq!(template.variables().count(), count);
            let values = &seed[..count];
            let uri = expand(&template, values);
            let found = template.matches(&uri);
            let found = found.map(|found| found.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
            prop_assert_eq!(found.as_deref(), Some(values), "{} {}", text, uri);
        }

        #[test]
        fn no_text_makes_it_panic(template in ".{0,40}", uri in ".{0,60}") {
            if let Ok(template) = UriTemplate::parse(&template) {
                let _ = template.matches(&uri);
            }
        }
    }
}
