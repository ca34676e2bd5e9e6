//! Conformance cases of artifacts.

use super::stores::{Stores, assert_invalid, at, cases, id, new_annotation, new_artifact};
use crate::bounds::{MAX_LABEL, MAX_LIMIT, MAX_METADATA, MAX_TAGS};
use toolyard_engine::stores::{ArtifactFilter, Lineage, NewArtifact};
use toolyard_protocol::{Format, Id, Payload};

cases! {
    what_was_created_is_returned
    equal_content_makes_two_artifacts
    an_equal_artifact_is_returned_and_another_is_refused
    tags_are_sorted_without_duplicates
    lists_are_newest_first_and_filtered
    hashes_are_sorted_and_once_each
    removing_an_artifact_removes_its_annotations
    what_is_too_large_or_malformed_is_refused
}

fn all() -> ArtifactFilter {
    ArtifactFilter { limit: MAX_LIMIT, ..ArtifactFilter::default() }
}

async fn listed(stores: &Stores, filter: ArtifactFilter) -> Vec<Id> {
    stores.artifacts.list(filter).await.unwrap().into_iter().map(|artifact| artifact.id).collect()
}

fn tagged(n: u64, tags: &[&str], creator: &str) -> NewArtifact {
    let mut new = new_artifact(n);
    new.lineage.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
    new.lineage.creator = Some(creator.into());
    new
}

async fn what_was_created_is_returned(stores: &Stores) {
    let lineage = Lineage {
        tags: vec!["type:midi".into()],
        creator: Some("café".into()),
        parent: Some(id(1)),
        variation_set: Some("set".into()),
    };
    let metadata = Some(Payload::json(" {\"b\": 1.50, \"a\":[]} "));
    let new = NewArtifact { lineage: lineage.clone(), metadata: metadata.clone(), ..new_artifact(7) };
    let created = stores.artifacts.create(new).await.unwrap();
    assert_eq!(created.lineage, lineage);
    assert_eq!(created.metadata, metadata, "byte for byte");
    assert_eq!((created.created, created.size, created.mime.as_str()), (at(7), 7, "text/plain"));
    assert_eq!(stores.artifacts.get(id(7)).await, Ok(Some(created)));
    assert_eq!(stores.artifacts.get(id(8)).await, Ok(None));
    let foreign = Id::parse("ffffffff-ffff-ffff-ffff-ffffffffffff").unwrap();
    let created = stores.artifacts.create(NewArtifact { id: foreign, ..new_artifact(8) }).await.unwrap();
    assert_eq!(stores.artifacts.get(foreign).await, Ok(Some(created)), "any UUID is an id");
}

async fn equal_content_makes_two_artifacts(stores: &Stores) {
    let (one, two) = (new_artifact(1), NewArtifact { id: id(2), ..new_artifact(1) });
    stores.artifacts.create(one).await.unwrap();
    stores.artifacts.create(two).await.unwrap();
    assert_eq!(listed(stores, all()).await, [id(2), id(1)]);
}

async fn an_equal_artifact_is_returned_and_another_is_refused(stores: &Stores) {
    let first = stores.artifacts.create(tagged(1, &["a"], "x")).await.unwrap();
    assert_eq!(stores.artifacts.create(tagged(1, &["a", "a"], "x")).await.unwrap(), first);
    assert_invalid(stores.artifacts.create(tagged(1, &["b"], "x")).await, "use a new one");
    assert_eq!(stores.artifacts.get(id(1)).await, Ok(Some(first)));
}

async fn tags_are_sorted_without_duplicates(stores: &Stores) {
    let created = stores.artifacts.create(tagged(1, &["b", "a", "b", "B"], "x")).await.unwrap();
    assert_eq!(created.lineage.tags, ["B", "a", "b"]);
    assert_eq!(stores.artifacts.get(id(1)).await, Ok(Some(created)));
}

async fn lists_are_newest_first_and_filtered(stores: &Stores) {
    let tags: [&[&str]; 4] = [&["a"], &["a", "b"], &["b"], &[]];
    // Created in another order than their ids, with opposite times: the id decides.
    for n in [3u64, 1, 4, 2] {
        let creator = if n % 2 == 0 { "even" } else { "odd" };
        let new = NewArtifact { now: at(10 - n), ..tagged(n, tags[n as usize - 1], creator) };
        stores.artifacts.create(new).await.unwrap();
    }
    let filter = |change: fn(&mut ArtifactFilter)| {
        let mut filter = all();
        change(&mut filter);
        filter
    };
    type Change = fn(&mut ArtifactFilter);
    let cases: [(Change, &[u64]); 8] = [
        (|_| {}, &[4, 3, 2, 1]),
        (|f| f.limit = 2, &[4, 3]),
        (|f| f.before = Some(id(3)), &[2, 1]),
        (|f| f.tag = Some("a".into()), &[2, 1]),
        (|f| f.tag = Some("A".into()), &[]),
        (|f| f.creator = Some("even".into()), &[4, 2]),
        (|f| f.since = Some(at(8)), &[2, 1]),
        (|f| (f.tag, f.creator, f.limit) = (Some("b".into()), Some("odd".into()), 1), &[3]),
    ];
    for (change, expected) in cases {
        let filter = filter(change);
        let ids: Vec<Id> = expected.iter().map(|&n| id(n)).collect();
        assert_eq!(listed(stores, filter.clone()).await, ids, "{filter:?}");
    }
}

async fn hashes_are_sorted_and_once_each(stores: &Stores) {
    for (n, hash) in [(1, "c"), (2, "a"), (3, "c"), (4, "b")] {
        stores.artifacts.create(NewArtifact { hash: hash.into(), ..new_artifact(n) }).await.unwrap();
    }
    let hashes = |after: Option<&str>, limit| stores.artifacts.hashes(after.map(str::to_owned), limit);
    assert_eq!(hashes(None, 10).await.unwrap(), ["a", "b", "c"]);
    assert_eq!(hashes(None, 2).await.unwrap(), ["a", "b"]);
    assert_eq!(hashes(Some("b"), 2).await.unwrap(), ["c"]);
    assert_eq!(hashes(Some("aa"), 2).await.unwrap(), ["b", "c"], "the cursor need not exist");
    stores.artifacts.remove(id(1)).await.unwrap();
    assert_eq!(hashes(None, 10).await.unwrap(), ["a", "b", "c"], "another artifact still names it");
    stores.artifacts.remove(id(3)).await.unwrap();
    assert_eq!(hashes(None, 10).await.unwrap(), ["a", "b"]);
    assert_invalid(hashes(None, 0).await, "limit");
    assert_invalid(hashes(None, MAX_LIMIT + 1).await, "limit");
}

async fn removing_an_artifact_removes_its_annotations(stores: &Stores) {
    stores.artifacts.create(tagged(1, &["a"], "x")).await.unwrap();
    let mut child = new_artifact(2);
    child.lineage.parent = Some(id(1));
    stores.artifacts.create(child).await.unwrap();
    let stays = stores.annotations.add(new_annotation(11, 2, "gone not")).await.unwrap();
    stores.annotations.add(new_annotation(10, 1, "gone")).await.unwrap();
    assert_eq!(stores.artifacts.remove(id(1)).await, Ok(true));
    assert_eq!(stores.artifacts.remove(id(1)).await, Ok(false));
    assert_eq!(stores.artifacts.get(id(1)).await, Ok(None));
    assert_eq!(listed(stores, ArtifactFilter { tag: Some("a".into()), ..all() }).await, []);
    assert_eq!(stores.annotations.for_artifact(id(1), 10).await, Ok(vec![]));
    stores.annotations.add(new_annotation(12, 2, "in its place")).await.unwrap();
    assert_eq!(stores.annotations.search("gone", 10).await, Ok(vec![stays]), "no word of it is left");
    let child = stores.artifacts.get(id(2)).await.unwrap().unwrap();
    assert_eq!(child.lineage.parent, Some(id(1)), "history stays true");
    let again = stores.artifacts.create(tagged(1, &["b"], "x")).await.unwrap();
    assert_eq!(stores.artifacts.get(id(1)).await, Ok(Some(again)), "and the id is free again");
    assert_eq!(stores.annotations.for_artifact(id(1), 10).await, Ok(vec![]));
}

async fn what_is_too_large_or_malformed_is_refused(stores: &Stores) {
    let long = "x".repeat(MAX_LABEL + 1);
    type Change<'a> = &'a dyn Fn(&mut NewArtifact);
    let cases: [(&str, Change); 9] = [
        ("hash is empty", &|new| new.hash.clear()),
        ("bytes of the mime type", &|new| new.mime = long.clone()),
        ("control character", &|new| new.mime = "a\nb".into()),
        ("tags", &|new| new.lineage.tags = (0..=MAX_TAGS).map(|n| n.to_string()).collect()),
        ("tag is empty", &|new| new.lineage.tags = vec![String::new()]),
        ("creator", &|new| new.lineage.creator = Some(long.clone())),
        ("JSON object", &|new| new.metadata = Some(Payload::json("[1]"))),
        ("JSON object", &|new| new.metadata = Some(Payload::new(Format::MsgPack, "{}"))),
        ("metadata", &|new| new.metadata = Some(Payload::json(" ".repeat(MAX_METADATA + 1)))),
    ];
    for (says, change) in cases {
        let mut new = new_artifact(1);
        change(&mut new);
        assert_invalid(stores.artifacts.create(new).await, says);
    }
    assert_invalid(stores.artifacts.create(NewArtifact { size: u64::MAX, ..new_artifact(1) }).await, "size");
    assert_eq!(listed(stores, all()).await, []);
    for limit in [0, MAX_LIMIT + 1] {
        assert_invalid(stores.artifacts.list(ArtifactFilter { limit, ..all() }).await, "limit");
    }
}
