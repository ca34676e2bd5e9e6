//! A field that holds any JSON: kept as it was written, since no type knows what it means.

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{self, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use toolyard_protocol::{Error, ErrorKind, Format, Payload};

/// One JSON value. In JSON its digits and its order of members survive; in MsgPack it is the value that travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyJson(Payload);

impl AnyJson {
    /// `None` when the payload is not JSON text.
    pub fn new(payload: Payload) -> Option<AnyJson> {
        let sound = payload.format() == Format::Json && crate::json::scan(payload.bytes()).is_ok();
        sound.then_some(AnyJson(payload))
    }

    /// Any payload; MsgPack becomes JSON, its bytes base64.
    pub fn of(payload: Payload) -> Result<AnyJson, Error> {
        let unreadable =
            |what: String| Error::new(ErrorKind::Internal, format!("a kept value is damaged: {what}"));
        match payload.format() {
            Format::Json => AnyJson::new(payload).ok_or_else(|| unreadable("not JSON".to_owned())),
            Format::MsgPack => {
                let json = crate::msgpack::to_json(payload.bytes());
                Ok(AnyJson(Payload::json(json.map_err(|defect| unreadable(defect.to_string()))?)))
            }
        }
    }

    pub fn is_object(&self) -> bool {
        self.0.bytes().iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    }

    pub fn payload(&self) -> &Payload {
        &self.0
    }

    pub fn into_payload(self) -> Payload {
        self.0
    }
}

impl Serialize for AnyJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let text = std::str::from_utf8(self.0.bytes()).map_err(ser::Error::custom)?;
            let raw: &RawValue = serde_json::from_str(text).map_err(ser::Error::custom)?;
            raw.serialize(serializer)
        } else {
            let value: Value = serde_json::from_slice(self.0.bytes()).map_err(ser::Error::custom)?;
            value.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyJson, D::Error> {
        let text = if deserializer.is_human_readable() {
            Box::<RawValue>::deserialize(deserializer)?.get().to_owned()
        } else {
            // Bytes, extensions and keys that are no texts have no JSON, and are refused here.
            serde_json::to_string(&Value::deserialize(deserializer)?).map_err(de::Error::custom)?
        };
        Ok(AnyJson(Payload::json(Bytes::from(text))))
    }
}

impl JsonSchema for AnyJson {
    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}
