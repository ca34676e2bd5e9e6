//! The outcome of a call. The result envelope's rules hold by construction: a failure has an error, no data.

use crate::{Error, Id, JobState, Payload, Sandbox};
use std::time::Duration;

/// The `status` of the result envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Success,
    Failure,
    NoChangeNeeded,
    PartialSuccess,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Failure => "failure",
            Status::NoChangeNeeded => "no_change_needed",
            Status::PartialSuccess => "partial_success",
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        [Status::Success, Status::Failure, Status::NoChangeNeeded, Status::PartialSuccess]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// The outcome of a call. Fields are private so that a failure without an error cannot be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    status: Status,
    data: Option<Payload>,
    content: Option<Payload>,
    error: Option<Error>,
    explanation: Option<String>,
    pub meta: Meta,
}

/// Metadata about the run itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    pub call_id: Option<Id>,
    pub duration: Duration,
    /// The result comes from the cache.
    pub cached: bool,
    /// The number of runs; 0 when nothing ran.
    pub attempts: u32,
    /// The sandbox that was in force; absent when no process ran.
    pub sandbox: Option<Sandbox>,
    /// The job of this call and its state when the response was written.
    pub job: Option<(Id, JobState)>,
    pub warnings: Vec<String>,
    /// The tool's own `_meta` beside its MCP content. It belongs to one run: cached results have none.
    pub tool_meta: Option<Payload>,
}

/// Why parts do not form a valid outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOutcome {
    FailureNeedsError,
    FailureHasData,
    OnlyFailuresHaveErrors,
}

impl Outcome {
    /// Checks the rules of the result envelope. `partial_success` may carry both data and an error.
    pub fn new(
        status: Status,
        data: Option<Payload>,
        error: Option<Error>,
    ) -> Result<Outcome, InvalidOutcome> {
        match status {
            Status::Failure if error.is_none() => return Err(InvalidOutcome::FailureNeedsError),
            Status::Failure if data.is_some() => return Err(InvalidOutcome::FailureHasData),
            Status::Success | Status::NoChangeNeeded if error.is_some() => {
                return Err(InvalidOutcome::OnlyFailuresHaveErrors);
            }
            _ => {}
        }
        Ok(Outcome { status, data, content: None, error, explanation: None, meta: Meta::default() })
    }

    pub fn success(data: Option<Payload>) -> Outcome {
        Outcome {
            status: Status::Success,
            data,
            content: None,
            error: None,
            explanation: None,
            meta: Meta::default(),
        }
    }

    pub fn failure(error: Error) -> Outcome {
        Outcome {
            status: Status::Failure,
            data: None,
            content: None,
            error: Some(error),
            explanation: None,
            meta: Meta::default(),
        }
    }

    /// Adds the raw MCP content array that the tool returned.
    pub fn with_content(mut self, content: Payload) -> Outcome {
        self.content = Some(content);
        self
    }

    pub fn with_explanation(mut self, explanation: impl Into<String>) -> Outcome {
        self.explanation = Some(explanation.into());
        self
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn data(&self) -> Option<&Payload> {
        self.data.as_ref()
    }

    pub fn content(&self) -> Option<&Payload> {
        self.content.as_ref()
    }

    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    pub fn error_mut(&mut self) -> Option<&mut Error> {
        self.error.as_mut()
    }

    pub fn explanation(&self) -> Option<&str> {
        self.explanation.as_deref()
    }

    /// Every payload that the tool returned, for redaction.
    pub fn payloads_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        self.data.iter_mut().chain(self.content.iter_mut()).chain(self.meta.tool_meta.iter_mut())
    }

    pub fn explanation_mut(&mut self) -> Option<&mut String> {
        self.explanation.as_mut()
    }
}

impl From<Result<Outcome, Error>> for Outcome {
    fn from(result: Result<Outcome, Error>) -> Outcome {
        result.unwrap_or_else(Outcome::failure)
    }
}

impl std::fmt::Display for InvalidOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            InvalidOutcome::FailureNeedsError => "status 'failure' needs an 'error'",
            InvalidOutcome::FailureHasData => "status 'failure' must have no 'data'",
            InvalidOutcome::OnlyFailuresHaveErrors => {
                "'error' is allowed with 'failure' and 'partial_success' only"
            }
        })
    }
}

impl std::error::Error for InvalidOutcome {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn the_rules_of_the_result_envelope_hold() {
        let data = || Some(Payload::json("{}"));
        let error = || Some(Error::new(ErrorKind::ToolFailed, "it broke"));
        use InvalidOutcome::*;
        use Status::*;
        let table = [
            (Failure, None, None, Err(FailureNeedsError)),
            (Failure, data(), None, Err(FailureNeedsError)),
            (Failure, data(), error(), Err(FailureHasData)),
            (Failure, None, error(), Ok(())),
            (Success, data(), error(), Err(OnlyFailuresHaveErrors)),
            (Success, None, None, Ok(())),
            (NoChangeNeeded, None, error(), Err(OnlyFailuresHaveErrors)),
            (NoChangeNeeded, data(), None, Ok(())),
            (PartialSuccess, data(), error(), Ok(())),
        ];
        for (status, data, error, expected) in table {
            let built = Outcome::new(status, data, error).map(|_| ());
            assert_eq!(built, expected, "{status:?}");
        }
    }

    #[test]
    fn only_the_four_statuses_exist() {
        assert_eq!(Status::parse("partial_success"), Some(Status::PartialSuccess));
        assert_eq!(Status::parse("banana"), None);
    }
}
