//! The archive in one map by id.

use super::{lock, reply};
use crate::bounds::{self, MAX_ARCHIVE_PAGE};
use crate::full_text::{TextQuery, tokenize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use toolyard_engine::stores::{ArchiveEntry, ArchiveQuery, ArchiveStore, StoreError, StoreFuture};
use toolyard_protocol::Id;

#[derive(Default)]
pub struct Archive(Mutex<BTreeMap<Id, ArchiveEntry>>);

impl ArchiveStore for Archive {
    fn append(&self, entry: ArchiveEntry) -> StoreFuture<'_, ()> {
        let checked = bounds::archive(&entry);
        if checked.is_ok() {
            lock(&self.0).entry(entry.id).or_insert(entry);
        }
        reply(checked)
    }

    fn read(&self, query: ArchiveQuery) -> StoreFuture<'_, Vec<ArchiveEntry>> {
        reply(read(&lock(&self.0), &query))
    }
}

fn read(entries: &BTreeMap<Id, ArchiveEntry>, query: &ArchiveQuery) -> Result<Vec<ArchiveEntry>, StoreError> {
    let limit = bounds::limit(query.limit)?;
    let wanted_words = query.words.as_deref().map(TextQuery::parse).transpose()?;
    let wanted = |entry: &&ArchiveEntry| {
        query.stream.as_ref().is_none_or(|stream| entry.stream == *stream)
            && query.after.is_none_or(|after| entry.id > after)
            && wanted_words.as_ref().is_none_or(|wanted| wanted.matches(&tokenize([entry.text.as_str()])))
    };
    let mut page: Vec<ArchiveEntry> = Vec::new();
    let mut bytes = 0;
    for entry in entries.values().filter(wanted).take(limit) {
        bytes += entry.body.len() + entry.text.len();
        if bytes > MAX_ARCHIVE_PAGE && !page.is_empty() {
            break;
        }
        page.push(entry.clone());
    }
    Ok(page)
}
