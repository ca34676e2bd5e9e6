//! Conformance cases of the graph.

use super::stores::{Stores, assert_invalid, at, cases};
use crate::bounds::{LINKS_PER_NODE, MAX_BUDGET, MAX_HINTS, MAX_LABEL, MAX_LIMIT, MAX_TAGS};
use std::time::Duration;
use toolyard_engine::stores::{
    Direction, GraphLink, GraphNode, GraphNodeFilter, GraphQuery, Hint, StoreError, Tag, Walk,
};

cases! {
    binding_creates_renames_and_adds_hints
    a_tag_twice_is_once
    connections_need_both_ends_and_are_once_each
    nodes_are_found_by_id_and_every_part_must_match
    a_walk_takes_the_shortest_path_and_survives_cycles
    a_walk_follows_direction_and_transport
    a_walk_reports_what_its_limits_cut_off
    a_walk_stops_when_its_time_is_over
    what_is_too_large_or_malformed_is_refused
}

fn hint(kind: &str, value: &str, confidence: f64) -> Hint {
    Hint { kind: kind.into(), value: value.into(), confidence }
}

fn tag(namespace: &str, value: &str) -> Tag {
    Tag { namespace: namespace.into(), value: value.into() }
}

pub fn link(from: &str, to: &str) -> GraphLink {
    GraphLink {
        from: from.into(),
        from_port: "out".into(),
        to: to.into(),
        to_port: "in".into(),
        transport: None,
    }
}

pub fn any() -> GraphNodeFilter {
    GraphNodeFilter { limit: MAX_LIMIT, ..GraphNodeFilter::default() }
}

fn named(name: &str) -> GraphNodeFilter {
    GraphNodeFilter { name: Some(name.into()), ..any() }
}

pub fn query(start: GraphNodeFilter, direction: Direction, max_depth: u32) -> GraphQuery {
    let budget = Duration::from_secs(20);
    GraphQuery { start, direction, transport: None, max_depth, limit: MAX_LIMIT, budget }
}

async fn bind(stores: &Stores, id: &str, hints: Vec<Hint>) -> Result<GraphNode, StoreError> {
    stores.graph.bind(id.into(), format!("name of {id}"), hints, at(1)).await
}

async fn edges(stores: &Stores, edges: &[(&str, &str)]) {
    for (from, to) in edges {
        bind(stores, from, vec![]).await.unwrap();
        bind(stores, to, vec![]).await.unwrap();
        stores.graph.connect(link(from, to)).await.unwrap();
    }
}

fn depths(walk: &Walk) -> Vec<(&str, u32)> {
    walk.found.iter().map(|found| (found.identity.id.as_str(), found.depth)).collect()
}

async fn binding_creates_renames_and_adds_hints(stores: &Stores) {
    let graph = &stores.graph;
    let bound = graph.bind("synth".into(), "Jdxi".into(), vec![hint("usb", "1", 0.5)], at(5)).await.unwrap();
    let expected = GraphNode {
        id: "synth".into(),
        name: "Jdxi".into(),
        hints: vec![hint("usb", "1", 0.5)],
        tags: vec![],
        created: at(5),
    };
    assert_eq!(bound, expected);
    let hints =
        vec![hint("usb", "0", 1.0), hint("alsa", "z", 0.0), hint("usb", "1", 0.25), hint("usb", "1", 0.75)];
    let again = graph.bind("synth".into(), "JD-Xi".into(), hints, at(9)).await.unwrap();
    assert_eq!((again.name.as_str(), again.created), ("JD-Xi", at(5)), "renamed, with its old creation time");
    assert_eq!(again.hints, [hint("alsa", "z", 0.0), hint("usb", "0", 1.0), hint("usb", "1", 0.75)]);
    assert_eq!(graph.get("synth".into()).await, Ok(Some(again)));
    assert_eq!(graph.get("Synth".into()).await, Ok(None));
}

async fn a_tag_twice_is_once(stores: &Stores) {
    let missing = StoreError::NotFound { what: "identity", id: "a".into() };
    assert_eq!(stores.graph.tag("a".into(), tag("role", "lead")).await, Err(missing));
    bind(stores, "a", vec![]).await.unwrap();
    stores.graph.tag("a".into(), tag("role", "lead")).await.unwrap();
    stores.graph.tag("a".into(), tag("maker", "roland")).await.unwrap();
    let tagged = stores.graph.tag("a".into(), tag("role", "lead")).await.unwrap();
    assert_eq!(tagged.tags, [tag("maker", "roland"), tag("role", "lead")]);
    assert_eq!(bind(stores, "a", vec![]).await.unwrap().tags, tagged.tags, "binding again keeps the tags");
    assert_eq!(stores.graph.get("a".into()).await.unwrap().unwrap().tags, tagged.tags);
}

async fn connections_need_both_ends_and_are_once_each(stores: &Stores) {
    bind(stores, "a", vec![]).await.unwrap();
    for (from, to) in [("a", "b"), ("b", "a")] {
        let missing = StoreError::NotFound { what: "identity", id: "b".into() };
        assert_eq!(stores.graph.connect(link(from, to)).await, Err(missing));
    }
    bind(stores, "b", vec![]).await.unwrap();
    assert_eq!(stores.graph.connect(link("a", "b")).await, Ok(link("a", "b")));
    let over_usb = GraphLink { transport: Some("usb".into()), ..link("a", "b") };
    assert_eq!(stores.graph.connect(over_usb.clone()).await, Ok(over_usb.clone()));
    let other_port = GraphLink { to_port: "in 2".into(), ..link("a", "b") };
    stores.graph.connect(other_port.clone()).await.unwrap();
    stores.graph.connect(link("a", "a")).await.unwrap();
    let walk = stores.graph.walk(query(any(), Direction::Out, 0)).await.unwrap();
    assert_eq!(walk.connections, [link("a", "a"), over_usb, other_port]);
}

async fn nodes_are_found_by_id_and_every_part_must_match(stores: &Stores) {
    let graph = &stores.graph;
    for (id, name) in [("c", "Bass 100%"), ("a", "BASS drum"), ("b", "Ünder_bass"), ("d", "lead")] {
        graph.bind(id.into(), name.into(), vec![], at(1)).await.unwrap();
    }
    for (id, namespace, value) in [("a", "role", "low"), ("a", "mood", "dark"), ("b", "role", "dark")] {
        graph.tag(id.into(), tag(namespace, value)).await.unwrap();
    }
    graph
        .bind("c".into(), "Bass 100%".into(), vec![hint("usb", "1", 1.0), hint("midi", "2", 1.0)], at(1))
        .await
        .unwrap();
    graph.bind("d".into(), "lead".into(), vec![hint("usb", "2", 1.0)], at(1)).await.unwrap();
    type Change = fn(&mut GraphNodeFilter);
    let cases: [(Change, &[&str]); 15] = [
        (|_| {}, &["a", "b", "c", "d"]),
        (|f| f.limit = 3, &["a", "b", "c"]),
        (|f| f.name = Some("bAsS".into()), &["a", "b", "c"]),
        (|f| f.name = Some("ünder".into()), &[]),
        (|f| f.name = Some("%".into()), &["c"]),
        (|f| f.name = Some("_".into()), &["b"]),
        (|f| f.name = Some(String::new()), &["a", "b", "c", "d"]),
        (|f| f.tag_namespace = Some("role".into()), &["a", "b"]),
        (|f| f.tag_value = Some("dark".into()), &["a", "b"]),
        (|f| (f.tag_namespace, f.tag_value) = (Some("role".into()), Some("dark".into())), &["b"]),
        (|f| f.hint_kind = Some("usb".into()), &["c", "d"]),
        (|f| f.hint_value = Some("2".into()), &["c", "d"]),
        (|f| (f.hint_kind, f.hint_value) = (Some("usb".into()), Some("2".into())), &["d"]),
        (|f| (f.name, f.tag_namespace) = (Some("under".into()), Some("role".into())), &[]),
        (|f| (f.name, f.tag_value, f.limit) = (Some("bass".into()), Some("dark".into()), 1), &["a"]),
    ];
    for (change, expected) in cases {
        let mut filter = any();
        change(&mut filter);
        let found = graph.find(filter.clone()).await.unwrap();
        assert_eq!(
            found.iter().map(|identity| identity.id.as_str()).collect::<Vec<_>>(),
            expected,
            "{filter:?}"
        );
        for identity in found {
            assert_eq!(graph.get(identity.id.clone()).await, Ok(Some(identity)), "found whole");
        }
    }
}

async fn a_walk_takes_the_shortest_path_and_survives_cycles(stores: &Stores) {
    edges(stores, &[("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"), ("c", "d"), ("d", "d"), ("x", "a")])
        .await;
    let from_a = |depth| query(named("of a"), Direction::Out, depth);
    let walk = stores.graph.walk(from_a(u32::MAX)).await.unwrap();
    assert_eq!(depths(&walk), [("a", 0), ("b", 1), ("c", 1), ("d", 2)]);
    assert!(!walk.truncated);
    let all = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d")];
    assert_eq!(walk.connections, all.map(|(from, to)| link(from, to)));
    let walk = stores.graph.walk(from_a(1)).await.unwrap();
    assert_eq!(depths(&walk), [("a", 0), ("b", 1), ("c", 1)]);
    assert_eq!(walk.connections.len(), 4);
    assert_eq!(depths(&stores.graph.walk(from_a(0)).await.unwrap()), [("a", 0)]);
    let nowhere = stores.graph.walk(query(named("nobody"), Direction::Both, 5)).await.unwrap();
    assert_eq!(nowhere, Walk::default());
}

async fn a_walk_follows_direction_and_transport(stores: &Stores) {
    edges(stores, &[("a", "b"), ("b", "c"), ("d", "b")]).await;
    let over_usb = GraphLink { transport: Some("usb".into()), ..link("b", "c") };
    stores.graph.connect(over_usb.clone()).await.unwrap();
    let from_b = |direction| query(named("of b"), direction, 9);
    for (direction, expected) in [
        (Direction::Out, &[("b", 0), ("c", 1)][..]),
        (Direction::In, &[("b", 0), ("a", 1), ("d", 1)]),
        (Direction::Both, &[("b", 0), ("a", 1), ("c", 1), ("d", 1)]),
    ] {
        let walk = stores.graph.walk(from_b(direction)).await.unwrap();
        assert_eq!(depths(&walk), expected, "{direction:?}");
    }
    let both = query(named("of a"), Direction::Both, 9);
    assert_eq!(depths(&stores.graph.walk(both).await.unwrap()), [("a", 0), ("b", 1), ("c", 2), ("d", 2)]);
    let usb = GraphQuery { transport: Some("usb".into()), ..from_b(Direction::Both) };
    let walk = stores.graph.walk(usb).await.unwrap();
    assert_eq!((depths(&walk), &walk.connections[..]), (vec![("b", 0), ("c", 1)], &[over_usb][..]));
}

async fn a_walk_reports_what_its_limits_cut_off(stores: &Stores) {
    edges(stores, &[("a", "d"), ("a", "c"), ("a", "b"), ("b", "e")]).await;
    let mut from_a = query(named("of a"), Direction::Out, 9);
    from_a.limit = 5;
    assert!(!stores.graph.walk(from_a.clone()).await.unwrap().truncated);
    from_a.limit = 3;
    let walk = stores.graph.walk(from_a.clone()).await.unwrap();
    assert_eq!((depths(&walk), walk.truncated), (vec![("a", 0), ("b", 1), ("c", 1)], true));
    assert_eq!(walk.connections, [link("a", "b"), link("a", "c")]);
    let mut anywhere = query(any(), Direction::Out, 0);
    anywhere.start.limit = 2;
    let walk = stores.graph.walk(anywhere).await.unwrap();
    assert_eq!((depths(&walk), walk.truncated), (vec![("a", 0), ("b", 0)], true), "starts are limited too");
    for port in 0..=2 * LINKS_PER_NODE {
        let many = GraphLink { to_port: format!("{port:04}"), ..link("d", "d") };
        stores.graph.connect(many).await.unwrap();
    }
    let mut from_d = query(named("of d"), Direction::Out, 9);
    from_d.limit = 2;
    let walk = stores.graph.walk(from_d).await.unwrap();
    assert_eq!((walk.connections.len(), walk.truncated), (2 * LINKS_PER_NODE, true));
    assert!(walk.connections.is_sorted());
}

async fn a_walk_stops_when_its_time_is_over(stores: &Stores) {
    edges(stores, &[("a", "b")]).await;
    let none = GraphQuery { budget: Duration::ZERO, ..query(any(), Direction::Out, 1) };
    assert_eq!(stores.graph.walk(none).await, Err(StoreError::Budget { ms: 0 }));
    assert!(stores.graph.walk(query(any(), Direction::Out, 1)).await.is_ok(), "the store goes on");
}

async fn what_is_too_large_or_malformed_is_refused(stores: &Stores) {
    let long = "x".repeat(MAX_LABEL + 1);
    assert_invalid(bind(stores, "", vec![]).await, "id is empty");
    assert_invalid(bind(stores, &long, vec![]).await, "bytes of the id");
    assert_invalid(stores.graph.bind("a".into(), "a\u{7}".into(), vec![], at(1)).await, "control character");
    for wrong in [1.5, -0.1, f64::NAN, f64::INFINITY] {
        assert_invalid(bind(stores, "a", vec![hint("usb", "1", wrong)]).await, "confidence");
    }
    assert_eq!(stores.graph.get("a".into()).await, Ok(None), "nothing of what was refused is stored");
    let many: Vec<Hint> = (0..MAX_HINTS).map(|n| hint("usb", &n.to_string(), 1.0)).collect();
    let full = bind(stores, "a", many).await.unwrap();
    assert_invalid(bind(stores, "a", vec![hint("usb", "more", 1.0)]).await, "hints");
    assert_eq!(stores.graph.get("a".into()).await, Ok(Some(full)));
    for n in 0..MAX_TAGS {
        stores.graph.tag("a".into(), tag("n", &n.to_string())).await.unwrap();
    }
    assert_invalid(stores.graph.tag("a".into(), tag("n", "more")).await, "tags");
    assert!(stores.graph.tag("a".into(), tag("n", "0")).await.is_ok(), "one it has is no change");
    assert_invalid(stores.graph.tag("a".into(), tag("", "x")).await, "namespace is empty");
    assert_invalid(stores.graph.connect(GraphLink { to_port: long, ..link("a", "a") }).await, "port");
    for limit in [0, MAX_LIMIT + 1] {
        assert_invalid(stores.graph.find(GraphNodeFilter { limit, ..any() }).await, "limit");
        assert_invalid(
            stores.graph.walk(GraphQuery { limit, ..query(any(), Direction::In, 1) }).await,
            "limit",
        );
        let start = GraphNodeFilter { limit, ..any() };
        assert_invalid(stores.graph.walk(query(start, Direction::In, 1)).await, "limit");
    }
    let budget = MAX_BUDGET + Duration::from_nanos(1);
    assert_invalid(
        stores.graph.walk(GraphQuery { budget, ..query(any(), Direction::In, 1) }).await,
        "budget",
    );
}
