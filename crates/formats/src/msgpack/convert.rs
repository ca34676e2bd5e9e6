//! MsgPack to JSON: binary values become base64, or only their length for logs.

use super::{ParseError, scan};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use toolyard_protocol::base64;

/// The value as compact JSON, binary values as base64.
pub fn to_json(bytes: &[u8]) -> Result<Vec<u8>, ParseError> {
    write(bytes, base64::encode)
}

/// The value as compact JSON for a log, binary values as their length.
pub fn to_log(bytes: &[u8]) -> Result<Vec<u8>, ParseError> {
    write(bytes, |bytes| format!("[{} bytes]", bytes.len()))
}

type FormatBytes = fn(&[u8]) -> String;

fn write(bytes: &[u8], show: FormatBytes) -> Result<Vec<u8>, ParseError> {
    scan(bytes)?;
    let shown = ToJson(show).deserialize(&mut rmp_serde::Deserializer::from_read_ref(bytes));
    // The scanner accepted it, so only a map key that JSON cannot represent is left.
    let unshowable = ParseError { offset: 0, what: "a map key cannot be represented in JSON" };
    let shown = shown.map_err(|_| unshowable.clone())?;
    serde_json::to_vec(&shown).map_err(|_| unshowable)
}

#[derive(Clone, Copy)]
struct ToJson(FormatBytes);

impl<'de> DeserializeSeed<'de> for ToJson {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToJson {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok((self.0)(bytes).into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    /// An extension: its type and its bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = members.next_entry_seed(self, self)? {
            let name = match name {
                Value::String(name) => name,
                Value::Array(_) | Value::Object(_) => return Err(A::Error::custom("non-scalar map key")),
                other => other.to_string(),
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(bytes: &[u8]) -> String {
        String::from_utf8(to_log(bytes).unwrap()).unwrap()
    }

    #[test]
    fn values_are_shown_and_bytes_are_counted() {
        assert_eq!(
            shown(b"\x82\xa4data\xc4\x03\x00\x01\x02\xa4tool\xa4ping"),
            r#"{"data":"[3 bytes]","tool":"ping"}"#
        );
        assert_eq!(shown(b"\x93\xc0\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xd0\x80"), "[null,1.5,-128]");
        assert_eq!(shown(b"\x81\x05\xc3"), r#"{"5":true}"#);
        assert_eq!(shown(b"\xd4\x07\x2a"), r#"[7,"[1 bytes]"]"#);
        assert_eq!(to_json(b"\x91\xc4\x03\x01\x02\xff").unwrap(), br#"["AQL/"]"#);
        assert!(to_json(b"\x81\x90\xc0").is_err());
        assert!(to_json(b"\x81").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = to_json(&bytes);
        }
    }
}
