//! Size limits and validation shared by every store; checked before a value reaches a store.

use std::time::Duration;
use toolyard_engine::stores::{
    ArchiveEntry, Artifact, ArtifactFilter, GraphLink, GraphQuery, Hint, NewAnnotation, StoreError, Tag,
};
use toolyard_protocol::{Format, Payload, Rate, Timestamp};

/// Maximum page size of a list query.
pub const MAX_LIMIT: usize = 1000;
/// Bytes of a name, port, tag or other label.
pub const MAX_LABEL: usize = 500;
pub const MAX_TAGS: usize = 64;
/// Per graph node.
pub const MAX_HINTS: usize = 64;
pub const MAX_METADATA: usize = 64 << 10;
/// Bytes of all texts of an annotation together.
pub const MAX_MESSAGE: usize = 64 << 10;
pub const MAX_ARCHIVE_BODY: usize = 8 << 20;
pub const MAX_ARCHIVE_TEXT: usize = 1 << 20;
/// Bytes of bodies and texts in one archive page, unless its first entry alone is larger.
pub const MAX_ARCHIVE_PAGE: usize = 16 << 20;
pub const MAX_BUDGET: Duration = Duration::from_secs(60);
/// A walk returns at most this many links for each node that its limit allows.
pub const LINKS_PER_NODE: usize = 10;
const MAX_RATE_PERIOD: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub fn limit(limit: usize) -> Result<usize, StoreError> {
    match limit {
        1..=MAX_LIMIT => Ok(limit),
        _ => invalid(format!("the limit {limit} must be 1 to {MAX_LIMIT}")),
    }
}

pub fn artifact(new: &Artifact) -> Result<(), StoreError> {
    let lineage = &new.lineage;
    label("hash", &new.hash)?;
    label("mime type", &new.mime)?;
    lineage.tags.iter().try_for_each(|tag| label("tag", tag))?;
    count("tags of an artifact", lineage.tags.len(), MAX_TAGS)?;
    lineage.creator.iter().try_for_each(|creator| label("creator", creator))?;
    lineage.variation_set.iter().try_for_each(|set| label("variation set", set))?;
    new.metadata.iter().try_for_each(metadata)?;
    if i64::try_from(new.size).is_err() {
        return invalid(format!("the size {} exceeds the maximum of {}", new.size, i64::MAX));
    }
    time(new.created)
}

pub fn artifact_filter(filter: &ArtifactFilter) -> Result<(), StoreError> {
    filter.since.map_or(Ok(()), time)?;
    limit(filter.limit).map(|_| ())
}

pub fn annotation(new: &NewAnnotation) -> Result<(), StoreError> {
    let texts = [Some(&new.message), new.source.as_ref(), new.vibe.as_ref()];
    let bytes = texts.into_iter().flatten().map(String::len).sum();
    count("bytes of an annotation", bytes, MAX_MESSAGE)?;
    time(new.now)
}

pub fn node(id: &str, name: &str, hints: &[Hint], now: Timestamp) -> Result<(), StoreError> {
    label("id", id)?;
    label("name", name)?;
    hint_count(hints.len())?;
    hints.iter().try_for_each(hint)?;
    time(now)
}

fn hint(hint: &Hint) -> Result<(), StoreError> {
    label("hint kind", &hint.kind)?;
    label("hint value", &hint.value)?;
    match (0.0..=1.0).contains(&hint.confidence) {
        true => Ok(()),
        false => invalid(format!("the confidence {} must be 0 to 1", hint.confidence)),
    }
}

pub fn hint_count(hints: usize) -> Result<(), StoreError> {
    count("hints of an identity", hints, MAX_HINTS)
}

pub fn tag(tag: &Tag) -> Result<(), StoreError> {
    label("tag namespace", &tag.namespace)?;
    label("tag value", &tag.value)
}

pub fn tag_count(tags: usize) -> Result<(), StoreError> {
    count("tags of an identity", tags, MAX_TAGS)
}

pub fn link(new: &GraphLink) -> Result<(), StoreError> {
    label("port", &new.from_port)?;
    label("port", &new.to_port)?;
    new.transport.iter().try_for_each(|transport| label("transport", transport))
}

pub fn walk(query: &GraphQuery) -> Result<(), StoreError> {
    limit(query.start.limit)?;
    limit(query.limit)?;
    match query.budget <= MAX_BUDGET {
        true => Ok(()),
        false => invalid(format!("the time budget must be at most {} s", MAX_BUDGET.as_secs())),
    }
}

pub fn archive(entry: &ArchiveEntry) -> Result<(), StoreError> {
    label("stream", &entry.stream)?;
    count("bytes of an archived body", entry.body.len(), MAX_ARCHIVE_BODY)?;
    count("bytes of an archived text", entry.text.len(), MAX_ARCHIVE_TEXT)?;
    time(entry.at)
}

pub fn rate(rate: Rate) -> Result<(), StoreError> {
    match rate.calls > 0 && rate.per > Duration::ZERO && rate.per <= MAX_RATE_PERIOD {
        true => Ok(()),
        false => invalid("the rate must allow at least one call per period of at most 366 days".into()),
    }
}

/// Checks that a label is short, not empty and free of control characters.
pub fn label(what: &str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() {
        return invalid(format!("the {what} is empty"));
    }
    count(&format!("bytes of the {what}"), text.len(), MAX_LABEL)?;
    match text.chars().find(|c| c.is_control()) {
        Some(control) => invalid(format!("the {what} contains the control character {control:?}")),
        None => Ok(()),
    }
}

/// Times are stored as signed integers and must sort as such.
pub fn time(at: Timestamp) -> Result<(), StoreError> {
    match i64::try_from(at.unix_ms()) {
        Ok(_) => Ok(()),
        Err(_) => invalid(format!("the time {} ms is out of range", at.unix_ms())),
    }
}

fn metadata(metadata: &Payload) -> Result<(), StoreError> {
    count("bytes of metadata", metadata.len(), MAX_METADATA)?;
    let text = metadata.bytes().trim_ascii();
    let object = text.first() == Some(&b'{') && text.last() == Some(&b'}');
    match object && metadata.format() == Format::Json {
        true => Ok(()),
        false => invalid("metadata must be a JSON object".into()),
    }
}

fn count(what: &str, count: usize, most: usize) -> Result<(), StoreError> {
    match count <= most {
        true => Ok(()),
        false => invalid(format!("{count} {what} are too many; {most} are allowed")),
    }
}

fn invalid<T>(message: String) -> Result<T, StoreError> {
    Err(StoreError::Invalid(message))
}
