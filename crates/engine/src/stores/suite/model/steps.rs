//! Random changes and questions, small enough that they meet each other.

use crate::stores::suite::archive::entry;
use crate::stores::suite::dice::Dice;
use crate::stores::suite::graph::{any, joint, query};
use crate::stores::suite::stores::{Stores, at, id, new_annotation, new_artifact};
use crate::stores::{
    Annotation, ArchiveEntry, ArchiveQuery, Artifact, ArtifactFilter, Connection, Direction, GraphQuery,
    Hint, Identity, IdentityFilter, NewAnnotation, NewArtifact, StoreError, Tag, Walk,
};
use std::time::Duration;
use toolyard_protocol::{Id, Payload, Rate, Timestamp};

#[derive(Clone, Debug)]
pub enum Change {
    Create(NewArtifact),
    Remove(Id),
    Add(NewAnnotation),
    Bind(String, String, Vec<Hint>, Timestamp),
    Tag(String, Tag),
    Connect(Connection),
    Append(ArchiveEntry),
    Take(String, Rate, Timestamp),
}

#[derive(Clone, Debug)]
pub enum Question {
    Artifact(Id),
    List(ArtifactFilter),
    Hashes(Option<String>, usize),
    Of(Id, usize),
    Search(String, usize),
    Identity(String),
    Find(IdentityFilter),
    Walk(GraphQuery),
    Read(ArchiveQuery),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Artifacts(Vec<Artifact>),
    Removed(bool),
    Annotations(Vec<Annotation>),
    Hashes(Vec<String>),
    Identities(Vec<Identity>),
    Connection(Connection),
    Walk(Walk),
    Entries(Vec<ArchiveEntry>),
    Wait(Option<Duration>),
}

const WORDS: [&str; 8] = ["alpha", "ALPHA", "beta", "Bet", "Größe", "größe", "7", "alphabet"];
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Change {
    pub fn random(dice: &mut Dice) -> Change {
        match dice.roll(14) {
            0..3 => Change::Create(artifact(dice)),
            3 => Change::Remove(id(dice.roll(8))),
            4..6 => {
                let mut new = new_annotation(dice.roll(12), dice.roll(8), &text(dice));
                new.source = dice.rarely(2).then(|| text(dice));
                new.vibe = dice.rarely(3).then(|| text(dice));
                Change::Add(new)
            }
            6..8 => {
                let hints = (0..dice.roll(3)).map(|_| hint(dice)).collect();
                Change::Bind(node(dice), text(dice) + ".", hints, at(dice.roll(50)))
            }
            8 => Change::Tag(node(dice), tag(dice)),
            9..11 => {
                let mut new = joint(&node(dice), &node(dice));
                new.to_port = dice.pick(&["in", "in 2"]).into();
                new.transport = dice.rarely(2).then(|| dice.pick(&["usb", "midi"]).into());
                Change::Connect(new)
            }
            11 => {
                let mut new = entry(dice.roll(12), dice.pick(&["s", "t"]), &text(dice));
                new.body = Payload::json(dice.roll(9).to_string());
                Change::Append(new)
            }
            _ => {
                let rate = Rate {
                    calls: 1 + dice.roll(3) as u32,
                    per: Duration::from_millis(dice.pick(&[&1000u64, &7000, &1]).to_owned()),
                };
                Change::Take(dice.pick(&["k", "l", "m", "n"]).into(), rate, at(100_000 + dice.roll(9000)))
            }
        }
    }

    pub async fn make(self, stores: &Stores) -> Result<Answer, StoreError> {
        match self {
            Change::Create(new) => stores.artifacts.create(new).await.map(|one| Answer::Artifacts(vec![one])),
            Change::Remove(id) => stores.artifacts.remove(id).await.map(Answer::Removed),
            Change::Add(new) => stores.annotations.add(new).await.map(|one| Answer::Annotations(vec![one])),
            Change::Bind(id, name, hints, now) => {
                stores.graph.bind(id, name, hints, now).await.map(|one| Answer::Identities(vec![one]))
            }
            Change::Tag(id, tag) => stores.graph.tag(id, tag).await.map(|one| Answer::Identities(vec![one])),
            Change::Connect(new) => stores.graph.connect(new).await.map(Answer::Connection),
            Change::Append(new) => stores.archive.append(new).await.map(|()| Answer::Entries(vec![])),
            Change::Take(key, rate, now) => stores.limits.take(key, rate, now).await.map(Answer::Wait),
        }
    }
}

impl Question {
    pub fn random(dice: &mut Dice) -> Question {
        let limit = dice.roll(6) as usize;
        match dice.roll(9) {
            0 => Question::Artifact(id(dice.roll(8))),
            1 => Question::List(ArtifactFilter {
                tag: dice.rarely(2).then(|| dice.pick(&["x", "y"]).into()),
                creator: dice.rarely(3).then(|| dice.pick(&["me", "you"]).into()),
                since: dice.rarely(3).then(|| at(dice.roll(9))),
                before: dice.rarely(2).then(|| id(dice.roll(9))),
                limit,
            }),
            2 => Question::Hashes(dice.rarely(2).then(|| dice.pick(&["h0", "h1", "zz"]).into()), limit),
            3 => Question::Of(id(dice.roll(8)), limit),
            4 => Question::Search(search(dice), limit),
            5 => Question::Identity(node(dice)),
            6 => Question::Find(filter(dice, limit)),
            7 => {
                let direction = *dice.pick(&[&Direction::Out, &Direction::In, &Direction::Both]);
                let starts = 1 + dice.roll(4) as usize;
                let mut walk = query(filter(dice, starts), direction, dice.roll(5) as u32);
                walk.transport = dice.rarely(3).then(|| dice.pick(&["usb", "midi"]).into());
                walk.limit = limit;
                Question::Walk(walk)
            }
            _ => Question::Read(ArchiveQuery {
                stream: dice.rarely(2).then(|| dice.pick(&["s", "t"]).into()),
                words: dice.rarely(2).then(|| search(dice)),
                after: dice.rarely(3).then(|| id(dice.roll(12))),
                limit,
            }),
        }
    }

    pub async fn ask(self, stores: &Stores) -> Result<Answer, StoreError> {
        let Stores { artifacts, annotations, graph, archive, .. } = stores;
        match self {
            Question::Artifact(id) => {
                artifacts.get(id).await.map(|one| Answer::Artifacts(Vec::from_iter(one)))
            }
            Question::List(filter) => artifacts.list(filter).await.map(Answer::Artifacts),
            Question::Hashes(after, limit) => artifacts.hashes(after, limit).await.map(Answer::Hashes),
            Question::Of(id, limit) => annotations.of(id, limit).await.map(Answer::Annotations),
            Question::Search(words, limit) => {
                annotations.search(&words, limit).await.map(Answer::Annotations)
            }
            Question::Identity(id) => graph.get(id).await.map(|one| Answer::Identities(Vec::from_iter(one))),
            Question::Find(filter) => graph.find(filter).await.map(Answer::Identities),
            Question::Walk(query) => graph.walk(query).await.map(Answer::Walk),
            Question::Read(query) => archive.read(query).await.map(Answer::Entries),
        }
    }

    /// Together they show everything that is kept, the indexes included.
    pub fn everything() -> Vec<Question> {
        let most = 1000;
        let mut all = vec![
            Question::List(ArtifactFilter { limit: most, ..ArtifactFilter::default() }),
            Question::Hashes(None, most),
            Question::Walk(query(any(), Direction::Both, 0)),
            Question::Read(ArchiveQuery { limit: most, ..ArchiveQuery::default() }),
        ];
        all.extend(["x", "y"].map(|tag| {
            Question::List(ArtifactFilter { tag: Some(tag.into()), limit: most, ..ArtifactFilter::default() })
        }));
        all.extend((0..8).map(|n| Question::Of(id(n), most)));
        for words in ["a*", "b*", "g*", "7*"] {
            all.push(Question::Search(words.into(), most));
            let words = Some(words.into());
            all.push(Question::Read(ArchiveQuery { words, limit: most, ..ArchiveQuery::default() }));
        }
        all
    }
}

fn artifact(dice: &mut Dice) -> NewArtifact {
    let mut new = new_artifact(dice.roll(8));
    new.hash = format!("h{}", dice.roll(3));
    new.lineage.tags = (0..dice.roll(3)).map(|_| dice.pick(&["x", "y"]).into()).collect();
    new.lineage.creator = dice.rarely(2).then(|| dice.pick(&["me", "you"]).into());
    new.metadata = dice.rarely(3).then(|| Payload::json(format!("{{\"n\":{}}}", dice.roll(9))));
    new
}

fn node(dice: &mut Dice) -> String {
    dice.pick(&NODES).into()
}

fn hint(dice: &mut Dice) -> Hint {
    let (kind, value) = (dice.pick(&["usb", "midi"]).into(), dice.roll(2).to_string());
    Hint { kind, value, confidence: dice.roll(5) as f64 / 4.0 }
}

fn tag(dice: &mut Dice) -> Tag {
    Tag { namespace: dice.pick(&["role", "mood"]).into(), value: dice.roll(2).to_string() }
}

fn text(dice: &mut Dice) -> String {
    (0..dice.roll(4)).map(|_| dice.pick(&WORDS)).collect::<Vec<_>>().join(dice.pick(&[" ", "-", "... "]))
}

fn search(dice: &mut Dice) -> String {
    text(dice) + dice.pick(&["", "*", " \"", " bet*"])
}

fn filter(dice: &mut Dice, limit: usize) -> IdentityFilter {
    let mut maybe = |choices: &[&str]| dice.rarely(4).then(|| dice.pick(choices).to_owned());
    IdentityFilter {
        name: maybe(&["ALPH", "bet", "ö", "."]),
        tag_namespace: maybe(&["role", "mood"]),
        tag_value: maybe(&["0", "1"]),
        hint_kind: maybe(&["usb", "midi"]),
        hint_value: maybe(&["0", "1"]),
        limit,
    }
}
