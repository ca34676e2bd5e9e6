//! Full text and walks on random data, against references that share no code with the stores.

use super::graph::{any, link, query};
use super::rng::Rng;
use super::stores::{Stores, at, id, new_annotation, new_artifact};
use crate::sqlite::tests::TempDir;
use crate::sqlite::{Database, NoFaults};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::stores::{Direction, GraphLink, GraphNodeFilter, GraphQuery, Hint, StoreError};

const TEXTS: u64 = 300;
const QUERIES: usize = 4000;
const GRAPHS: u64 = 150;

#[tokio::test]
async fn full_text_finds_what_a_plain_comparison_finds() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let (file, model) = (Stores::in_sqlite(database.clone()), Stores::in_memory());
    let mut rng = Rng::new(1);
    let texts: Vec<String> = (0..TEXTS).map(|_| random_text(&mut rng, 6)).collect();
    for stores in [&file, &model] {
        stores.artifacts.create(new_artifact(1)).await.unwrap();
        let adds = texts
            .iter()
            .enumerate()
            .map(|(n, text)| stores.annotations.add(new_annotation(n as u64, 1, text)));
        assert!(join_all(adds).await.iter().all(Result::is_ok));
    }
    let (mut hits, mut starred) = (0, 0);
    for _ in 0..QUERIES {
        let text = random_query(&mut rng, &texts);
        let expected: Vec<u64> =
            (0..TEXTS).rev().filter(|&n| plainly_found(&text, &texts[n as usize])).collect();
        let wanted = plain_words(&text).len();
        for stores in [&file, &model] {
            match stores.annotations.search(&text, 1000).await {
                Ok(found) => {
                    let found: Vec<u64> = found.iter().map(|annotation| annotation.id.unix_ms()).collect();
                    assert_eq!(found, expected, "{text:?}");
                }
                Err(error) => assert_eq!(wanted, 0, "{text:?}: {error}"),
            }
        }
        hits += usize::from(!expected.is_empty());
        starred += usize::from(!expected.is_empty() && text.contains('*'));
    }
    assert!(hits > QUERIES / 4 && starred > QUERIES / 20, "{hits} and {starred} hits: this tests little");
    database.close().await;
}

/// Each word with whether a `*` follows it.
fn plain_words(text: &str) -> Vec<(Vec<char>, bool)> {
    let mut words: Vec<(Vec<char>, bool)> = Vec::new();
    let mut inside = false;
    for c in text.chars() {
        if c.is_alphabetic() || c.is_numeric() {
            if !inside {
                words.push((Vec::new(), false));
            }
            let lower = c.to_string().to_lowercase().chars().next().unwrap();
            words.last_mut().unwrap().0.push(if lower == '\u{3c2}' { '\u{3c3}' } else { lower });
            inside = true;
        } else {
            if inside && c == '*' {
                words.last_mut().unwrap().1 = true;
            }
            inside = false;
        }
    }
    words
}

fn plainly_found(query: &str, text: &str) -> bool {
    let (query, text) = (plain_words(query), plain_words(text));
    let fits = |wanted: &(Vec<char>, bool), word: &Vec<char>| match wanted.1 {
        true => word.starts_with(&wanted.0),
        false => *word == wanted.0,
    };
    !query.is_empty() && query.iter().all(|wanted| text.iter().any(|(word, _)| fits(wanted, word)))
}

/// Letters of several scripts, with and without case, marks, digits, signs, and any character at all.
fn random_char(rng: &mut Rng) -> char {
    let (start, length) = match rng.below(12) {
        0..3 => ('a' as u32, 4),
        3 => ('A' as u32, 4),
        4 => ('0' as u32, 3),
        5 => (0xc0, 0x40),
        6 => (0x391, 0x39),
        7 => (0x410, 0x40),
        8 => (0x300, 4),
        9 => (0x4e00, 3),
        10 => {
            return rng
                .pick(&[&'"', &'*', &'\'', &'-', &'\0', &'\u{130}', &'\u{1f600}', &'\u{660}', &'_', &'ẞ'])
                .to_owned();
        }
        _ => (0, 0x0011_0000),
    };
    char::from_u32(start + rng.below(length) as u32).unwrap_or('?')
}

fn random_text(rng: &mut Rng, words: u64) -> String {
    let word = |rng: &mut Rng| (0..=rng.below(3)).map(|_| random_char(rng)).collect::<String>();
    (0..rng.below(words + 1)).map(|_| word(rng)).collect::<Vec<_>>().join(" ")
}

/// Mostly parts of the texts, in another case.
fn random_query(rng: &mut Rng, texts: &[String]) -> String {
    if rng.one_in(5) {
        return random_text(rng, 2);
    }
    let text = &texts[rng.below(TEXTS) as usize];
    let chars: Vec<char> = text.chars().collect();
    let start = rng.below(chars.len() as u64 + 1) as usize;
    let end = start + rng.below((chars.len() - start) as u64 + 1) as usize;
    let part: String = chars[start..end].iter().collect();
    let part = match rng.below(3) {
        0 => part.to_uppercase(),
        1 => part.to_lowercase(),
        _ => part,
    };
    part + rng.pick(&["", "*", "* ", " *"])
}

#[tokio::test]
async fn walks_find_the_shortest_paths_in_random_graphs() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let (file, model) = (Stores::in_sqlite(database.clone()), Stores::in_memory());
    let mut rng = Rng::new(2);
    for graph in 0..GRAPHS {
        let nodes = 1 + rng.below(14);
        let name = |n: u64| format!("{graph}/{n:02}");
        let edges: Vec<GraphLink> = (0..rng.below(3 * nodes))
            .map(|_| {
                let mut edge = link(&name(rng.below(nodes)), &name(rng.below(nodes)));
                edge.transport = rng.one_in(2).then(|| "usb".into());
                edge
            })
            .collect();
        for stores in [&file, &model] {
            let of_graph = |n: u64| Hint {
                kind: "graph".into(),
                value: graph.to_string() + if n == 0 { "" } else { "?" },
                confidence: 1.0,
            };
            let binds = (0..nodes).map(|n| stores.graph.bind(name(n), name(n), vec![of_graph(n)], at(0)));
            assert!(join_all(binds).await.iter().all(Result::is_ok));
            let joins = edges.iter().map(|edge| stores.graph.connect(edge.clone()));
            assert!(join_all(joins).await.iter().all(Result::is_ok));
        }
        // The last of equal links counts.
        let edges: BTreeMap<_, _> =
            edges.into_iter().map(|edge| ((edge.from.clone(), edge.to.clone()), edge)).collect();
        for direction in [Direction::Out, Direction::In, Direction::Both] {
            let start = GraphNodeFilter { hint_value: Some(graph.to_string()), ..any() };
            let mut asked = query(start, direction, rng.below(8) as u32);
            asked.limit = 1 + rng.below(2 * nodes) as usize;
            asked.transport = rng.one_in(3).then(|| "usb".into());
            let (found, connections, truncated) = plain_walk(&asked, &name(0), edges.values());
            for stores in [&file, &model] {
                let walk = stores.graph.walk(asked.clone()).await.unwrap();
                let depths: Vec<_> =
                    walk.found.iter().map(|one| (one.depth, one.identity.id.clone())).collect();
                assert_eq!((depths, walk.truncated), (found.clone(), truncated), "{asked:?} {edges:?}");
                assert_eq!(walk.connections, connections, "{asked:?} {edges:?}");
            }
        }
    }
    database.close().await;
}

/// Reference: shortens distances until nothing changes, which is slow but obviously correct.
fn plain_walk<'a>(
    query: &GraphQuery,
    start: &str,
    edges: impl Iterator<Item = &'a GraphLink>,
) -> (Vec<(u32, String)>, Vec<GraphLink>, bool) {
    let edges: Vec<&GraphLink> =
        edges.filter(|edge| query.transport.is_none() || edge.transport == query.transport).collect();
    let mut far: BTreeMap<String, u32> = BTreeMap::from([(start.to_owned(), 0)]);
    loop {
        let before = far.clone();
        for edge in &edges {
            let ways = [(&edge.from, &edge.to, Direction::Out), (&edge.to, &edge.from, Direction::In)];
            for (here, there, way) in ways {
                if query.direction != way && query.direction != Direction::Both {
                    continue;
                }
                if let Some(&depth) = far.get(here) {
                    let shortest = far.entry(there.clone()).or_insert(u32::MAX);
                    *shortest = (*shortest).min(depth + 1);
                }
            }
        }
        if far == before {
            break;
        }
    }
    let mut found: Vec<(u32, String)> = far
        .into_iter()
        .filter(|(_, depth)| *depth <= query.max_depth)
        .map(|(id, depth)| (depth, id))
        .collect();
    found.sort();
    let truncated = found.len() > query.limit;
    found.truncate(query.limit);
    let reached: BTreeSet<&String> = found.iter().map(|(_, id)| id).collect();
    let mut between: Vec<GraphLink> = edges
        .into_iter()
        .filter(|edge| reached.contains(&edge.from) && reached.contains(&edge.to))
        .cloned()
        .collect();
    between.sort();
    let connections = between;
    (found, connections, truncated)
}

/// The number of paths is exponential in the twenty levels; each node is still visited once.
#[tokio::test]
async fn a_walk_through_many_paths_visits_each_node_once() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let graph = Stores::in_sqlite(database.clone()).graph;
    let node = |level: u32, side: u32| format!("{level:03}/{side:03}");
    let sides = 30;
    let all: Vec<(u32, u32)> = (0..20).flat_map(|level| (0..sides).map(move |side| (level, side))).collect();
    assert!(
        join_all(all.iter().map(|&(level, side)| graph.bind(node(level, side), "n".into(), vec![], at(0))))
            .await
            .iter()
            .all(Result::is_ok)
    );
    for level in 0..20 {
        let next = (level + 1) % 20;
        let pairs = (0..sides).flat_map(|from| (0..sides).map(move |to| (from, to)));
        let joins = pairs.map(|(from, to)| graph.connect(link(&node(level, from), &node(next, to))));
        assert!(join_all(joins).await.iter().all(Result::is_ok));
    }
    let start = GraphNodeFilter { limit: 1, ..any() };
    let around = query(start, Direction::Out, u32::MAX);
    let walk = graph.walk(around.clone()).await.unwrap();
    assert_eq!(walk.found.len(), 600);
    assert_eq!(
        walk.found.last().map(|last| last.depth),
        Some(20),
        "around the ring to the start's neighbours"
    );
    let hurried = GraphQuery { budget: Duration::from_millis(1), ..around };
    assert_eq!(graph.walk(hurried).await, Err(StoreError::Budget { ms: 1 }));
    database.close().await;
}

#[tokio::test]
async fn a_deep_archive_is_read_page_by_page() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let archive = Stores::in_sqlite(database.clone()).archive;
    let entries = (0..2500u64)
        .map(|n| archive.append(super::archive::entry(n, "s", if n % 3 == 0 { "third" } else { "other" })));
    assert!(join_all(entries).await.iter().all(Result::is_ok));
    let mut query = super::archive::all();
    query.words = Some("third".into());
    query.limit = 100;
    let mut read = Vec::new();
    loop {
        let page = archive.read(query.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.id);
        read.extend(page.iter().map(|entry| entry.id));
    }
    assert_eq!(read, (0..2500).step_by(3).map(id).collect::<Vec<_>>());
    database.close().await;
}
