//! From bytes of either format to a Rust type; what does not fit is named by place, and never by value.

use super::tracked::{PathTracker, TrackedDeserializer};
use serde::de::DeserializeOwned;
use toolyard_formats::json;
use toolyard_formats::msgpack;
use toolyard_protocol::{Format, Payload, Violation};

/// JSON takes no member that the type does not know; MsgPack ignores such fields, as HOOT01 has it.
pub fn decode<T: DeserializeOwned>(payload: &Payload) -> Result<T, Vec<Violation>> {
    match payload.format() {
        Format::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(payload.bytes());
            let tracker = PathTracker::new(Format::Json);
            let read = T::deserialize(TrackedDeserializer::new(&mut deserializer, &tracker));
            // What is no JSON at all is told as such. Edges have scanned what they hand on, so look only on failure.
            if (read.is_err() || deserializer.end().is_err())
                && let Err(parse_error) = json::scan(payload.bytes())
            {
                return Err(whole(format!("not valid JSON: {parse_error}")));
            }
            tracker.finish(read)
        }
        Format::MsgPack => {
            // The reader below trusts lengths and depth, and stops at the end of the value.
            msgpack::scan(payload.bytes())
                .map_err(|parse_error| whole(format!("not valid MsgPack: {parse_error}")))?;
            let mut deserializer = rmp_serde::Deserializer::from_read_ref(&payload.bytes()[..]);
            let tracker = PathTracker::new(Format::MsgPack);
            let read = T::deserialize(TrackedDeserializer::new(&mut deserializer, &tracker));
            tracker.finish(read)
        }
    }
}

fn whole(message: String) -> Vec<Violation> {
    vec![Violation { pointer: String::new(), message }]
}
