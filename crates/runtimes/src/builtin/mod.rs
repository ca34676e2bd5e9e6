//! Tools that are part of the program. A new one is one file and one line in [`TOOLS`].

mod config;
mod entry;
mod rules;
mod services;
mod tool;
mod yard;

pub use config::{ConfigView, Section, Setting};
pub use services::Services;

use toolyard_engine::Candidate;
use toolyard_protocol::name::NameError;
use toolyard_wire::typed::{Typed, typed};

/// Every built-in tool, with the word in `[builtin]` that turns it on.
pub const TOOLS: &[Builtin] = &[
    Builtin(Group::Echo, |_| typed(yard::echo::Echo)),
    Builtin(Group::Echo, |s| typed(yard::ping::Ping(s.clock.clone()))),
    Builtin(Group::Tools, |s| typed(tool::list::List(s.registry.clone()))),
    Builtin(Group::Config, |s| typed(config::get::Get(s.config.clone()))),
];

/// One line of [`TOOLS`].
pub struct Builtin(pub Group, fn(&Services) -> Box<dyn Typed>);

/// What is turned on together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Echo,
    Tools,
    Config,
}

impl Group {
    pub const ALL: [Group; 3] = [Group::Echo, Group::Tools, Group::Config];

    /// The key in `[builtin]`.
    pub fn key(self) -> &'static str {
        match self {
            Group::Echo => "echo",
            Group::Tools => "tools",
            Group::Config => "config",
        }
    }
}

/// Which groups are on. None, unless the owner says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Group>);

impl Selection {
    pub fn all() -> Selection {
        Selection(Group::ALL.to_vec())
    }

    pub fn set(&mut self, group: Group, on: bool) {
        self.0.retain(|known| *known != group);
        if on {
            self.0.push(group);
        }
    }

    pub fn has(&self, group: Group) -> bool {
        self.0.contains(&group)
    }
}

impl Builtin {
    pub fn make(&self, services: &Services) -> Box<dyn Typed> {
        (self.1)(services)
    }
}

/// The selected tools, ready for the registry. An error means that a tool's constant is no name.
pub fn candidates(services: &Services, on: &Selection) -> Result<Vec<Candidate>, NameError> {
    let selected = TOOLS.iter().filter(|tool| on.has(tool.0));
    selected.map(|tool| entry::candidate(tool.make(services).into())).collect()
}
