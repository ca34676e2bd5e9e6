//! Templates in tool files: Jinja syntax over `input`, sandboxed, strict, with a fuel limit.
//!
//! A caller's values are always data: they are never parsed as a template and never split, and in a URL or a
//! JSON document they are encoded.

use crate::json::{ParseError, Token, Tokenizer};
use crate::percent;
use crate::template_filters;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind as JinjaKind, UndefinedBehavior};
use toolyard_protocol::{Error, ErrorKind, Payload};

/// Instructions that one rendering may execute; a typical template needs a few dozen.
const FUEL: u64 = 20_000;
/// The largest rendered text in bytes.
const MAX_RENDERED: usize = 128 << 10;
/// The largest rendered page in bytes.
const MAX_PAGE: usize = 1 << 20;
const NAME: &str = "template";
/// Built-in functions of the template language.
const FUNCTIONS: &[&str] = &["range", "dict", "namespace", "debug"];

/// Where the rendered text is used, which decides how values are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program argument or a cache key: values unencoded.
    Text,
    /// A page for a person or a model: values unencoded, with a larger size limit.
    Page,
    /// Part of a URL: values percent-encoded.
    Url,
    /// A JSON document: values as JSON, strings quoted and escaped.
    Json,
}

/// A parsed template.
pub struct Template {
    /// `None` for plain text without markup, the most common case.
    markup: Option<Environment<'static>>,
    source: String,
    /// The largest rendered text in bytes.
    max_bytes: usize,
}

impl Template {
    /// Fails with the reason when the markup is invalid.
    pub fn parse(source: &str, target: Target) -> Result<Template, String> {
        let has_markup = ["{{", "{%"].iter().any(|mark| source.contains(mark));
        let markup = has_markup.then(|| environment(source, target)).transpose()?;
        let max_bytes = if target == Target::Page { MAX_PAGE } else { MAX_RENDERED };
        Ok(Template { markup, source: source.to_owned(), max_bytes })
    }

    /// A literal text; markup in it is not interpreted.
    pub fn plain(text: &str) -> Template {
        Template { markup: None, source: text.to_owned(), max_bytes: text.len() }
    }

    /// The template text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text, if it has no markup.
    pub fn literal(&self) -> Option<&str> {
        self.markup.is_none().then_some(self.source.as_str())
    }

    pub fn render(&self, input: &Input) -> Result<String, Error> {
        self.render_in(|| minijinja::Value::from_pairs([("input", input.0.clone())]))
    }

    /// Renders with `secrets.NAME` available; for headers only, never for text that is logged or shown.
    pub fn render_with_secrets(&self, input: &Input, secrets: &[(String, String)]) -> Result<String, Error> {
        self.render_in(|| {
            let secrets = minijinja::Value::from_pairs(secrets.iter().cloned());
            minijinja::Value::from_pairs([("input", input.0.clone()), ("secrets", secrets)])
        })
    }

    /// The variables that the template uses, such as `input.name`, without built-in functions.
    pub fn variables(&self) -> Vec<String> {
        let template = self.markup.as_ref().and_then(|environment| environment.get_template(NAME).ok());
        let used = template.into_iter().flat_map(|template| template.undeclared_variables(true));
        let mut used: Vec<String> = used.filter(|name| !FUNCTIONS.contains(&name.as_str())).collect();
        used.sort_unstable();
        used
    }

    /// The names after `secrets.`; an empty name where `secrets` is used as a whole.
    pub fn secrets_used(&self) -> Vec<String> {
        let template = self.markup.as_ref().and_then(|environment| environment.get_template(NAME).ok());
        let mut used: Vec<String> = template
            .into_iter()
            .flat_map(|template| template.undeclared_variables(true))
            .filter_map(|name| Some(name.strip_prefix("secrets")?.to_owned()))
            .filter_map(|rest| match rest.strip_prefix('.') {
                Some(name) => Some(name.to_owned()),
                None => rest.is_empty().then_some(rest),
            })
            .collect();
        used.sort_unstable();
        used
    }

    fn render_in(&self, context: impl FnOnce() -> minijinja::Value) -> Result<String, Error> {
        let Some(environment) = &self.markup else { return Ok(self.source.clone()) };
        let context = context();
        let mut out = BoundedWriter { bytes: Vec::new(), max_bytes: self.max_bytes };
        let rendered = environment
            .get_template(NAME)
            .and_then(|template| template.render_captured_to(context, &mut out).map(|_| ()));
        rendered.map_err(|error| self.failed(&error))?;
        String::from_utf8(out.bytes)
            .map_err(|_| Error::new(ErrorKind::Internal, "a template rendered to invalid UTF-8"))
    }

    fn failed(&self, error: &minijinja::Error) -> Error {
        let what = match error.kind() {
            JinjaKind::UndefinedError => "it uses a value that the arguments do not have".to_owned(),
            JinjaKind::OutOfFuel => "it takes too many steps".to_owned(),
            JinjaKind::WriteFailure => format!("its result is over {} bytes", self.max_bytes),
            _ => error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
        };
        let shown: String = self.source.chars().take(80).collect();
        Error::new(ErrorKind::InvalidInput, format!("cannot render the template {shown:?}: {what}"))
            .hint("give the missing argument, or use a default in the file: {{ input.x | default('y') }}")
    }
}

/// A call's arguments as templates see them.
pub struct Input(minijinja::Value);

impl Input {
    pub fn new(arguments: &Payload) -> Result<Input, Error> {
        let read = Tokenizer::new(arguments.bytes()).and_then(|mut tokens| {
            let first = tokens.next()?;
            first.map_or(Ok(minijinja::Value::UNDEFINED), |(token, _)| value(token, &mut tokens))
        });
        let failed = |parse_error| {
            Error::new(ErrorKind::InvalidInput, format!("the arguments are not JSON: {parse_error}"))
        };
        read.map(Input).map_err(failed)
    }
}

/// Built from tokens rather than through serde, so that integers of any size keep their digits. The tokenizer
/// limits the depth, and with it this recursion.
fn value(token: Token<'_>, tokens: &mut Tokenizer<'_>) -> Result<minijinja::Value, ParseError> {
    Ok(match token {
        Token::ObjectStart => {
            let mut members = Vec::new();
            while let Some((Token::Key(key), _)) = tokens.next()? {
                if let Some((token, _)) = tokens.next()? {
                    members.push((key.into_owned(), value(token, tokens)?));
                }
            }
            minijinja::Value::from_pairs(members)
        }
        Token::ArrayStart => {
            let mut items = Vec::new();
            while let Some((token, _)) = tokens.next()? {
                if token == Token::ArrayEnd {
                    break;
                }
                items.push(value(token, tokens)?);
            }
            minijinja::Value::from(items)
        }
        Token::Key(text) | Token::String(text) => minijinja::Value::from(text.into_owned()),
        Token::Number(digits) => number(digits),
        Token::Bool(value) => minijinja::Value::from(value),
        Token::Null | Token::ObjectEnd | Token::ArrayEnd => minijinja::Value::from(()),
    })
}

fn number(digits: &str) -> minijinja::Value {
    if let Ok(integer) = digits.parse::<i128>() {
        return minijinja::Value::from(integer);
    }
    let whole = !digits.contains(['.', 'e', 'E']);
    match digits.parse::<f64>() {
        Ok(float) if !whole => minijinja::Value::from(float),
        // Larger than any integer type: represented by its digits.
        _ => minijinja::Value::from(digits),
    }
}

fn environment(source: &str, target: Target) -> Result<Environment<'static>, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(50);
    let syntax = minijinja::syntax::SyntaxConfig::builder()
        .keep_trailing_newline(true)
        // `{#` must not start a comment, because `${#name}` is shell syntax.
        .comment_delimiters("{#toolyard-comment", "toolyard-comment#}")
        .build();
    environment.set_syntax(syntax.map_err(|error| error.to_string())?);
    template_filters::add(&mut environment);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(move |out, _, value| match value.kind() {
        _ if target == Target::Json && !value.is_undefined() => push_json(out, value),
        ValueKind::Undefined => Err(minijinja::Error::from(JinjaKind::UndefinedError)),
        ValueKind::None => Err(refuse("a value is null")),
        // They have no canonical text form; the author must choose one.
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Plain | ValueKind::Bytes => {
            Err(refuse("a value is a list or an object; use | tojson or | join"))
        }
        ValueKind::Bool => {
            out.write_str(if value.is_true() { "true" } else { "false" }).map_err(minijinja::Error::from)
        }
        _ if target == Target::Url => write!(out, "{}", percent::encode(&value.to_string(), percent::VALUE))
            .map_err(minijinja::Error::from),
        _ => out.write_str(&value.to_string()).map_err(minijinja::Error::from),
    });
    environment.add_template_owned(NAME, source.to_owned()).map_err(|error| {
        let line = error.line().map_or(String::new(), |line| format!(" (line {line} of the template)"));
        format!("invalid template: {}{line}", error.detail().unwrap_or("syntax error"))
    })?;
    Ok(environment)
}

fn refuse(what: &'static str) -> minijinja::Error {
    minijinja::Error::new(JinjaKind::InvalidOperation, what)
}

/// Safe values, the results of `| tojson`, are JSON already.
fn push_json(out: &mut minijinja::Output<'_>, value: &minijinja::Value) -> Result<(), minijinja::Error> {
    let text = if value.is_safe() {
        value.to_string()
    } else {
        minijinja::filters::tojson(value, None, std::iter::empty::<(String, minijinja::Value)>().collect())?
            .to_string()
    };
    out.write_str(&text).map_err(minijinja::Error::from)
}

/// A buffer with a size limit.
struct BoundedWriter {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl std::io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max_bytes {
            return Err(std::io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn render(source: &str, target: Target, input: &str) -> Result<String, String> {
        let template = Template::parse(source, target)?;
        let input = Input::new(&Payload::json(input.to_owned())).unwrap();
        template.render(&input).map_err(|error| error.message)
    }

    #[test]
    fn values_are_data_whatever_they_hold() {
        for hostile in
            ["a; touch pwned", "$(id)", "../../x", "@evil.example", "\\r\\nX: y", "{{ 7*7 }}", "{% raw %}"]
        {
            let input = format!("{{\"v\":\"{hostile}\"}}");
            let text = hostile.replace("\\r\\n", "\r\n");
            assert_eq!(render("{{ input.v }}", Target::Text, &input), Ok(text));
            let url = render("https://h/{{ input.v | safe }}", Target::Url, &input).unwrap();
            let tail = &url["https://h/".len()..];
            assert!(!tail.contains(['/', '@', ';', '?', '#', '\r', '\n', ' ', ':', '{', '\\']), "{url}");
        }
    }

    #[test]
    fn strictness_has_a_reason_in_each_case() {
        for (source, input, what) in [
            ("{{ input.missing }}", "{}", "do not have"),
            ("{{ other }}", "{}", "do not have"),
            ("{{ input.n }}", r#"{"n":null}"#, "null"),
            ("{{ input.l }}", r#"{"l":[1]}"#, "tojson"),
            ("{% for i in range(100000) %}x{% endfor %}", "{}", ""),
            ("{% if %}", "{}", "invalid template"),
            ("{% include 'x' %}", "{}", "invalid template"),
        ] {
            let error = render(source, Target::Text, input).expect_err(source);
            assert!(error.contains(what), "{source}: {error}");
        }
        assert_eq!(render("{{ input.x | default('y') }}", Target::Text, "{}"), Ok("y".to_owned()));
        assert_eq!(
            render("${#x}{{ 1 }}", Target::Text, "{}"),
            Ok("${#x}1".to_owned()),
            "shell, not a comment"
        );
        assert_eq!(
            render("{{ input.l | tojson }}", Target::Text, r#"{"l":[1,"a"]}"#),
            Ok("[1, \"a\"]".to_owned())
        );
        assert_eq!(
            render("{{ input.b }}-{{ input.n }}", Target::Text, r#"{"b":true,"n":1.5}"#),
            Ok("true-1.5".to_owned())
        );
    }

    #[test]
    fn secrets_are_a_namespace_of_their_own() {
        let template = Template::parse("Bearer {{ secrets.KEY }}{{ input.secrets }}", Target::Text).unwrap();
        assert_eq!(template.secrets_used(), ["KEY"]);
        let input = Input::new(&Payload::json(r#"{"secrets":"x"}"#)).unwrap();
        let secrets = [("KEY".to_owned(), "{{ 7*7 }}".to_owned())];
        assert_eq!(template.render_with_secrets(&input, &secrets).unwrap(), "Bearer {{ 7*7 }}x");
        assert!(template.render(&input).is_err());
        assert_eq!(Template::parse("{{ secrets | tojson }}", Target::Text).unwrap().secrets_used(), [""]);
        assert!(
            Template::parse("{{ input.a }} secrets.KEY", Target::Text).unwrap().secrets_used().is_empty()
        );
    }

    #[test]
    fn work_and_size_are_bounded() {
        let nested = "{% for a in input.l %}{% for b in input.l %}{% for c in input.l %}{{ c }}{% endfor %}{% endfor %}{% endfor %}";
        let input = format!("{{\"l\":[{}]}}", vec!["1"; 200].join(","));
        assert!(render(nested, Target::Text, &input).unwrap_err().contains("steps"));
        let long = format!("{{\"v\":\"{}\"}}", "x".repeat(100_000));
        assert!(render("{{ input.v }}{{ input.v }}", Target::Text, &long).unwrap_err().contains("over"));
        assert_eq!(render("{{ input.v }}{{ input.v }}", Target::Page, &long).unwrap().len(), 200_000);
        let longer = "{% for i in range(20) %}{{ input.v }}{% endfor %}";
        assert!(render(longer, Target::Page, &long).unwrap_err().contains("over 1048576"));
    }

    #[test]
    fn a_value_does_not_decide_how_much_memory_a_filter_takes() {
        let input = format!(
            r#"{{"a":"{}","b":"{}","l":[1,2],"n":2000000000}}"#,
            "a".repeat(60_000),
            "b".repeat(60_000)
        );
        let (text, count) = ("more than 1048576 bytes", "more than 1000 items or columns");
        for (source, what) in [
            ("{{ input.a | replace('a', input.b) }}", text),
            ("{{ (input.l * 1000000) | join(input.b) }}", text),
            ("{{ input.a | join(input.b) }}", text),
            ("{{ input.a | join(d=input.b) }}", text),
            ("{{ input.l | batch(input.n, 'x') | length }}", count),
            ("{{ input.l | slice(input.n, 'x') | length }}", count),
            ("{{ 'x' | indent(input.n) }}", count),
            ("{{ 'x' | indent(width=input.n, first=true) }}", count),
            ("{{ '%2000000000d' | format(1) }}", count),
            ("{{ '%*d' | format(input.n, 1) }}", "'*' is not supported"),
            ("{{ input.l | tojson(indent=input.n) }}", count),
            ("{{ 'x' * input.n }}", "too large"),
        ] {
            let error = render(source, Target::Page, &input).expect_err(source);
            assert!(error.contains(what), "{source}: {error}");
        }
        for (source, expected) in [
            ("{{ 'abc' | replace('b', 'xyz') }}", "axyzc"),
            ("{{ input.l | join(', ') }}", "1, 2"),
            ("{{ 'abc' | join('-') }}", "a-b-c"),
            ("{{ input.l | batch(3, 'x') | first | join }}", "12x"),
            ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
            ("{{ 'a\nb' | indent(width=1, first=true) }}", " a\n b"),
            ("{{ '%03d' | format(7) }}", "007"),
            ("{{ input.l | tojson }}", "[1, 2]"),
        ] {
            assert_eq!(render(source, Target::Page, &input), Ok(expected.to_owned()), "{source}");
        }
    }

    #[test]
    fn the_variables_of_a_template_are_known() {
        let source = "{% for i in range(3) %}{{ i }}{{ loop.index }}{% endfor %}{% set a = 1 %}{{ a }}{{ input.x.y }}{{ b }}";
        let template = Template::parse(source, Target::Page).unwrap();
        assert_eq!(template.variables(), ["b", "input.x.y"]);
        assert!(Template::parse("plain", Target::Page).unwrap().variables().is_empty());
    }

    proptest! {
        #[test]
        fn a_value_never_changes_the_rest_of_a_url(value in ".{0,30}") {
            let input = serde_json::json!({ "v": value }).to_string();
            if let Ok(url) = render("https://host/a/{{ input.v }}/b", Target::Url, &input) {
                let middle = url.strip_prefix("https://host/a/").and_then(|rest| rest.strip_suffix("/b")).unwrap();
                prop_assert!(middle.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            }
        }

        #[test]
        fn no_template_source_panics(source in "[{}%# a-z.|()'\"0-9*]{0,40}") {
            let _ = render(&source, Target::Text, "{\"a\":1}");
        }
    }
}
