//! Timing classes of tools: how long a run is expected to take and how long its caller waits.

use std::time::Duration;

/// The five classes of typed tools. Tools that declare none are [`Timing::Sync`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The response carries the result; no job.
    #[default]
    Sync,
    /// A job; the edge waits up to 30 s for its result.
    AsyncShort,
    /// A job; the edge waits up to 120 s for its result.
    AsyncMedium,
    /// A job; the response is its id.
    AsyncLong,
    /// A job that is acknowledged at once; its failure can be queried later.
    FireAndForget,
}

impl Timing {
    pub const ALL: [Timing; 5] =
        [Timing::Sync, Timing::AsyncShort, Timing::AsyncMedium, Timing::AsyncLong, Timing::FireAndForget];

    /// `async_short`, or `AsyncShort` as HOOT01 writes it.
    pub fn parse(text: &str) -> Option<Timing> {
        Timing::ALL.into_iter().find(|timing| timing.as_str() == text || format!("{timing:?}") == text)
    }

    /// How long an edge waits for the job's result before it responds with the id; `None` without a job.
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
