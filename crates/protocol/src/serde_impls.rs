//! Serialization of ids, hashes and timestamps in the requests and responses of typed tools.

use crate::{Hash, Id, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Text in JSON, 16 bytes in MsgPack; read in either form.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.text().as_str())
        } else {
            serializer.serialize_bytes(self.as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(IdVisitor)
        } else {
            deserializer.deserialize_any(IdVisitor)
        }
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a UUID")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Id::parse(text)
            .ok_or_else(|| E::custom("not a UUID: 36 characters as in 01923456-789a-7fff-bfff-ffffffffffff"))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Id, E> {
        let bytes = bytes.try_into().map_err(|_| E::custom("not a UUID: it must have 16 bytes"))?;
        Ok(Id::from_bytes(bytes))
    }
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uuid" })
    }
}

/// 64 hex characters in JSON, 32 bytes in MsgPack; read in either form.
impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.hex())
        } else {
            serializer.serialize_bytes(self.as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(HashVisitor)
        } else {
            deserializer.deserialize_any(HashVisitor)
        }
    }
}

struct HashVisitor;

impl Visitor<'_> for HashVisitor {
    type Value = Hash;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Hash, E> {
        Hash::parse(text).ok_or_else(|| E::custom("not a hash: it must have 64 characters, 0-9 and a-f"))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Hash, E> {
        let bytes = bytes.try_into().map_err(|_| E::custom("not a hash: it must have 32 bytes"))?;
        Ok(Hash::from_bytes(bytes))
    }
}

impl JsonSchema for Hash {
    fn schema_name() -> Cow<'static, str> {
        "Hash".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

/// RFC 3339 in every format.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text().as_str())
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
