//! Random changes and queries on so few values that they affect each other.

use crate::suite::cases::archive::entry;
use crate::suite::cases::graph::{any, link, query};
use crate::suite::cases::rng::Rng;
use crate::suite::cases::stores::{Stores, at, id, new_annotation, new_artifact};
use std::time::Duration;
use toolyard_engine::stores::{
    Annotation, ArchiveEntry, ArchiveQuery, Artifact, ArtifactFilter, Direction, GraphLink, GraphNode,
    GraphNodeFilter, GraphQuery, Hint, NewAnnotation, NewArtifact, StoreError, Tag, Walk,
};
use toolyard_protocol::{Id, Payload, Rate, Timestamp};

#[derive(Clone, Debug)]
pub enum Change {
    Create(NewArtifact),
    Remove(Id),
    Add(NewAnnotation),
    Bind(String, String, Vec<Hint>, Timestamp),
    Tag(String, Tag),
    Connect(GraphLink),
    Append(ArchiveEntry),
    Take(String, Rate, Timestamp),
}

#[derive(Clone, Debug)]
pub enum Query {
    Artifact(Id),
    List(ArtifactFilter),
    Hashes(Option<String>, usize),
    Of(Id, usize),
    Search(String, usize),
    GraphNode(String),
    Find(GraphNodeFilter),
    Walk(GraphQuery),
    Read(ArchiveQuery),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Artifacts(Vec<Artifact>),
    Removed(bool),
    Annotations(Vec<Annotation>),
    Hashes(Vec<String>),
    Identities(Vec<GraphNode>),
    GraphLink(GraphLink),
    Walk(Walk),
    Entries(Vec<ArchiveEntry>),
    Wait(Option<Duration>),
}

const WORDS: [&str; 8] = ["alpha", "ALPHA", "beta", "Bet", "Größe", "größe", "7", "alphabet"];
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Change {
    pub fn random(rng: &mut Rng) -> Change {
        match rng.below(14) {
            0..3 => Change::Create(artifact(rng)),
            3 => Change::Remove(id(rng.below(8))),
            4..6 => {
                let mut new = new_annotation(rng.below(12), rng.below(8), &text(rng));
                new.source = rng.one_in(2).then(|| text(rng));
                new.vibe = rng.one_in(3).then(|| text(rng));
                Change::Add(new)
            }
            6..8 => {
                let hints = (0..rng.below(3)).map(|_| hint(rng)).collect();
                Change::Bind(node(rng), text(rng) + ".", hints, at(rng.below(50)))
            }
            8 => Change::Tag(node(rng), tag(rng)),
            9..11 => {
                let mut new = link(&node(rng), &node(rng));
                new.to_port = rng.pick(&["in", "in 2"]).into();
                new.transport = rng.one_in(2).then(|| rng.pick(&["usb", "midi"]).into());
                Change::Connect(new)
            }
            11 => {
                let mut new = entry(rng.below(12), rng.pick(&["s", "t"]), &text(rng));
                new.body = Payload::json(rng.below(9).to_string());
                Change::Append(new)
            }
            _ => {
                let rate = Rate {
                    calls: 1 + rng.below(3) as u32,
                    per: Duration::from_millis(rng.pick(&[&1000u64, &7000, &1]).to_owned()),
                };
                Change::Take(rng.pick(&["k", "l", "m", "n"]).into(), rate, at(100_000 + rng.below(9000)))
            }
        }
    }

    pub async fn apply(self, stores: &Stores) -> Result<Answer, StoreError> {
        match self {
            Change::Create(new) => stores.artifacts.create(new).await.map(|one| Answer::Artifacts(vec![one])),
            Change::Remove(id) => stores.artifacts.remove(id).await.map(Answer::Removed),
            Change::Add(new) => stores.annotations.add(new).await.map(|one| Answer::Annotations(vec![one])),
            Change::Bind(id, name, hints, now) => {
                stores.graph.bind(id, name, hints, now).await.map(|one| Answer::Identities(vec![one]))
            }
            Change::Tag(id, tag) => stores.graph.tag(id, tag).await.map(|one| Answer::Identities(vec![one])),
            Change::Connect(new) => stores.graph.connect(new).await.map(Answer::GraphLink),
            Change::Append(new) => stores.archive.append(new).await.map(|()| Answer::Entries(vec![])),
            Change::Take(key, rate, now) => stores.limits.take(key, rate, now).await.map(Answer::Wait),
        }
    }
}

impl Query {
    pub fn random(rng: &mut Rng) -> Query {
        let limit = rng.below(6) as usize;
        match rng.below(9) {
            0 => Query::Artifact(id(rng.below(8))),
            1 => Query::List(ArtifactFilter {
                tag: rng.one_in(2).then(|| rng.pick(&["x", "y"]).into()),
                creator: rng.one_in(3).then(|| rng.pick(&["me", "you"]).into()),
                since: rng.one_in(3).then(|| at(rng.below(9))),
                before: rng.one_in(2).then(|| id(rng.below(9))),
                limit,
            }),
            2 => Query::Hashes(rng.one_in(2).then(|| rng.pick(&["h0", "h1", "zz"]).into()), limit),
            3 => Query::Of(id(rng.below(8)), limit),
            4 => Query::Search(search(rng), limit),
            5 => Query::GraphNode(node(rng)),
            6 => Query::Find(filter(rng, limit)),
            7 => {
                let direction = *rng.pick(&[&Direction::Out, &Direction::In, &Direction::Both]);
                let starts = 1 + rng.below(4) as usize;
                let mut walk = query(filter(rng, starts), direction, rng.below(5) as u32);
                walk.transport = rng.one_in(3).then(|| rng.pick(&["usb", "midi"]).into());
                walk.limit = limit;
                Query::Walk(walk)
            }
            _ => Query::Read(ArchiveQuery {
                stream: rng.one_in(2).then(|| rng.pick(&["s", "t"]).into()),
                words: rng.one_in(2).then(|| search(rng)),
                after: rng.one_in(3).then(|| id(rng.below(12))),
                limit,
            }),
        }
    }

    pub async fn run(self, stores: &Stores) -> Result<Answer, StoreError> {
        let Stores { artifacts, annotations, graph, archive, .. } = stores;
        match self {
            Query::Artifact(id) => artifacts.get(id).await.map(|one| Answer::Artifacts(Vec::from_iter(one))),
            Query::List(filter) => artifacts.list(filter).await.map(Answer::Artifacts),
            Query::Hashes(after, limit) => artifacts.hashes(after, limit).await.map(Answer::Hashes),
            Query::Of(id, limit) => annotations.for_artifact(id, limit).await.map(Answer::Annotations),
            Query::Search(words, limit) => annotations.search(&words, limit).await.map(Answer::Annotations),
            Query::GraphNode(id) => graph.get(id).await.map(|one| Answer::Identities(Vec::from_iter(one))),
            Query::Find(filter) => graph.find(filter).await.map(Answer::Identities),
            Query::Walk(query) => graph.walk(query).await.map(Answer::Walk),
            Query::Read(query) => archive.read(query).await.map(Answer::Entries),
        }
    }

    /// Together they return everything that is stored, the indexes included.
    pub fn everything() -> Vec<Query> {
        let most = 1000;
        let mut all = vec![
            Query::List(ArtifactFilter { limit: most, ..ArtifactFilter::default() }),
            Query::Hashes(None, most),
            Query::Walk(query(any(), Direction::Both, 0)),
            Query::Read(ArchiveQuery { limit: most, ..ArchiveQuery::default() }),
        ];
        all.extend(["x", "y"].map(|tag| {
            Query::List(ArtifactFilter { tag: Some(tag.into()), limit: most, ..ArtifactFilter::default() })
        }));
        all.extend((0..8).map(|n| Query::Of(id(n), most)));
        for words in ["a*", "b*", "g*", "7*"] {
            all.push(Query::Search(words.into(), most));
            let words = Some(words.into());
            all.push(Query::Read(ArchiveQuery { words, limit: most, ..ArchiveQuery::default() }));
        }
        all
    }
}

fn artifact(rng: &mut Rng) -> NewArtifact {
    let mut new = new_artifact(rng.below(8));
    new.hash = format!("h{}", rng.below(3));
    new.lineage.tags = (0..rng.below(3)).map(|_| rng.pick(&["x", "y"]).into()).collect();
    new.lineage.creator = rng.one_in(2).then(|| rng.pick(&["me", "you"]).into());
    new.metadata = rng.one_in(3).then(|| Payload::json(format!("{{\"n\":{}}}", rng.below(9))));
    new
}

fn node(rng: &mut Rng) -> String {
    rng.pick(&NODES).into()
}

fn hint(rng: &mut Rng) -> Hint {
    let (kind, value) = (rng.pick(&["usb", "midi"]).into(), rng.below(2).to_string());
    Hint { kind, value, confidence: rng.below(5) as f64 / 4.0 }
}

fn tag(rng: &mut Rng) -> Tag {
    Tag { namespace: rng.pick(&["role", "mood"]).into(), value: rng.below(2).to_string() }
}

fn text(rng: &mut Rng) -> String {
    (0..rng.below(4)).map(|_| rng.pick(&WORDS)).collect::<Vec<_>>().join(rng.pick(&[" ", "-", "... "]))
}

fn search(rng: &mut Rng) -> String {
    text(rng) + rng.pick(&["", "*", " \"", " bet*"])
}

fn filter(rng: &mut Rng, limit: usize) -> GraphNodeFilter {
    let mut maybe = |choices: &[&str]| rng.one_in(4).then(|| rng.pick(choices).to_owned());
    GraphNodeFilter {
        name: maybe(&["ALPH", "bet", "ö", "."]),
        tag_namespace: maybe(&["role", "mood"]),
        tag_value: maybe(&["0", "1"]),
        hint_kind: maybe(&["usb", "midi"]),
        hint_value: maybe(&["0", "1"]),
        limit,
    }
}
