//! How long a tool is expected to take, and so how its caller waits.

use std::time::Duration;

/// The five classes of typed tools. Tools that declare none are [`Timing::Sync`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Answered in the request itself, no job.
    #[default]
    Sync,
    /// A job the edge waits for, 30 s.
    AsyncShort,
    /// A job the edge waits for, 120 s.
    AsyncMedium,
    /// A job whose id is the answer.
    AsyncLong,
    /// A job that is acknowledged at once; its failure can be queried.
    FireAndForget,
}

impl Timing {
    pub const ALL: [Timing; 5] =
        [Timing::Sync, Timing::AsyncShort, Timing::AsyncMedium, Timing::AsyncLong, Timing::FireAndForget];

    /// `async_short`, or `AsyncShort` as HOOT01 writes it.
    pub fn parse(text: &str) -> Option<Timing> {
        Timing::ALL.into_iter().find(|timing| timing.as_str() == text || format!("{timing:?}") == text)
    }

    /// How long an edge waits for the job's end before it answers with its id; `None` without a job.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Timing::Sync => None,
            Timing::AsyncShort => Some(Duration::from_secs(30)),
            Timing::AsyncMedium => Some(Duration::from_secs(120)),
            Timing::AsyncLong | Timing::FireAndForget => Some(Duration::ZERO),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Timing::Sync => "sync",
            Timing::AsyncShort => "async_short",
            Timing::AsyncMedium => "async_medium",
            Timing::AsyncLong => "async_long",
            Timing::FireAndForget => "fire_and_forget",
        }
    }
}
