//! How large things may be, the same for every store. What is too large is refused before it reaches one.

use std::time::Duration;
use toolyard_engine::stores::{
    ArchiveEntry, Artifact, ArtifactFilter, GraphLink, GraphQuery, Hint, NewAnnotation, StoreError, Tag,
};
use toolyard_protocol::{Format, Payload, Rate, Timestamp};

/// The longest list that one question gets.
pub const MAX_LIMIT: usize = 1000;
/// Names, ports, tags and the like.
pub const MAX_LABEL: usize = 500;
pub const MAX_TAGS: usize = 64;
/// Of one identity.
pub const MAX_HINTS: usize = 64;
pub const MAX_METADATA: usize = 64 << 10;
/// An annotation's texts.
pub const MAX_MESSAGE: usize = 64 << 10;
pub const MAX_ARCHIVE_BODY: usize = 8 << 20;
pub const MAX_ARCHIVE_TEXT: usize = 1 << 20;
/// Bodies and texts of one page of the archive, unless its first entry alone is larger.
pub const MAX_ARCHIVE_PAGE: usize = 16 << 20;
pub const MAX_BUDGET: Duration = Duration::from_secs(60);
/// Connections in the answer to a walk, for each identity that the limit allows.
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
        return invalid(format!("the size {} is beyond what any file can have", new.size));
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

pub fn identity(id: &str, name: &str, hints: &[Hint], now: Timestamp) -> Result<(), StoreError> {
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

pub fn connection(new: &GraphLink) -> Result<(), StoreError> {
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
        false => invalid("a rate is at least one call in a time of at most 366 days".into()),
    }
}

/// A name of something: short, not empty, one line.
pub fn label(what: &str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() {
        return invalid(format!("the {what} is empty"));
    }
    count(&format!("bytes of the {what}"), text.len(), MAX_LABEL)?;
    match text.chars().find(|c| c.is_control()) {
        Some(control) => invalid(format!("the {what} holds the control character {control:?}")),
        None => Ok(()),
    }
}

/// Times are kept as signed numbers and must sort as such.
pub fn time(at: Timestamp) -> Result<(), StoreError> {
    match i64::try_from(at.unix_ms()) {
        Ok(_) => Ok(()),
        Err(_) => invalid(format!("the time {} ms is beyond what can be kept", at.unix_ms())),
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
