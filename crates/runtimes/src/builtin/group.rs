//! Groups of built-in tools and which of them are enabled; by default none.

/// Tools that are enabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `yard.*`
    Echo,
    /// `tool.*`
    Tools,
    /// `config.*`
    Config,
    /// `cas.*`
    Cas,
    /// `artifact.*` and `annotation.*`
    Artifacts,
    /// `job.*`
    Jobs,
    /// `graph.*`
    Graph,
    /// `event.*`
    Events,
}

impl Group {
    pub const ALL: [Group; 8] = [
        Group::Echo,
        Group::Tools,
        Group::Config,
        Group::Cas,
        Group::Artifacts,
        Group::Jobs,
        Group::Graph,
        Group::Events,
    ];

    /// The key in `[builtin]`.
    pub fn key(self) -> &'static str {
        match self {
            Group::Echo => "echo",
            Group::Tools => "tools",
            Group::Config => "config",
            Group::Cas => "cas",
            Group::Artifacts => "artifacts",
            Group::Jobs => "jobs",
            Group::Graph => "graph",
            Group::Events => "events",
        }
    }
}

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
