//! Conformance cases of annotations and their search.

use super::stores::{Stores, assert_invalid, cases, id, new_annotation, new_artifact};
use crate::bounds::{MAX_LIMIT, MAX_MESSAGE};
use toolyard_engine::stores::{NewAnnotation, StoreError};
use toolyard_protocol::Id;

cases! {
    an_annotation_needs_its_artifact
    an_equal_annotation_is_returned
    those_of_an_artifact_come_oldest_first
    every_word_occurs_somewhere
    case_does_not_count_but_accents_do
    a_star_matches_a_prefix
    the_query_is_never_syntax
    results_come_newest_first_up_to_the_limit
    what_is_too_large_is_refused
}

async fn add_annotations(stores: &Stores, messages: &[&str]) {
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    for (n, message) in messages.iter().enumerate() {
        stores.annotations.add(new_annotation(n as u64, 1, message)).await.unwrap();
    }
}

async fn found(stores: &Stores, query: &str) -> Vec<u64> {
    let found = stores.annotations.search(query, MAX_LIMIT).await.unwrap();
    found.iter().map(|annotation| annotation.id.unix_ms()).collect()
}

async fn an_annotation_needs_its_artifact(stores: &Stores) {
    let missing = StoreError::NotFound { what: "artifact", id: id(1).to_string() };
    assert_eq!(stores.annotations.add(new_annotation(5, 1, "x")).await, Err(missing));
    assert_eq!(stores.annotations.search("x", 10).await, Ok(vec![]));
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    let new = NewAnnotation {
        source: Some("agent\0".into()),
        vibe: Some(String::new()),
        ..new_annotation(5, 1, "two\nlines")
    };
    let added = stores.annotations.add(new).await.unwrap();
    assert_eq!((added.message.as_str(), added.source.as_deref()), ("two\nlines", Some("agent\0")));
    assert_eq!(added.vibe.as_deref(), Some(""), "an empty text is not a missing one");
    assert_eq!(stores.annotations.for_artifact(id(1), 10).await, Ok(vec![added]));
}

async fn an_equal_annotation_is_returned(stores: &Stores) {
    add_annotations(stores, &["first"]).await;
    let again = stores.annotations.add(new_annotation(0, 1, "first")).await.unwrap();
    assert_eq!(stores.annotations.for_artifact(id(1), 10).await, Ok(vec![again]));
    assert_invalid(stores.annotations.add(new_annotation(0, 1, "second")).await, "use a new one");
    assert_eq!(found(stores, "second").await, [0u64; 0]);
    assert_eq!(found(stores, "first").await, [0]);
}

async fn those_of_an_artifact_come_oldest_first(stores: &Stores) {
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    stores.artifacts.create(new_artifact(2)).await.unwrap();
    for (n, artifact) in [(30, 1), (10, 1), (20, 2), (25, 1)] {
        stores.annotations.add(new_annotation(n, artifact, "x")).await.unwrap();
    }
    let of = async |artifact, limit| {
        let all = stores.annotations.for_artifact(artifact, limit).await.unwrap();
        all.into_iter().map(|annotation| annotation.id).collect::<Vec<Id>>()
    };
    assert_eq!(of(id(1), 10).await, [id(10), id(25), id(30)]);
    assert_eq!(of(id(1), 2).await, [id(10), id(25)]);
    assert_eq!(of(id(3), 2).await, []);
    for limit in [0, MAX_LIMIT + 1] {
        assert_invalid(stores.annotations.for_artifact(id(1), limit).await, "limit");
    }
}

async fn every_word_occurs_somewhere(stores: &Stores) {
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    let spread = NewAnnotation {
        source: Some("agent-7".into()),
        vibe: Some("warm, slow".into()),
        ..new_annotation(1, 1, "a bass line")
    };
    stores.annotations.add(spread).await.unwrap();
    stores.annotations.add(new_annotation(2, 1, "bass drum")).await.unwrap();
    for (query, expected) in [
        ("bass", &[2, 1][..]),
        ("bass line", &[1]),
        ("warm bass 7 agent", &[1]),
        ("slow drum", &[]),
        ("bass bass", &[2, 1]),
        ("bas", &[]),
        ("linewarm", &[]),
        ("lineagent", &[]),
    ] {
        assert_eq!(found(stores, query).await, expected, "{query:?}");
    }
}

async fn case_does_not_count_but_accents_do(stores: &Stores) {
    add_annotations(
        stores,
        &["GRÖẞE", "größe", "grosse", "Ελλάδος", "ΕΛΛΆΔΟΣ", "ЁЛКА", "e\u{301}tude", "étude", "日本語"],
    )
    .await;
    for (query, expected) in [
        ("Größe", &[1, 0][..]),
        ("grösse", &[]),
        ("ελλάδοσ", &[4, 3]),
        ("ёлка", &[5]),
        ("елка", &[]),
        ("ÉTUDE", &[7]),
        ("tude", &[6]),
        ("日本語", &[8]),
        ("日本*", &[8]),
        ("本", &[]),
    ] {
        assert_eq!(found(stores, query).await, expected, "{query:?}");
    }
}

async fn a_star_matches_a_prefix(stores: &Stores) {
    add_annotations(stores, &["melody", "melodic mood", "mel", "caramel"]).await;
    for (query, expected) in [
        ("mel*", &[2, 1, 0][..]),
        ("MELO*", &[1, 0]),
        ("mel* mo*", &[1]),
        ("mel *", &[2]),
        ("*mel", &[2]),
        ("melodymelody*", &[]),
        ("mel**", &[2, 1, 0]),
    ] {
        assert_eq!(found(stores, query).await, expected, "{query:?}");
    }
}

async fn the_query_is_never_syntax(stores: &Stores) {
    add_annotations(stores, &["alpha beta", "alpha or beta not near and", "words alpha"]).await;
    for (query, expected) in [
        ("alpha OR gamma", &[][..]),
        ("alpha OR beta", &[1]),
        ("alpha NOT beta", &[1]),
        ("\"alpha beta\"", &[1, 0]),
        ("\"beta alpha\"", &[1, 0]),
        ("words:alpha", &[2]),
        ("-alpha", &[2, 1, 0]),
        ("^alpha", &[2, 1, 0]),
        ("alpha + beta", &[1, 0]),
        ("NEAR(alpha beta)", &[1]),
        ("alpha\" OR \"words", &[]),
        ("alpha'; DROP TABLE annotation; --", &[]),
        ("alpha\0beta", &[1, 0]),
        ("{alpha}", &[2, 1, 0]),
    ] {
        assert_eq!(found(stores, query).await, expected, "{query:?}");
    }
    for nothing in ["", "*", "\"\"", "()", "\0"] {
        assert_invalid(stores.annotations.search(nothing, 10).await, "no word");
    }
}

async fn results_come_newest_first_up_to_the_limit(stores: &Stores) {
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    for n in [3, 1, 2] {
        stores.annotations.add(new_annotation(n, 1, "same")).await.unwrap();
    }
    assert_eq!(found(stores, "same").await, [3, 2, 1]);
    let two = stores.annotations.search("same", 2).await.unwrap();
    assert_eq!(two.iter().map(|annotation| annotation.id).collect::<Vec<_>>(), [id(3), id(2)]);
    for limit in [0, MAX_LIMIT + 1] {
        assert_invalid(stores.annotations.search("same", limit).await, "limit");
    }
}

async fn what_is_too_large_is_refused(stores: &Stores) {
    stores.artifacts.create(new_artifact(1)).await.unwrap();
    let large = "word ".repeat(MAX_MESSAGE / 5);
    let mut new = new_annotation(1, 1, &large);
    new.vibe = Some("12345".into());
    assert_invalid(stores.annotations.add(new).await, "bytes of an annotation");
    stores.annotations.add(new_annotation(1, 1, &large)).await.unwrap();
    stores.annotations.add(new_annotation(2, 1, &"x".repeat(MAX_MESSAGE))).await.unwrap();
    assert_eq!(found(stores, "word").await, [1]);
    assert_eq!(found(stores, "x*").await, [2]);
}
