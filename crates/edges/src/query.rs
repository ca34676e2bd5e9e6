//! Query parameters of a request: each is read once, unknown ones are rejected.

use toolyard_formats::percent;
use toolyard_protocol::text::{escape_control, nearest};
use toolyard_protocol::{Error, ErrorKind};

pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: Option<&str>) -> Result<Query, Error> {
        let mut pairs = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decode(name).zip(decode(value));
            let (name, value) = decoded.ok_or_else(|| invalid("not valid percent-encoded UTF-8"))?;
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(invalid(format!("'{}' is given twice", escape_control(&name))));
            }
            pairs.push((name, value));
        }
        Ok(Query(pairs))
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(index).1)
    }

    pub fn number(&mut self, name: &str, max: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number <= max);
        number.map(Some).ok_or_else(|| invalid(format!("'{name}' must be a number from 0 to {max}")))
    }

    /// `a,b,c`, each parsed by `read`.
    pub fn list<T>(&mut self, name: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Error> {
        let Some(text) = self.text(name) else { return Ok(Vec::new()) };
        let read_one = |word: &str| {
            read(word).ok_or_else(|| invalid(format!("'{}' is not valid for '{name}'", escape_control(word))))
        };
        text.split(',').filter(|word| !word.is_empty()).map(read_one).collect()
    }

    /// Call it last: rejects parameters that were not read. `known` are all parameters of the route.
    pub fn finish(self, known: &[&str]) -> Result<(), Error> {
        let Some((name, _)) = self.0.first() else { return Ok(()) };
        let error = invalid(format!("unknown parameter '{}'", escape_control(name)));
        Err(match nearest(name, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean '{near}'?")),
            None => error.hint(format!("known parameters: {}", known.join(", "))),
        })
    }
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("invalid query: {what}"))
}

/// In a query `+` is a space.
fn decode(text: &str) -> Option<String> {
    percent::decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_ones_named() {
        let mut query = Query::parse(Some("limit=5&tool=a%2Eb+c&state=running,failed")).unwrap();
        assert_eq!(query.number("limit", 10).unwrap(), Some(5));
        assert_eq!(query.text("tool").as_deref(), Some("a.b c"));
        assert_eq!(query.list("state", |word| Some(word.to_owned())).unwrap(), ["running", "failed"]);
        assert!(query.finish(&[]).is_ok());
        let error = Query::parse(Some("limt=5")).unwrap().finish(&["limit"]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean 'limit'?"));
        for bad in ["a=%", "a=%zz", "a=%ff", "a=1&a=2"] {
            assert!(Query::parse(Some(bad)).is_err(), "{bad}");
        }
        assert!(Query::parse(Some("limit=11")).unwrap().number("limit", 10).is_err());
        assert!(Query::parse(Some("limit=x")).unwrap().number("limit", 10).is_err());
    }
}
