//! Built-in tools. A new tool is one file and one line in [`TOOLS`].

mod annotation;
mod artifact;
mod cas;
mod config;
mod entry;
mod event;
mod files;
mod graph;
mod group;
mod job;
mod services;
mod tool;
mod validate;
mod yard;

pub use config::{ConfigView, Section, Setting};
pub use files::YardFiles;
pub use group::{Group, Selection};
pub use services::{LazyStores, Services, Stores};

use std::sync::Arc;
use toolyard_engine::Candidate;
use toolyard_protocol::name::NameError;
use toolyard_wire::typed::{Typed, typed};

/// Every built-in tool, with the group that enables it.
pub const TOOLS: &[Builtin] = &[
    Builtin(Group::Echo, |_| typed(yard::echo::Echo)),
    Builtin(Group::Echo, |s| typed(yard::ping::Ping(s.clone()))),
    Builtin(Group::Tools, |s| typed(tool::list::List(s.clone()))),
    Builtin(Group::Config, |s| typed(config::get::Get(s.clone()))),
    Builtin(Group::Cas, |s| typed(cas::store::Store(s.clone()))),
    Builtin(Group::Cas, |s| typed(cas::inspect::Inspect(s.clone()))),
    Builtin(Group::Cas, |s| typed(cas::get::Get(s.clone()))),
    Builtin(Group::Cas, |s| typed(cas::upload_file::UploadFile(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(artifact::upload::Upload(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(artifact::create::Create(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(artifact::get::Get(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(artifact::list::List(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(annotation::add::Add(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(annotation::list::List(s.clone()))),
    Builtin(Group::Artifacts, |s| typed(annotation::search::Search(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::bind::Bind(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::tag::AddTag(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::connect::Connect(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::find::Find(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::query::Query(s.clone()))),
    Builtin(Group::Graph, |s| typed(graph::context::Context(s.clone()))),
    Builtin(Group::Jobs, |s| typed(job::status::GetStatus(s.clone()))),
    Builtin(Group::Jobs, |s| typed(job::list::List(s.clone()))),
    Builtin(Group::Jobs, |s| typed(job::poll::Poll(s.clone()))),
    Builtin(Group::Jobs, |s| typed(job::cancel::Cancel(s.clone()))),
    Builtin(Group::Jobs, |_| typed(job::sleep::Sleep)),
    Builtin(Group::Events, |s| typed(event::poll::Poll(s.clone()))),
];

/// One line of [`TOOLS`].
pub struct Builtin(pub Group, fn(&Arc<Services>) -> Box<dyn Typed>);

impl Builtin {
    pub fn make(&self, services: &Arc<Services>) -> Box<dyn Typed> {
        (self.1)(services)
    }
}

/// Registry candidates of the selected tools. Fails if the name constant of a tool is invalid.
pub fn candidates(services: &Arc<Services>, on: &Selection) -> Result<Vec<Candidate>, NameError> {
    let selected = TOOLS.iter().filter(|tool| on.has(tool.0));
    selected.map(|tool| entry::candidate(tool.make(services).into())).collect()
}
