//! The Model Context Protocol: messages of every revision. Code outside this module does not depend on the
//! differences between revisions.

pub mod client;
pub mod completion;
pub mod contents;
pub mod failure;
pub mod headers;
pub mod initialize;
pub mod input_requests;
pub mod listen;
pub mod lists;
pub mod meta;
pub mod notifications;
pub mod prompts;
pub mod resources;
pub mod result;
pub mod tasks;
pub mod tools;
pub mod v1;

/// The method of a request. Names that only a dialect has stand for the same method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Initialize,
    Ping,
    Discover,
    ListTools,
    CallTool,
    ListPrompts,
    GetPrompt,
    CallPrompt,
    ListResources,
    ListTemplates,
    ReadResource,
    WriteResource,
    DeleteResource,
    Subscribe,
    Unsubscribe,
    Complete,
    SetLogLevel,
    Listen,
    Task(TaskMethod),
    /// Not a method of MCP.
    Other(Box<str>),
}

/// A method that follows a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskMethod {
    Get,
    Update,
    Cancel,
}

impl Method {
    pub fn parse(name: &str) -> Method {
        match name {
            "tools/call" => Method::CallTool,
            "tools/list" => Method::ListTools,
            "ping" => Method::Ping,
            "initialize" => Method::Initialize,
            "server/discover" => Method::Discover,
            "prompts/list" | "prompt/list" => Method::ListPrompts,
            "prompts/get" => Method::GetPrompt,
            "prompt/call" => Method::CallPrompt,
            "resources/list" => Method::ListResources,
            "resources/templates/list" | "resources/template" => Method::ListTemplates,
            "resources/read" => Method::ReadResource,
            "resources/write" => Method::WriteResource,
            "resources/delete" => Method::DeleteResource,
            "resources/subscribe" => Method::Subscribe,
            "resources/unsubscribe" | "notification/resources/unsubscribed" => Method::Unsubscribe,
            "completion/complete" => Method::Complete,
            "logging/setLevel" => Method::SetLogLevel,
            "subscriptions/listen" => Method::Listen,
            "tasks/get" => Method::Task(TaskMethod::Get),
            "tasks/update" => Method::Task(TaskMethod::Update),
            "tasks/cancel" => Method::Task(TaskMethod::Cancel),
            other => Method::Other(other.into()),
        }
    }

    /// The name in the standard.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Initialize => "initialize",
            Method::Ping => "ping",
            Method::Discover => "server/discover",
            Method::ListTools => "tools/list",
            Method::CallTool => "tools/call",
            Method::ListPrompts => "prompts/list",
            Method::GetPrompt => "prompts/get",
            Method::CallPrompt => "prompt/call",
            Method::ListResources => "resources/list",
            Method::ListTemplates => "resources/templates/list",
            Method::ReadResource => "resources/read",
            Method::WriteResource => "resources/write",
            Method::DeleteResource => "resources/delete",
            Method::Subscribe => "resources/subscribe",
            Method::Unsubscribe => "resources/unsubscribe",
            Method::Complete => "completion/complete",
            Method::SetLogLevel => "logging/setLevel",
            Method::Listen => "subscriptions/listen",
            Method::Task(TaskMethod::Get) => "tasks/get",
            Method::Task(TaskMethod::Update) => "tasks/update",
            Method::Task(TaskMethod::Cancel) => "tasks/cancel",
            Method::Other(name) => name,
        }
    }
}

/// The supported revisions, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    /// Stateless: no handshake, no session.
    V2026_07_28,
}

impl Revision {
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    pub const NEWEST: Revision = Revision::V2026_07_28;

    /// The newest one with a handshake; also used for clients that request an unknown one.
    pub const NEWEST_HANDSHAKE: Revision = Revision::V2025_11_25;

    pub fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(text: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    pub fn is_stateless(self) -> bool {
        self >= Revision::V2026_07_28
    }

    /// Only one revision has batches.
    pub fn has_batches(self) -> bool {
        self == Revision::V2025_03_26
    }

    /// Tool annotations and progress messages.
    pub fn has_annotations(self) -> bool {
        self >= Revision::V2025_03_26
    }

    /// Titles, output schemas and structured content.
    pub fn has_structure(self) -> bool {
        self >= Revision::V2025_06_18
    }

    pub fn has_icons(self) -> bool {
        self >= Revision::V2025_11_25
    }
}
