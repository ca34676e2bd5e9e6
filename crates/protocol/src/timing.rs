//! How long a tool is expected to take, and so how its caller waits.

/// The five classes of seed 004. Tools that declare none are [`Timing::Sync`].
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
