//! Conformance cases of the archive.

use super::stores::{Stores, assert_invalid, at, cases, id};
use crate::bounds::{MAX_ARCHIVE_BODY, MAX_ARCHIVE_PAGE, MAX_ARCHIVE_TEXT, MAX_LIMIT};
use toolyard_engine::stores::{ArchiveEntry, ArchiveQuery};
use toolyard_protocol::{Format, Payload};

cases! {
    bodies_come_back_byte_for_byte
    the_first_entry_of_an_id_stays
    pages_are_oldest_first_and_filtered
    words_are_those_of_annotations
    a_page_is_bounded_in_bytes
    what_is_too_large_is_refused
}

pub fn entry(n: u64, stream: &str, text: &str) -> ArchiveEntry {
    let body = Payload::json(format!("{{\"n\":{n}}}"));
    ArchiveEntry { id: id(n), stream: stream.into(), at: at(n), body, text: text.into() }
}

pub fn all() -> ArchiveQuery {
    ArchiveQuery { limit: MAX_LIMIT, ..ArchiveQuery::default() }
}

async fn read(stores: &Stores, query: ArchiveQuery) -> Vec<u64> {
    stores.archive.read(query).await.unwrap().iter().map(|entry| entry.id.unix_ms()).collect()
}

async fn bodies_come_back_byte_for_byte(stores: &Stores) {
    let json = ArchiveEntry { body: Payload::json(" {\"a\" : 1.0} "), ..entry(1, "s", "t\0ext") };
    let packed =
        ArchiveEntry { body: Payload::new(Format::MsgPack, vec![0x81, 0xff, 0]), ..entry(2, "s", "") };
    for entry in [&json, &packed] {
        stores.archive.append(entry.clone()).await.unwrap();
    }
    assert_eq!(stores.archive.read(all()).await, Ok(vec![json, packed]));
}

async fn the_first_entry_of_an_id_stays(stores: &Stores) {
    stores.archive.append(entry(1, "s", "first")).await.unwrap();
    stores.archive.append(entry(1, "other", "second")).await.unwrap();
    assert_eq!(stores.archive.read(all()).await, Ok(vec![entry(1, "s", "first")]));
    assert_eq!(read(stores, ArchiveQuery { words: Some("second".into()), ..all() }).await, [0u64; 0]);
}

async fn pages_are_oldest_first_and_filtered(stores: &Stores) {
    for (n, stream) in [(4, "a"), (2, "b"), (1, "a"), (3, "a")] {
        stores.archive.append(entry(n, stream, "word")).await.unwrap();
    }
    let (a, word) = (Some("a".to_owned()), Some("word".to_owned()));
    assert_eq!(read(stores, all()).await, [1, 2, 3, 4]);
    assert_eq!(read(stores, ArchiveQuery { stream: a.clone(), ..all() }).await, [1, 3, 4]);
    assert_eq!(read(stores, ArchiveQuery { stream: Some("A".into()), ..all() }).await, [0u64; 0]);
    assert_eq!(read(stores, ArchiveQuery { after: Some(id(2)), ..all() }).await, [3, 4]);
    let page = ArchiveQuery { stream: a, words: word, after: Some(id(1)), limit: 1 };
    assert_eq!(read(stores, page).await, [3]);
    for limit in [0, MAX_LIMIT + 1] {
        assert_invalid(stores.archive.read(ArchiveQuery { limit, ..all() }).await, "limit");
    }
}

async fn words_are_those_of_annotations(stores: &Stores) {
    stores.archive.append(entry(1, "s", "What is the capital of France?")).await.unwrap();
    stores.archive.append(entry(2, "s", "PARIS, the Capital")).await.unwrap();
    for (query, expected) in [
        ("capital", &[1, 2][..]),
        ("cap* fr*", &[1]),
        ("paris OR france", &[]),
        ("text:paris", &[]),
        ("paris the", &[2]),
    ] {
        let query = ArchiveQuery { words: Some(query.into()), ..all() };
        assert_eq!(read(stores, query.clone()).await, expected, "{query:?}");
    }
    assert_invalid(stores.archive.read(ArchiveQuery { words: Some("?".into()), ..all() }).await, "no word");
}

async fn a_page_is_bounded_in_bytes(stores: &Stores) {
    let large = |n| ArchiveEntry { body: Payload::json(vec![b' '; MAX_ARCHIVE_BODY]), ..entry(n, "s", "") };
    let fit = (MAX_ARCHIVE_PAGE / MAX_ARCHIVE_BODY) as u64;
    for n in 1..=fit + 1 {
        stores.archive.append(large(n)).await.unwrap();
    }
    assert_eq!(read(stores, all()).await, (1..=fit).collect::<Vec<_>>());
    assert_eq!(read(stores, ArchiveQuery { after: Some(id(fit)), ..all() }).await, [fit + 1]);
}

async fn what_is_too_large_is_refused(stores: &Stores) {
    let body = Payload::json(vec![b' '; MAX_ARCHIVE_BODY + 1]);
    assert_invalid(stores.archive.append(ArchiveEntry { body, ..entry(1, "s", "") }).await, "body");
    assert_invalid(stores.archive.append(entry(1, "s", &"x".repeat(MAX_ARCHIVE_TEXT + 1))).await, "text");
    assert_invalid(stores.archive.append(entry(1, "", "")).await, "stream is empty");
    assert_eq!(read(stores, all()).await, [0u64; 0]);
}
