//! Decoding errors. They never quote the value: it may be a secret, and messages go to logs.

use serde::de::{self, Expected, Unexpected};
use std::fmt;
use toolyard_protocol::text::nearest;

/// One error, worded for the author of the value.
#[derive(Debug)]
pub struct DecodeError(pub String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> DecodeError {
        DecodeError(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> DecodeError {
        DecodeError(format!("must be {}, not {}", describe(wanted), kind(&found)))
    }

    fn invalid_value(_: Unexpected<'_>, wanted: &dyn Expected) -> DecodeError {
        DecodeError(format!("must be {}", describe(wanted)))
    }

    fn invalid_length(length: usize, _: &dyn Expected) -> DecodeError {
        DecodeError(format!("has too few elements ({length})"))
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> DecodeError {
        let meant = nearest(found, known.iter().copied());
        let meant = meant.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        DecodeError(format!("must be one of {}{meant}", known.join(", ")))
    }

    fn missing_field(name: &'static str) -> DecodeError {
        DecodeError(format!("missing property '{name}'"))
    }

    fn duplicate_field(name: &'static str) -> DecodeError {
        DecodeError(format!("'{name}' is given twice"))
    }
}

/// What a type expects, without Rust type names.
fn describe(wanted: &dyn Expected) -> String {
    let wanted = wanted.to_string();
    let plain = match wanted.as_str() {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if wanted.starts_with("struct ") => "an object",
        _ => return wanted,
    };
    plain.to_owned()
}

fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a whole number",
        Unexpected::Float(_) => "a number with a fraction",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "another type of value",
    }
}
