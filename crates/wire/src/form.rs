//! MCP elicitation forms on a terminal: one prompt per field, and the client's response.

use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_formats::schema::Schema;
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{Check, Error, ErrorKind, InputResponse, Payload};

/// The maximum number of fields.
const MAX_FIELDS: usize = 100;

pub struct Form {
    pub message: String,
    pub fields: Vec<Field>,
}

/// One property of the form.
pub struct Field {
    pub name: String,
    title: String,
    kind: Kind,
    required: bool,
    default: Option<Payload>,
    schema: Schema,
}

enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    OneOf(Vec<Choice>),
    AnyOf(Vec<Choice>),
}

struct Choice {
    value: String,
    title: String,
}

impl Form {
    /// `{message, requestedSchema}`.
    pub fn read(question: &Payload) -> Result<Form, Error> {
        read(question).map_err(|what| {
            Error::new(ErrorKind::InvalidInput, format!("cannot show the question as a form: {what}"))
                .hint("a form is an object of strings, numbers, booleans and choices")
        })
    }
}

impl Field {
    /// The prompt of the field, such as `Age, a whole number [40]: `.
    pub fn prompt(&self) -> String {
        let mut prompt = escape_control(&self.title);
        let choices = |choices: &[Choice]| {
            let lines = choices.iter().enumerate();
            lines
                .map(|(i, choice)| format!("\n  {} {}", i + 1, escape_control(&choice.title)))
                .collect::<String>()
        };
        match &self.kind {
            Kind::Text => {}
            Kind::Integer => prompt.push_str(", a whole number"),
            Kind::Number => prompt.push_str(", a number"),
            Kind::Boolean => prompt.push_str(", y or n"),
            Kind::OneOf(list) => prompt.push_str(&format!(", one of{}\n ", choices(list))),
            Kind::AnyOf(list) => prompt.push_str(&format!(", any of, comma-separated{}\n ", choices(list))),
        }
        match &self.default {
            Some(default) => prompt.push_str(&format!(" [{}]", crate::render::value(default))),
            None if !self.required => prompt.push_str(" (optional)"),
            None => {}
        }
        prompt + ": "
    }

    /// Parses the typed text; `None` for an optional field that was left empty. An `Err` says what to type.
    pub fn read(&self, typed: &str) -> Result<Option<Payload>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.required => Err("a value is required".to_owned()),
                None => Ok(None),
            };
        }
        let value = match &self.kind {
            Kind::Text => quoted(typed),
            Kind::Integer => typed.parse::<i64>().map_err(|_| "expected a whole number")?.to_string(),
            Kind::Number => {
                serde_json::from_str::<f64>(typed).map_err(|_| "expected a number")?;
                typed.to_owned()
            }
            Kind::Boolean => match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => "true".to_owned(),
                "n" | "no" | "false" => "false".to_owned(),
                _ => return Err("expected y or n".to_owned()),
            },
            Kind::OneOf(choices) => quoted(chosen(choices, typed)?),
            Kind::AnyOf(choices) => {
                let each = typed.split(',').map(str::trim).filter(|word| !word.is_empty());
                let each: Result<Vec<String>, String> =
                    each.map(|word| Ok(quoted(chosen(choices, word)?))).collect();
                format!("[{}]", each?.join(","))
            }
        };
        let value = Payload::json(value);
        match self.schema.check(&value) {
            Ok(()) => Ok(Some(value)),
            Err(violations) => Err(violations
                .first()
                .map_or_else(String::new, |violation| escape_control(&violation.message))),
        }
    }
}

/// The response of a user who filled in the form.
pub fn accepted(values: &[(String, Payload)]) -> InputResponse {
    let mut out = Vec::new();
    let mut answer = Object::new(&mut out);
    answer.text("action", "accept");
    let mut content = Object::new(answer.member("content"));
    for (name, value) in values {
        content.raw(name, value.bytes());
    }
    content.end();
    answer.end();
    InputResponse(Payload::json(out))
}

/// The response of a user who visited the page.
pub fn visited() -> InputResponse {
    InputResponse(Payload::json(r#"{"action":"accept"}"#))
}

/// The response of a user who declined.
pub fn declined() -> InputResponse {
    InputResponse(Payload::json(r#"{"action":"decline"}"#))
}

/// The response of a user who did not answer.
pub fn cancelled() -> InputResponse {
    InputResponse(Payload::json(r#"{"action":"cancel"}"#))
}

/// Message and URL of a question that sends the user to a page.
pub fn page(question: &Payload) -> Result<(String, String), Error> {
    #[derive(serde::Deserialize)]
    struct Page {
        message: String,
        url: String,
    }
    let page: Page = serde_json::from_slice(question.bytes())
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "the question has no 'message' or no 'url'"))?;
    Ok((escape_control(&page.message), escape_control(&page.url)))
}

fn read(question: &Payload) -> Result<Form, String> {
    let message = member(question.bytes(), "message")?.ok_or("it has no 'message'")?;
    let message: String = serde_json::from_slice(&message).map_err(|_| "its 'message' is not a string")?;
    let schema = member(question.bytes(), "requestedSchema")?.ok_or("it has no 'requestedSchema'")?;
    let required = member(&schema, "required")?.unwrap_or_else(|| Bytes::from_static(b"[]"));
    let required: Vec<String> =
        serde_json::from_slice(&required).map_err(|_| "its 'required' is not a list of strings")?;
    let properties = member(&schema, "properties")?.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let members = json::members(&properties).map_err(|parse_error| parse_error.to_string())?;
    let members = members.ok_or("its 'properties' is not an object")?;
    if members.len() > MAX_FIELDS {
        return Err(format!("it has more than {MAX_FIELDS} fields"));
    }
    let fields = members.into_iter().map(|(name, at)| {
        let field = field(&name, &properties.slice(at), required.iter().any(|needed| *needed == name));
        field.map_err(|what| format!("'{}' {what}", escape_control(&name)))
    });
    Ok(Form { message: escape_control(&message), fields: fields.collect::<Result<_, String>>()? })
}

#[derive(serde::Deserialize)]
struct Property {
    #[serde(rename = "type")]
    kind: String,
    title: Option<String>,
    description: Option<String>,
    items: Option<ChoiceList>,
    #[serde(flatten)]
    listed: ChoiceList,
}

/// The ways in which MCP lists choices.
#[derive(serde::Deserialize)]
struct ChoiceList {
    #[serde(rename = "enum")]
    values: Option<Vec<String>>,
    #[serde(rename = "enumNames")]
    names: Option<Vec<String>>,
    #[serde(rename = "oneOf", alias = "anyOf")]
    titled: Option<Vec<TitledChoice>>,
}

#[derive(serde::Deserialize)]
struct TitledChoice {
    #[serde(rename = "const")]
    value: String,
    title: Option<String>,
}

fn field(name: &str, raw: &Bytes, required: bool) -> Result<Field, String> {
    let Property { kind, title, description, items, listed } =
        serde_json::from_slice(raw).map_err(|error| format!("cannot be read: {error}"))?;
    let kind = match kind.as_str() {
        "string" => choices(listed).map_or(Kind::Text, Kind::OneOf),
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        "array" => Kind::AnyOf(items.and_then(choices).ok_or("is a list of values other than choices")?),
        other => return Err(format!("has the unsupported type '{}'", escape_control(other))),
    };
    let title = match (title, description) {
        (Some(title), Some(description)) => format!("{title} ({description})"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => name.to_owned(),
    };
    let default = member(raw, "default")?.filter(|raw| raw.as_ref() != b"null").map(Payload::json);
    let schema = Schema::compile(raw)?;
    Ok(Field { name: name.to_owned(), title, kind, required, default, schema })
}

fn choices(listed: ChoiceList) -> Option<Vec<Choice>> {
    if let Some(titled) = listed.titled {
        let choice = |TitledChoice { value, title }| Choice {
            title: title.unwrap_or_else(|| String::clone(&value)),
            value,
        };
        return Some(titled.into_iter().map(choice).collect());
    }
    let names = listed.names.unwrap_or_default();
    let values = listed.values?.into_iter().enumerate();
    Some(values.map(|(i, value)| Choice { title: names.get(i).unwrap_or(&value).clone(), value }).collect())
}

/// Finds a choice by number, value or title.
fn chosen<'c>(choices: &'c [Choice], typed: &str) -> Result<&'c str, String> {
    let by_word = choices.iter().find(|choice| choice.value == typed || choice.title == typed);
    let by_number = || typed.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
    let choice = by_word.or_else(by_number);
    choice
        .map(|choice| choice.value.as_str())
        .ok_or_else(|| format!("expected a number from 1 to {}", choices.len()))
}

fn member(object: &Bytes, name: &str) -> Result<Option<Bytes>, String> {
    let members =
        json::members(object).map_err(|parse_error| parse_error.to_string())?.ok_or("it is not an object")?;
    Ok(members.into_iter().find(|(known, _)| known == name).map(|(_, at)| object.slice(at)))
}

fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_json_string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &str, required: &str) -> Result<Form, Error> {
        let schema = format!(r#"{{"type":"object","properties":{properties},"required":{required}}}"#);
        Form::read(&Payload::json(format!(r#"{{"message":"Who?","requestedSchema":{schema}}}"#)))
    }

    fn typed(field: &Field, text: &str) -> Result<Option<String>, String> {
        field.read(text).map(|value| value.map(|value| String::from_utf8(value.bytes().to_vec()).unwrap()))
    }

    #[test]
    fn each_type_of_field_is_prompted_for_and_read() {
        let properties = concat!(
            r#"{"name":{"type":"string","title":"Name","minLength":2},"age":{"type":"integer","minimum":0,"default":40},"#,
            r#""size":{"type":"number"},"ok":{"type":"boolean","description":"All well?"},"#,
            r#""color":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},"#,
            r#""tags":{"type":"array","items":{"anyOf":[{"const":"a","title":"A!"},{"const":"b"}]}}}"#
        );
        let form = form(properties, r#"["name","color"]"#).unwrap();
        assert_eq!(form.message, "Who?");
        let prompts: Vec<String> = form.fields.iter().map(Field::prompt).collect();
        assert_eq!(
            prompts,
            [
                "Name: ",
                "age, a whole number [40]: ",
                "size, a number (optional): ",
                "All well?, y or n (optional): ",
                "color, one of\n  1 Red\n  2 Green\n : ",
                "tags, any of, comma-separated\n  1 A!\n  2 b\n  (optional): ",
            ]
        );
        let good = |value: &str| Ok(Some(value.to_owned()));
        for (field, text, expected) in [
            (0, " Ann \n", good(r#""Ann""#)),
            (0, "", Err("a value is required".to_owned())),
            (1, "7", good("7")),
            (1, "", good("40")),
            (1, "7.5", Err("expected a whole number".to_owned())),
            (2, "1.5e3", good("1.5e3")),
            (2, "NaN", Err("expected a number".to_owned())),
            (2, "", Ok(None)),
            (3, "Y", good("true")),
            (3, "maybe", Err("expected y or n".to_owned())),
            (4, "2", good(r#""g""#)),
            (4, "Red", good(r#""r""#)),
            (4, "3", Err("expected a number from 1 to 2".to_owned())),
            (5, "b, 1", good(r#"["b","a"]"#)),
        ] {
            assert_eq!(typed(&form.fields[field], text), expected, "field {field}: {text:?}");
        }
        assert!(typed(&form.fields[0], "A").is_err(), "too short");
        assert!(typed(&form.fields[1], "-1").is_err(), "too small");
    }

    #[test]
    fn answers_are_in_mcps_shape_and_other_forms_are_refused() {
        let values = [("a".to_owned(), Payload::json("1")), ("b".to_owned(), Payload::json(r#""x""#))];
        assert_eq!(&accepted(&values).0.bytes()[..], br#"{"action":"accept","content":{"a":1,"b":"x"}}"#);
        for (properties, what) in [
            (r#"{"a":{"type":"object"}}"#, "'a' has the unsupported type 'object'"),
            (r#"{"a":{}}"#, "'a' cannot be read"),
            (r#"{"a":{"type":"array","items":{"type":"string"}}}"#, "other than choices"),
            ("[]", "not an object"),
        ] {
            let error = form(properties, "[]").err().expect(properties);
            assert!(error.message.contains(what), "{properties}: {error}");
        }
    }
}
